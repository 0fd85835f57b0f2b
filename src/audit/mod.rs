//! The audit log: caller, time, target and outcome of each call, never its content.

mod record;

use std::path::PathBuf;
use std::sync::Arc;

use base::log::Log;

use base::audit::Lines;
pub use record::Record;

/// The audit log of one instance.
pub struct AuditLog(Lines);

impl AuditLog {
    pub fn new(path: PathBuf, max_bytes: u64, log: Arc<dyn Log>) -> Self {
        Self(Lines::new(path, max_bytes, log))
    }

    pub fn write(&self, record: &Record<'_>) {
        self.0.write(record.line());
    }

    /// Waits until the lines written so far are in the file. A later line is written by the thread that adds it.
    pub fn close(&self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;
