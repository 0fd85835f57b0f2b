//! Wakes the tokio tasks of this process that wait for an event in Redis.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

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
