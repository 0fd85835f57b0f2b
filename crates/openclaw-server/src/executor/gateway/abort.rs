//! Aborts a run at the gateway: on request, or when its future is dropped.

use std::time::Duration;

use tokio::time::timeout;

use peer::Peer;

/// How long an abort may take, including the connection.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to abort a run.
pub(super) struct AbortRequest {
    peer: Box<dyn Peer>,
    run: String,
}

impl AbortRequest {
    pub(super) fn new(peer: Box<dyn Peer>, run: String) -> Self {
        Self { peer, run }
    }

    pub(super) async fn abort(self) {
        // If the abort fails, the run ends at its own timeout.
        let _ = timeout(ABORT_TIMEOUT, self.peer.cancel(&self.run)).await;
    }
}

/// Aborts a run when it is dropped, unless the request has been taken out of it.
pub(super) struct AbortGuard(Option<AbortRequest>);

impl AbortGuard {
    pub(super) fn new(abort_request: AbortRequest) -> Self {
        Self(Some(abort_request))
    }

    pub(super) fn take(&mut self) -> Option<AbortRequest> {
        self.0.take()
    }
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if let (Some(abort_request), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(abort_request.abort());
        }
    }
}
