//! The state that all parts of the store share.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::connection::RedisConnection;
use super::scripts::Scripts;
use crate::store::body;

/// The connection, the scripts and the identity of this server.
pub(super) struct Inner {
    pub(super) connection: RedisConnection,
    pub(super) scripts: Scripts,
    /// The prefix of keys.
    pub(super) prefix: String,
    /// The prefix of channels.
    pub(super) channels: String,
    /// The id of this server, which is new at every start.
    pub(super) server: String,
    /// How long this server counts as alive after its last heartbeat.
    pub(super) lease: Duration,
    calls: AtomicU64,
    /// The tasks that this process runs. If Redis names another owner for one of them, another server has taken it
    /// over.
    running: Mutex<HashSet<String>>,
    /// The permits for loading tasks.
    pub(super) loads: Semaphore,
}

impl Inner {
    pub(super) fn new(
        connection: RedisConnection,
        prefix: String,
        channels: String,
        server: String,
        lease: Duration,
    ) -> Self {
        Self {
            scripts: Scripts::new(&prefix, &channels, &server),
            connection,
            prefix,
            channels,
            server,
            lease,
            calls: AtomicU64::new(0),
            running: Mutex::default(),
            loads: Semaphore::new(body::MAX_LOADS),
        }
    }

    /// Returns a token that identifies a call, so that a retry after a lost response has no second effect.
    pub(super) fn token(&self) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}/{number}", self.server)
    }

    pub(super) fn lease_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_running(&self, task_id: &str) -> bool {
        self.running.lock().contains(task_id)
    }

    pub(super) fn mark_running(&self, task_id: &str) {
        let mut running = self.running.lock();
        if !running.contains(task_id) {
            running.insert(task_id.to_owned());
        }
    }

    pub(super) fn mark_ended(&self, task_id: &str) {
        self.running.lock().remove(task_id);
    }
}
