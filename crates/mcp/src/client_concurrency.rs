//! Shares of the tool for the clients of a server.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits the calls of each client that run at once.
pub(crate) struct CallSlots {
    per_client: usize,
    clients: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// The right to run a call, until all clones are dropped. The default is that of a server without limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallSlot(#[allow(dead_code, reason = "held")] Option<Arc<OwnedSemaphorePermit>>);

impl CallSlots {
    pub(crate) fn new(per_client: usize) -> Self {
        Self {
            per_client,
            clients: Mutex::default(),
        }
    }

    /// Waits for a slot of `client`, in the order of its calls.
    pub(crate) async fn acquire(&self, client: &str) -> Option<CallSlot> {
        let permit = self.slots_of(client).acquire_owned().await.ok()?;
        Some(CallSlot(Some(Arc::new(permit))))
    }

    fn slots_of(&self, client: &str) -> Arc<Semaphore> {
        let mut clients = self.clients.lock();
        if let Some(slots) = clients.get(client).and_then(Weak::upgrade) {
            return slots;
        }
        // Clients without calls are forgotten.
        clients.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(Semaphore::new(self.per_client));
        clients.insert(client.to_owned(), Arc::downgrade(&slots));
        slots
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn full_client_waits_and_others_do_not() {
        let slots = CallSlots::new(1);
        let permit = slots.acquire("ada").now_or_never().unwrap();
        assert!(slots.acquire("ada").now_or_never().is_none());
        assert!(slots.acquire("eve").now_or_never().is_some());
        drop(permit);
        assert!(slots.acquire("ada").now_or_never().is_some());
    }

    #[test]
    fn clients_without_calls_are_forgotten() {
        let slots = CallSlots::new(1);
        for client in ["a", "b", "c"] {
            drop(slots.acquire(client).now_or_never());
        }
        assert_eq!(slots.clients.lock().len(), 1);
    }
}
