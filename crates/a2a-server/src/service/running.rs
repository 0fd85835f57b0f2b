//! A run of the executor, apart from the task, so that one that panics or hangs takes nothing with it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::executor::{Outcome, Reports};
use crate::metrics::Metrics;

/// Starts a run, or reattaches to one.
pub(super) type Start =
    Box<dyn FnOnce(Reports, CancellationToken) -> BoxFuture<'static, Outcome> + Send>;

/// How long a run that was told to stop may take before it is dropped.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A run under way. It stops when this is dropped.
pub(super) struct Running {
    handle: JoinHandle<Outcome>,
    stop: CancellationToken,
    began: Instant,
    metrics: Metrics,
}

impl Running {
    pub(super) fn start(metrics: Metrics, reports: Reports, start: Start) -> Self {
        let stop = CancellationToken::new();
        let told = stop.clone();
        metrics.record_run_start();
        Self {
            handle: tokio::spawn(async move { start(reports, told).await }),
            stop,
            began: Instant::now(),
            metrics,
        }
    }

    /// How it ended. Not to be asked again after that.
    pub(super) async fn outcome(&mut self) -> Outcome {
        match (&mut self.handle).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(%error, "the executor ended a run by a panic");
                Outcome::Failed {
                    reason: "internal",
                    text: "the run broke off by a fault of the server; tell its operator, the log says more".to_owned(),
                }
            }
        }
    }

    /// Has it stop, and returns when it has, or was dropped because it did not.
    pub(super) async fn stop(mut self, dropping: &CancellationToken, task_id: &str) {
        self.stop.cancel();
        tokio::select! {
            biased;
            _ = &mut self.handle => return,
            () = dropping.cancelled() => {}
            () = sleep(STOP_TIMEOUT) => {}
        }
        tracing::warn!(
            task_id,
            "a run that was told to stop did not, and is dropped"
        );
        self.handle.abort();
        let _ = (&mut self.handle).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.handle.abort();
        self.metrics.record_run_end(self.began.elapsed());
    }
}
