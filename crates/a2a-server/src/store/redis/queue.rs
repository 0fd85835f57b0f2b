//! Queues that all servers share: lists in Redis. The place at the head has the turn.
//!
//! A place names its server, so those of a dead one are skipped. Who waits is called when it may be his turn, and looks by
//! himself once in a while, for a call may be missed and nobody calls for the dead.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::bells::Bells;
use super::inner::Inner;
use crate::store::{StoreError, Turn, Waiting};

/// A queue, and a place in it that somebody leaves.
pub(super) type Leaving = (String, String);

/// A place in a queue; dropping it leaves it.
struct Place {
    queue: String,
    place: String,
    bells: Arc<Bells>,
    leaving: UnboundedSender<Leaving>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bells.take_down(&self.place);
        let place = (
            std::mem::take(&mut self.queue),
            std::mem::take(&mut self.place),
        );
        // Where nobody takes it any more the store is gone, and its places go with its lease.
        let _ = self.leaving.send(place);
    }
}

/// Takes a place in a queue.
pub(super) async fn enter(
    inner: Arc<Inner>,
    bells: Arc<Bells>,
    leaving: UnboundedSender<Leaving>,
    queue: &str,
) -> Result<Waiting, StoreError> {
    let place = Place {
        queue: queue.to_owned(),
        place: inner.token(),
        bells: bells.clone(),
        leaving,
    };
    let bell = bells.hang(&place.place);
    let mut mine = look(&inner, &place).await?;
    Ok(async move {
        while !mine {
            let _ = timeout(inner.lease / 2, bell.notified()).await;
            // While Redis is away it is nobody's turn.
            mine = look(&inner, &place).await.unwrap_or(false);
        }
        Ok(Turn::new(move || drop(place)))
    }
    .boxed())
}

/// Takes the place unless it is taken, and says whether it is its turn.
async fn look(inner: &Inner, place: &Place) -> Result<bool, StoreError> {
    let call = inner
        .scripts
        .enter
        .call()
        .arg(&place.queue)
        .arg(&place.place)
        .arg(inner.lease_ms());
    inner.link.call(&call).await
}

/// Leaves places for those who cannot wait until it is done.
pub(super) async fn leave_all(inner: Arc<Inner>, mut leaving: UnboundedReceiver<Leaving>) {
    while let Some((queue, place)) = leaving.recv().await {
        let call = inner.scripts.leave.call().arg(&queue).arg(&place);
        loop {
            let left: Result<String, StoreError> =
                inner.link.call_patiently(&call, inner.lease).await;
            match left {
                Ok(_) => break,
                // This server lives, so nobody skips the place: it has to be left however long that takes.
                Err(why) => {
                    tracing::warn!(%why, "a place in a queue could not be left yet");
                    tokio::time::sleep(inner.lease / 3).await;
                }
            }
        }
    }
}
