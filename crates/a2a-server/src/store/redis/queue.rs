//! Queues that all servers share: lists in Redis. The first slot in a list is the head of its queue.
//!
//! A slot contains the id of its server, so that the scripts skip slots of dead servers. Redis notifies the next slot.
//! A waiter also polls, because notifications may be lost and a dead server sends none.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::Inner;
use crate::store::{QueuePermit, QueueTicket, StoreError};

/// The queue and the slot that the background task has to remove.
pub(super) type ReleasedSlot = (String, String);

/// A slot in a queue. Dropping it removes it from Redis.
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
        // The send fails after the store is closed. The slots then expire with the lease.
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
    let mut is_head = try_acquire(&inner, &slot).await?;
    Ok(async move {
        while !is_head {
            let _ = timeout(inner.lease / 2, notify.notified()).await;
            // While Redis is unavailable, no slot counts as the head.
            is_head = try_acquire(&inner, &slot).await.unwrap_or(false);
        }
        Ok(QueuePermit::new(slot))
    }
    .boxed())
}

/// Adds the slot if it is missing, and returns whether it is the head of the queue.
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

/// Removes dropped slots, because `Drop` cannot wait for Redis.
pub(super) async fn release_slots(
    inner: Arc<Inner>,
    mut released: UnboundedReceiver<ReleasedSlot>,
) {
    while let Some((queue, slot)) = released.recv().await {
        let call = inner.scripts.leave.call().arg(&queue).arg(&slot);
        loop {
            let removed: Result<String, StoreError> =
                inner.connection.call_until(&call, inner.lease).await;
            match removed {
                Ok(_) => break,
                // Retry without limit: other servers do not skip the slot while this server is alive.
                Err(error) => {
                    tracing::warn!(%error, "cannot remove a slot from a queue yet");
                    tokio::time::sleep(inner.lease / 3).await;
                }
            }
        }
    }
}

/// A notifier for cancel requests, and one for each queue slot. A notification without a waiter is kept for the next
/// one.
#[derive(Default)]
pub(super) struct Notifiers {
    pub(super) cancels: Notify,
    slots: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Notifiers {
    /// Adds the notifier of a slot.
    pub(super) fn insert(&self, slot: &str) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.slots.lock().insert(slot.to_owned(), notify.clone());
        notify
    }

    /// Removes the notifier of a slot.
    pub(super) fn remove(&self, slot: &str) {
        self.slots.lock().remove(slot);
    }

    /// Notifies the waiter of a slot, which may be at the head of its queue.
    pub(super) fn notify_slot(&self, slot: &str) {
        if let Some(notify) = self.slots.lock().get(slot) {
            notify.notify_one();
        }
    }

    /// Notifies all waiters, because notifications may have been lost.
    pub(super) fn notify_all(&self) {
        self.cancels.notify_one();
        for notify in self.slots.lock().values() {
            notify.notify_one();
        }
    }
}
