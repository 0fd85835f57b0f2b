//! Queues that all servers share: lists in Redis, whose first element has the turn.
//!
//! A slot names its server, so that scripts skip the slots of dead servers. Redis notifies the next slot. A waiter also
//! checks from time to time, because a notification may get lost and a dead server sends none.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::inner::Inner;
use super::notifiers::Notifiers;
use crate::store::{QueuePermit, QueueTicket, StoreError};

/// A queue and a slot to remove from it.
pub(super) type ReleasedSlot = (String, String);

/// A slot in a queue. Dropping it removes it.
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
        // The receiver is gone once the store is closed, and the slots expire with the lease.
        let _ = self.released.send(slot);
    }
}

/// Joins a queue.
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
            // While Redis is away, no slot has the turn.
            mine = try_acquire(&inner, &slot).await.unwrap_or(false);
        }
        Ok(QueuePermit::new(move || drop(slot)))
    }
    .boxed())
}

/// Adds the slot unless it is there, and returns whether it has the turn.
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

/// Removes slots on behalf of `Drop`, which cannot wait.
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
                // While this server lives, others do not skip the slot, so it retries without end.
                Err(why) => {
                    tracing::warn!(%why, "cannot remove a slot from a queue yet");
                    tokio::time::sleep(inner.lease / 3).await;
                }
            }
        }
    }
}
