//! The settings of the service.

use std::time::Duration;

use base::settings;
use serde::Deserialize;

use crate::store::{Budget, Retention};

/// The settings of a [`Service`](crate::service::Service).
#[derive(Debug, Clone)]
pub struct Settings {
    /// The timeout of a run. The server then stops the run, and the task fails.
    pub timeout: Duration,
    /// Whether a 0.3 request without `blocking` receives the task at once instead of the answer.
    pub async_mode: bool,
    /// What the server does with a message for a task that is working.
    pub while_working: WhileWorking,
    /// The session of messages without a context; `None` creates a session for each of them.
    pub session_id: Option<String>,
    /// The agent of requests that name none.
    pub agent_id: Option<String>,
    /// Whether the server may have several clients. Session ids then contain the name of the client.
    pub several_clients: bool,
    /// How long the server keeps terminal tasks.
    pub retention: Retention,
    /// How long an interrupted task waits for its client before it fails.
    pub unanswered: Duration,
    /// Limits on runs, tasks and bytes.
    pub limits: ServiceLimits,
}

/// What the server does with a message for a task that is working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhileWorking {
    /// Refuses it.
    #[default]
    Refuse,
    /// Starts a turn with it when the running turn has ended.
    NextTurn,
}

impl WhileWorking {
    /// Returns whether a task that is working accepts messages.
    pub(crate) fn accepts(self) -> bool {
        self != Self::Refuse
    }
}

settings! {
    /// The limits of a [`Service`](crate::service::Service).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    pub struct ServiceLimits {
        /// The maximum number of concurrent runs. Further runs wait.
        pub runs: usize = 16,
        /// The maximum number of unfinished tasks of one client.
        pub tasks_per_client: usize = 1000,
        /// The maximum number of parts of a message.
        pub parts: usize = 100,
        /// The maximum `historyLength`, in messages.
        pub history: usize = 1000,
        /// The maximum size of the artifacts of one task, and of one message of the agent, in bytes of JSON.
        pub artifact_bytes: usize = 32 << 20,
        /// The maximum size of the tasks on a page, in bytes of JSON. A single larger task still fits on a page.
        pub page_bytes: usize = 16 << 20,
        /// The maximum size of the stored tasks, in bytes.
        #[serde(flatten)]
        pub stored_bytes: Budget,
        /// The maximum number of push notification configurations of one task.
        pub pushes_per_task: usize = 10,
        /// The maximum number of queued notifications of all tasks.
        pub waiting_pushes: usize = 10_000,
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(300),
            async_mode: true,
            while_working: WhileWorking::default(),
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
