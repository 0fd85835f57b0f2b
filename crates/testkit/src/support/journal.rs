//! A list of events, with a way to wait for the next ones.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The timeout of a wait, long enough for a cold start on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(180);

/// A list that any thread may add to.
pub struct Journal<T>(Arc<(Mutex<Vec<T>>, Condvar)>);

impl<T> Clone for Journal<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Journal<T> {
    pub fn new() -> Self {
        Self(Arc::new((Mutex::new(Vec::new()), Condvar::new())))
    }

    pub fn push(&self, entry: T) {
        self.entries().push(entry);
        self.0.1.notify_all();
    }

    /// Returns the number of entries, as a start for waiting.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Returns all entries that `predicate` accepts.
    pub fn all(&self, predicate: impl Fn(&T) -> bool) -> Vec<T> {
        self.entries()
            .iter()
            .filter(|entry| predicate(entry))
            .cloned()
            .collect()
    }

    /// Waits for the first entry that `predicate` accepts. `what` names it in the panic message.
    pub fn wait(&self, what: &str, predicate: impl Fn(&T) -> bool) -> T {
        self.wait_from(0, what, predicate)
    }

    /// Returns the first entry from the place `from` on that `predicate` accepts.
    pub fn wait_from(&self, from: usize, what: &str, predicate: impl Fn(&T) -> bool) -> T {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let mut entries = self.entries();
        loop {
            if let Some(entry) = entries[from..].iter().find(|entry| predicate(entry)) {
                return entry.clone();
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            assert!(!remaining.is_zero(), "waited {WAIT_TIMEOUT:?} for {what}");
            entries = self
                .0
                .1
                .wait_timeout(entries, remaining)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Locks the entries. A failed test leaves them intact.
    fn entries(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
