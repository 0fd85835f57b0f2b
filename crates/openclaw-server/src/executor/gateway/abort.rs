//! Aborts a run at the gateway: on request, or when its future is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a_server::executor::Outcome;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use peer::Peer;

use super::{RunHandle, Runs};

/// How long an abort may take, including the connection.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to abort a run.
struct AbortRequest {
    peer: Box<dyn Peer>,
    run: String,
}

impl AbortRequest {
    async fn abort(self) {
        // If the abort fails, the run ends at its own timeout.
        let _ = timeout(ABORT_TIMEOUT, self.peer.cancel(&self.run)).await;
    }
}

/// Aborts a run when it is dropped, unless the request has been taken out of it or the executor is detached.
struct AbortGuard {
    abort_request: Option<AbortRequest>,
    runs: Arc<Runs>,
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if self.runs.detached.load(Ordering::Relaxed) {
            return;
        }
        if let (Some(abort_request), Ok(runtime)) = (
            self.abort_request.take(),
            tokio::runtime::Handle::try_current(),
        ) {
            runtime.spawn(abort_request.abort());
        }
    }
}

impl RunHandle {
    /// Polls `work` until it ends. Aborts the run at the gateway if `cancel` resolves, or if this future is dropped and
    /// the executor is not detached.
    pub(super) async fn until_canceled(
        &self,
        work: impl Future<Output = Outcome>,
        cancel: &CancellationToken,
    ) -> Outcome {
        let mut abort_guard = AbortGuard {
            abort_request: Some(AbortRequest {
                peer: self.peer(),
                run: self.run.clone(),
            }),
            runs: Arc::clone(&self.runs),
        };
        let canceled = tokio::select! {
            outcome = work => {
                drop(abort_guard.abort_request.take());
                return outcome;
            }
            () = cancel.cancelled() => abort_guard.abort_request.take(),
        };
        if let Some(abort_request) = canceled {
            abort_request.abort().await;
        }
        Outcome::Failed {
            reason: "canceled",
            text: "the run was aborted on request".into(),
        }
    }
}
