//! The log of what is shared with the plugin, in the server's own.

use common::log::{Level, Log};

/// Hands lines on to `tracing`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TracingLog;

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
