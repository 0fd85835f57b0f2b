//! Queues that all servers share: lists in Redis. The place at the head has the turn.
//!
//! A place names its server, so those of a dead one are skipped. Who waits is called when it may be his turn, and looks by
//! himself once in a while, for a call may be missed and nobody calls for the dead.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::inner::Inner;
use super::notifiers::Notifiers;
use crate::store::{QueuePermit, QueueTicket, StoreError};

/// A queue, and a place in it that somebody leaves.
pub(super) type ReleasedSlot = (String, String);

/// A place in a queue; dropping it leaves it.
struct QueueSlot {
    queue: String,
    slot: String,
    notifiers: Arc<Notifiers>,
    released: UnboundedSender<ReleasedSlot>,
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        self.notifiers.remove(&self.slot);
        let slot = (
            std::mem::take(&mut self.queue),
            std::mem::take(&mut self.slot),
        );
        // Where nobody takes it any more the store is gone, and its places go with its lease.
        let _ = self.released.send(slot);
    }
}

/// Takes a place in a queue.
pub(super) async fn enqueue(
    inner: Arc<Inner>,
    notifiers: Arc<Notifiers>,
    released: UnboundedSender<ReleasedSlot>,
    queue: &str,
) -> Result<QueueTicket, StoreError> {
    let slot = QueueSlot {
        queue: queue.to_owned(),
        slot: inner.token(),
        notifiers: notifiers.clone(),
        released,
    };
    let notify = notifiers.insert(&slot.slot);
    let mut mine = try_acquire(&inner, &slot).await?;
    Ok(async move {
        while !mine {
            let _ = timeout(inner.lease / 2, notify.notified()).await;
            // While Redis is away it is nobody's turn.
            mine = try_acquire(&inner, &slot).await.unwrap_or(false);
        }
        Ok(QueuePermit::new(move || drop(slot)))
    }
    .boxed())
}

/// Takes the place unless it is taken, and says whether it is its turn.
async fn try_acquire(inner: &Inner, slot: &QueueSlot) -> Result<bool, StoreError> {
    let call = inner
        .scripts
        .enqueue
        .call()
        .arg(&slot.queue)
        .arg(&slot.slot)
        .arg(inner.lease_ms());
    inner.connection.call(&call).await
}

/// Leaves places for those who cannot wait until it is done.
pub(super) async fn release_slots(
    inner: Arc<Inner>,
    mut released: UnboundedReceiver<ReleasedSlot>,
) {
    while let Some((queue, slot)) = released.recv().await {
        let call = inner.scripts.leave.call().arg(&queue).arg(&slot);
        loop {
            let left: Result<String, StoreError> =
                inner.connection.call_until(&call, inner.lease).await;
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
