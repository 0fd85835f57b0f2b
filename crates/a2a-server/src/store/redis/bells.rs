//! Rings for those in this process who wait for something that happens in Redis.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// One bell for all cancellations, and one for each place in a queue. A bell that rings before anybody listens is heard.
#[derive(Default)]
pub(super) struct Bells {
    pub(super) cancels: Notify,
    places: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Bells {
    /// A bell for a place.
    pub(super) fn hang(&self, place: &str) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        self.places().insert(place.to_owned(), bell.clone());
        bell
    }

    /// Nobody listens to a place's bell any more.
    pub(super) fn take_down(&self, place: &str) {
        self.places().remove(place);
    }

    /// It may be this place's turn.
    pub(super) fn turn(&self, place: &str) {
        if let Some(bell) = self.places().get(place) {
            bell.notify_one();
        }
    }

    /// Some rings may have been missed, so everybody looks.
    pub(super) fn all(&self) {
        self.cancels.notify_one();
        for bell in self.places().values() {
            bell.notify_one();
        }
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
