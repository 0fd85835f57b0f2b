//! The settings of an agent.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gateway_server::clients::AgentEvent;
use gateway_server::config::BackendConfig;

/// The settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Its name.
    pub name: String,
    /// The number of turns that run at the same time. With that many, the agent is `busy`.
    pub concurrency: NonZeroUsize,
    /// The time limit of a turn.
    pub timeout: Duration,
    /// The maximum depth of a chain of delegations; the agent refuses a deeper message.
    pub max_depth: u64,
}

impl AgentSettings {
    /// The default of [`max_depth`](Self::max_depth).
    pub const MAX_DEPTH: u64 = 4;

    /// Creates the settings of an agent, with the defaults of [`BackendConfig`].
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            concurrency: BackendConfig::CONCURRENCY,
            timeout: Duration::from_millis(BackendConfig::TIMEOUT_MS),
            max_depth: Self::MAX_DEPTH,
        }
    }
}

/// Receives the events of an agent.
pub(super) type EventSink = Arc<dyn Fn(&AgentEvent) + Send + Sync>;
