//! The audit log: who called whom, when, and what came of it; never what was said.

mod record;

use std::path::PathBuf;
use std::sync::Arc;

use common::log::Log;

use common::audit::Lines;
pub use record::Record;

/// The audit log of one instance.
pub struct AuditLog(Lines);

impl AuditLog {
    /// The log in the file at `path`; see [`Lines::new`].
    pub fn new(path: PathBuf, max_bytes: u64, log: Arc<dyn Log>) -> Self {
        Self(Lines::new(path, max_bytes, log))
    }

    /// Takes a line; see [`Lines::write`].
    pub fn write(&self, record: &Record<'_>) {
        self.0.write(record.line());
    }

    /// Returns when every line that was taken is written. Later ones are written at once, by whoever brings them.
    pub fn close(&self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests;
