//! A fair semaphore for each key, such as the calls of each client.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits how many holders each key has at a time. The others wait in order of arrival. A key without holders and
/// waiters takes no memory. Clones share the state.
#[derive(Debug, Clone)]
pub struct KeyedSemaphore<K: Eq + Hash> {
    permits: usize,
    by_key: Arc<Mutex<HashMap<K, Entry>>>,
}

#[derive(Debug)]
struct Entry {
    semaphore: Arc<Semaphore>,
    /// The number of holders and waiters. Changes under the lock of the map, so that exactly one is the last.
    members: usize,
}

/// The right of a holder, until it is dropped.
#[derive(Debug)]
pub struct KeyedPermit<K: Eq + Hash> {
    _permit: Option<OwnedSemaphorePermit>,
    _member: Member<K>,
}

impl<K: Clone + Eq + Hash> Default for KeyedSemaphore<K> {
    /// Creates queues: semaphores with one permit each.
    fn default() -> Self {
        Self::new(1)
    }
}

impl<K: Clone + Eq + Hash> KeyedSemaphore<K> {
    /// Creates semaphores with this number of permits each.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        Self {
            permits: permits.min(Semaphore::MAX_PERMITS),
            by_key: Arc::default(),
        }
    }

    /// Waits for a permit. The position is determined before this method returns; dropping the future gives it up.
    pub fn acquire(&self, key: K) -> impl Future<Output = KeyedPermit<K>> + Send + Unpin + use<K>
    where
        K: Send,
    {
        let (semaphore, member) = self.join(key);
        let mut waiting = Box::pin(semaphore.acquire_owned());
        // A semaphore enqueues a waiter at its first poll, so poll once now.
        let ready = waiting.as_mut().now_or_never();
        Box::pin(async move {
            let permit = match ready {
                Some(permit) => permit,
                None => waiting.await,
            };
            KeyedPermit {
                // A semaphore is never closed.
                _permit: permit.ok(),
                _member: member,
            }
        })
    }

    /// Returns the number of keys with holders or waiters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.lock().len()
    }

    /// Returns whether no key has holders or waiters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.lock().is_empty()
    }

    fn join(&self, key: K) -> (Arc<Semaphore>, Member<K>) {
        let mut by_key = self.by_key.lock();
        let entry = by_key.entry(key.clone()).or_insert_with(|| Entry {
            semaphore: Arc::new(Semaphore::new(self.permits)),
            members: 0,
        });
        entry.members += 1;
        let by_key = Arc::clone(&self.by_key);
        (Arc::clone(&entry.semaphore), Member { by_key, key })
    }
}

/// A holder or waiter of a key.
#[derive(Debug)]
struct Member<K: Eq + Hash> {
    by_key: Arc<Mutex<HashMap<K, Entry>>>,
    key: K,
}

impl<K: Eq + Hash> Drop for Member<K> {
    fn drop(&mut self) {
        let mut by_key = self.by_key.lock();
        if let Some(entry) = by_key.get_mut(&self.key) {
            entry.members -= 1;
            if entry.members == 0 {
                by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_are_granted_in_order_of_arrival() {
        let one = KeyedSemaphore::new(1);
        let first = one.acquire("a");
        let second = one.acquire("a");
        let mut third = one.acquire("a");
        assert!((&mut third).now_or_never().is_none());
        let holder = first.await;
        assert!((&mut third).now_or_never().is_none());
        drop(holder);
        assert!((&mut third).now_or_never().is_none());
        drop(second.await);
        third.await;
    }

    #[tokio::test]
    async fn dropped_waiter_admits_the_next() {
        let one = KeyedSemaphore::new(1);
        let holder = one.acquire("a").await;
        let gone = one.acquire("a");
        let waits = one.acquire("a");
        drop(gone);
        drop(holder);
        waits.await;
    }

    #[tokio::test]
    async fn keys_are_independent_of_each_other() {
        let one = KeyedSemaphore::new(1);
        let _holder = one.acquire("a").await;
        one.acquire("b").await;
    }

    #[tokio::test]
    async fn key_without_members_is_removed() {
        let one = KeyedSemaphore::new(1);
        let holder = one.acquire("a").await;
        let waits = one.acquire("a");
        assert_eq!(one.len(), 1);
        drop(waits);
        drop(holder);
        assert!(one.is_empty());
    }
}
