//! The sink of log lines: the host.

use crate::named;

/// The target of the `tracing` spans that the servers offer for export. No server enters one, so no log line shows them.
///
/// `otel.name` renames a span, `traceparent` is its parent in another process, and `error.type` marks it as failed; all other fields are
/// attributes. They never have contents, credentials, queries or text of peers.
pub const SPANS: &str = "otel";

/// Receives the lines of one instance. The library itself writes to no stream.
pub trait Log: Send + Sync + 'static {
    /// Receives one line, without a line end. Any thread may call it.
    fn log(&self, level: Level, line: &str);

    /// Returns whether this level is logged, so that callers need not format other lines.
    fn enabled(&self, _level: Level) -> bool {
        true
    }
}

named! {
    /// The level of a line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        /// A detail for debugging the plugin.
        Debug = "debug",
        /// A failed call.
        Info = "info",
        /// A condition that a person should check. The plugin continues.
        Warn = "warn",
        /// A failure.
        Error = "error",
    }
}

/// Drops every line, for a host without a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Log for Silent {
    fn log(&self, _level: Level, _line: &str) {}

    fn enabled(&self, _level: Level) -> bool {
        false
    }
}

/// Keeps every line as `level: text`, for tests.
#[cfg(any(test, feature = "test-util"))]
#[derive(Default)]
pub struct Recorder(pub std::sync::Mutex<Vec<String>>);

#[cfg(any(test, feature = "test-util"))]
#[expect(
    clippy::unwrap_used,
    reason = "a poisoned lock fails the test that reads it"
)]
impl Log for Recorder {
    fn log(&self, level: Level, line: &str) {
        let mut lines = self.0.lock().unwrap();
        lines.push(format!("{}: {line}", level.as_str()));
    }
}
