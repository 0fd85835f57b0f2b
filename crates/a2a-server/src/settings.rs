//! What the server keeps to.

use std::time::Duration;

use crate::store::{Budget, Retention};

/// What the server is asked to keep to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a run may take. Then it is stopped and its task has failed.
    pub timeout: Duration,
    /// Whether a 0.3 request that does not say `blocking` is answered with the task at once, instead of the answer.
    pub async_mode: bool,
    /// The session of messages that name no context; each has its own where there is none.
    pub session_id: Option<String>,
    /// The agent that is asked where a request names none.
    pub agent_id: Option<String>,
    /// Whether there may be several clients, so that the client's name is part of every session id.
    pub several_clients: bool,
    /// How long settled tasks are kept.
    pub retention: Retention,
    /// How long a task waits for its client; then it has failed.
    pub unanswered: Duration,
    /// The limits.
    pub limits: Limits,
}

/// How much there may be of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Runs at a time; more wait.
    pub runs: usize,
    /// Unsettled tasks of one client.
    pub tasks_per_client: usize,
    /// Parts of a message.
    pub parts: usize,
    /// Messages that a request can ask for with `historyLength`.
    pub history: usize,
    /// What one task holds of its agent's: its artifacts, or what is said in one message, in bytes as JSON.
    pub artifact_bytes: usize,
    /// What a page of a list holds, in bytes as JSON, unless its first task is larger.
    pub page_bytes: usize,
    /// The bytes of tasks that are kept.
    pub kept: Budget,
    /// Push notification configurations of one task.
    pub pushes_per_task: usize,
    /// Notifications that wait to be delivered, all tasks together.
    pub waiting_pushes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            runs: 16,
            tasks_per_client: 1000,
            parts: 100,
            history: 1000,
            artifact_bytes: 32 << 20,
            page_bytes: 16 << 20,
            kept: Budget {
                per_client: 512 << 20,
                total: 4 << 30,
            },
            pushes_per_task: 10,
            waiting_pushes: 10_000,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(300),
            async_mode: true,
            session_id: None,
            agent_id: None,
            several_clients: false,
            retention: Retention {
                age: Duration::from_secs(7 * 24 * 3600),
                count: 10_000,
            },
            unanswered: Duration::from_secs(7 * 24 * 3600),
            limits: Limits::default(),
        }
    }
}
