//! The settings of the server.

use std::time::Duration;

use crate::store::{Budget, Retention};

/// The settings of a [`Service`](crate::service::Service).
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a run may take. Then the server stops it, and the task fails.
    pub timeout: Duration,
    /// Whether a 0.3 request without `blocking` receives the task at once instead of the answer.
    pub async_mode: bool,
    /// The session of messages without a context; `None` gives each its own.
    pub session_id: Option<String>,
    /// The agent for requests that name none.
    pub agent_id: Option<String>,
    /// Whether there may be several clients. Session ids then contain the client's name.
    pub several_clients: bool,
    /// How long the server keeps ended tasks.
    pub retention: Retention,
    /// How long a task waits for its client before it fails.
    pub unanswered: Duration,
    /// Limits on runs, tasks and bytes.
    pub limits: ServiceLimits,
}

/// Limits of a [`Service`](crate::service::Service).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceLimits {
    /// Concurrent runs; others wait.
    pub runs: usize,
    /// Unfinished tasks of one client.
    pub tasks_per_client: usize,
    /// Parts of a message.
    pub parts: usize,
    /// The largest `historyLength`, in messages.
    pub history: usize,
    /// The artifacts of one task, or one message of the agent, in bytes of JSON.
    pub artifact_bytes: usize,
    /// A page of a list, in bytes of JSON. A larger first task is still on the page.
    pub page_bytes: usize,
    /// The bytes of stored tasks.
    pub kept: Budget,
    /// Push notification configurations of one task.
    pub pushes_per_task: usize,
    /// Notifications of all tasks that wait for delivery.
    pub waiting_pushes: usize,
}

impl Default for ServiceLimits {
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
            limits: ServiceLimits::default(),
        }
    }
}
