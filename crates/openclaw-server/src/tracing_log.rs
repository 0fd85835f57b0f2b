//! The log of code that the server shares with the plugin.

use base::log::{Level, Log};

/// Forwards log lines to `tracing`.
#[derive(Debug, Clone, Copy)]
pub struct TracingLog;

impl Log for TracingLog {
    fn log(&self, level: Level, line: &str) {
        match level {
            Level::Error => tracing::error!("{line}"),
            Level::Warn => tracing::warn!("{line}"),
            Level::Info => tracing::info!("{line}"),
            Level::Debug => tracing::debug!("{line}"),
        }
    }
}
