//! A run of the executor. The task runner polls it within its own tokio task, so that an event wakes no other task. A
//! panic of the executor fails only this run.

use std::time::Duration;

use base::panics::{Panicked, catch_async};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::executor::{ExecutionEvents, Outcome};
use crate::metrics::Metrics;

/// The function that starts a run or reattaches to one.
pub(super) type Start =
    Box<dyn FnOnce(ExecutionEvents, CancellationToken) -> BoxFuture<'static, Outcome> + Send>;

/// How long a canceled run may take to stop before the server drops it.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A run. Dropping it stops the run.
pub(super) struct Running {
    outcome: BoxFuture<'static, Result<Outcome, Panicked>>,
    stop: CancellationToken,
    began: Instant,
    metrics: Metrics,
}

impl Running {
    pub(super) fn start(metrics: Metrics, events: ExecutionEvents, start: Start) -> Self {
        let stop = CancellationToken::new();
        let cancel = stop.clone();
        metrics.record_run_start();
        Self {
            outcome: Box::pin(catch_async(async move { start(events, cancel).await })),
            stop,
            began: Instant::now(),
            metrics,
        }
    }

    /// Waits for the outcome. Must not be called again after it has returned.
    pub(super) async fn outcome(&mut self) -> Outcome {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(%error, "a run of the executor panicked");
                Outcome::Failed {
                    reason: "internal",
                    text: "the run failed with an internal error; contact the operator, whose log has the details".to_owned(),
                }
            }
        }
    }

    /// Cancels the run, and drops it if it does not stop in time.
    pub(super) async fn stop(mut self, dropping: &CancellationToken, task_id: &str) {
        self.stop.cancel();
        tokio::select! {
            biased;
            _ = &mut self.outcome => return,
            () = dropping.cancelled() => {}
            () = sleep(STOP_TIMEOUT) => {}
        }
        tracing::warn!(
            task_id,
            "a canceled run did not stop in time and is dropped"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.metrics.record_run_end(self.began.elapsed());
    }
}
