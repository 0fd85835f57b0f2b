//! Aborting a run at the gateway, on request or because nobody waits for it any more.

use std::time::Duration;

use tokio::time::timeout;

use peer::Peer;

/// How long a run may take to be aborted, the connection included.
const ABORT: Duration = Duration::from_secs(10);

/// What it takes to abort a run.
pub(super) struct Parting {
    peer: Box<dyn Peer>,
    run: String,
}

impl Parting {
    pub(super) fn new(peer: Box<dyn Peer>, run: String) -> Self {
        Self { peer, run }
    }

    pub(super) async fn abort(self) {
        // One that cannot be aborted ends by its own time limit.
        let _ = timeout(ABORT, self.peer.cancel(&self.run)).await;
    }
}

/// A run that is aborted when this is dropped, unless what that takes was taken before.
pub(super) struct UnderWay(Option<Parting>);

impl UnderWay {
    pub(super) fn new(parting: Parting) -> Self {
        Self(Some(parting))
    }

    pub(super) fn take(&mut self) -> Option<Parting> {
        self.0.take()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(parting), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(parting.abort());
        }
    }
}
