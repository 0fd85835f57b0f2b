//! How sessions are kept.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::ServerConfig;

/// When an entry counts as kept. Whichever it is, it is written before it is acknowledged: what was acknowledged outlives a
/// gateway that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Once it is on the disk: it outlives a machine that loses power, too.
    Always,
    /// Once the operating system has it, which is told to bring it to the disk within this time.
    Interval(Duration),
    /// Once the operating system has it.
    Never,
}

/// How sessions are kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// The gateway's state; sessions are in `agents/<name>/session.jsonl` below it.
    pub state_dir: PathBuf,
    /// When an entry counts as kept.
    pub fsync: Fsync,
    /// How long after its last entry a session expires.
    pub ttl: Option<Duration>,
    /// An entry begins its session where there is none; else that is 4001.
    pub begin: bool,
    /// So many sessions in one workspace.
    pub most: usize,
    /// What may wait for the disk, in bytes.
    pub waiting: usize,
}

impl Options {
    /// How a gateway's configuration says.
    pub fn of(config: &ServerConfig) -> Self {
        Self {
            state_dir: config.state_dir.clone(),
            fsync: config.fsync(),
            ttl: config.session_ttl_ms.map(Duration::from_millis),
            begin: !config.strict,
            most: config.limits.sessions,
            waiting: config.limits.total_queue_bytes,
        }
    }
}
