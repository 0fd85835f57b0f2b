//! Rings for those in this process who wait for something that happens in Redis.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// One bell for all cancellations, and one for each place in a queue. A bell that rings before anybody listens is heard.
#[derive(Default)]
pub(super) struct Notifiers {
    pub(super) cancels: Notify,
    slots: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Notifiers {
    /// A bell for a place.
    pub(super) fn insert(&self, slot: &str) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        self.slots().insert(slot.to_owned(), notify.clone());
        notify
    }

    /// Nobody listens to a place's bell any more.
    pub(super) fn remove(&self, slot: &str) {
        self.slots().remove(slot);
    }

    /// It may be this place's turn.
    pub(super) fn notify_slot(&self, slot: &str) {
        if let Some(notify) = self.slots().get(slot) {
            notify.notify_one();
        }
    }

    /// Some rings may have been missed, so everybody looks.
    pub(super) fn notify_all(&self) {
        self.cancels.notify_one();
        for notify in self.slots().values() {
            notify.notify_one();
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
