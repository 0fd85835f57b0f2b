//! The settings of an agent.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use gateway_bridge::client::AgentEvent;
use gateway_server::config::BackendConfig;

/// The settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Its name.
    pub name: String,
    /// The maximum number of concurrent turns. At the maximum, the status of the agent is `busy`.
    pub concurrency: NonZeroUsize,
    /// The timeout of a turn.
    pub timeout: Duration,
    /// The maximum depth of a delegation chain. The agent refuses messages beyond it.
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
