//! The shutdown of the service.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Service;

/// How long a forced shutdown waits for the runs that it drops.
const FORCED_TIMEOUT: Duration = Duration::from_millis(200);

/// The tasks that were unfinished at the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The number of tasks that the next process continues.
    pub left: usize,
    /// The number of tasks that failed, because no other process can continue them.
    pub failed: usize,
}

impl Service {
    /// Returns whether the shutdown has begun.
    pub fn is_stopping(&self) -> bool {
        self.core.draining.is_cancelled()
    }

    /// Begins the shutdown: rejects new messages, and waits at most `time` for the tasks that run or wait for a run.
    pub async fn drain(&self, time: Duration) {
        self.core.draining.cancel();
        let _ = timeout(time, self.core.active_tasks.wait_empty()).await;
    }

    /// Shuts down within `timeout`. Leaves the runs that another process can continue, stops the others and fails their
    /// tasks, ends the streams, delivers or drops the notifications, and closes the store.
    pub async fn close(&self, timeout: Duration) -> Closed {
        self.close_until(timeout, &CancellationToken::new()).await
    }

    /// Does the same as [`close`](Self::close), but drops what still runs once `force` is cancelled.
    pub async fn close_until(&self, timeout: Duration, force: &CancellationToken) -> Closed {
        let core = &self.core;
        let mut until = Instant::now() + timeout;
        core.draining.cancel();
        if core.store.outlives_process() {
            core.executor.detach();
        }
        core.closing.cancel();
        core.tasks.close();
        // The last fifth of the timeout is reserved for runs that do not stop, for notifications, and for closing the
        // store.
        let stopping = timeout_at(until - timeout / 5, core.tasks.wait());
        let stopped = force.run_until_cancelled(stopping).await;
        if !matches!(stopped, Some(Ok(()))) {
            core.dropping.cancel();
            if force.is_cancelled() {
                until = until.min(Instant::now() + FORCED_TIMEOUT);
            }
            if timeout_at(until, core.tasks.wait()).await.is_err() {
                tracing::error!(
                    tasks = core.tasks.len(),
                    "not all background tasks have stopped"
                );
            }
        }
        core.ending_streams.cancel();
        let notifying = until.saturating_duration_since(Instant::now());
        core.notifier.close(notifying).await;
        core.executor.close().await;
        if let Err(error) = core.store.close().await {
            tracing::error!(%error, "the task store did not close");
        }
        Closed {
            left: core.left.load(Ordering::Relaxed),
            failed: core.failed.load(Ordering::Relaxed),
        }
    }
}
