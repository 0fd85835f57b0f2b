//! Task handles: short-lived names for tasks at peers.
//!
//! A store keeps the most recently used handles, each for a fixed time after its last use. A full store forgets the least recently
//! used one of the owner that has most, so that no owner costs another its handles. Handles live in memory only; a persisted
//! continuation works without them.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use uuid::Uuid;

/// The name of a task at a peer: `rah_` and a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(Uuid);

impl Handle {
    pub fn new(random: Uuid) -> Self {
        Self(random)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rah_{}", self.0.as_hyphenated())
    }
}

impl FromStr for Handle {
    type Err = ();

    /// Parses a handle in exactly the form of [`fmt::Display`]: hosts compare handles as text.
    fn from_str(text: &str) -> Result<Self, ()> {
        text.strip_prefix("rah_")
            .and_then(|id| Uuid::try_parse(id).ok())
            .map(Self)
            .filter(|handle| handle.to_string() == text)
            .ok_or(())
    }
}

/// The task behind a handle. `T` identifies the peer.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    /// The peer.
    pub target: Arc<T>,
    /// The task's id there.
    pub task_id: Arc<str>,
    /// The conversation the task belongs to.
    pub context_id: Option<Arc<str>>,
    key: Arc<str>,
    owner: Arc<str>,
    expires: Instant,
}

/// The result of looking up a handle.
#[derive(Debug, Clone)]
pub enum HandleLookup<T> {
    /// The handle is valid.
    Live(Entry<T>),
    /// The handle was not used for longer than its time to live.
    Expired,
    /// The store never issued the handle, or evicted it.
    Unknown,
}

/// A task to store.
#[derive(Debug, Clone, Copy)]
pub struct NewHandle<'a, T> {
    /// The peer.
    pub target: &'a Arc<T>,
    /// The key that identifies this peer.
    pub key: &'a Arc<str>,
    /// The task's id there.
    pub task_id: &'a str,
    /// The conversation the task belongs to.
    pub context_id: Option<&'a str>,
    /// Whose handle it is; empty without an owner. It decides about eviction only.
    pub owner: &'a str,
}

/// A store of handles.
#[derive(Debug)]
pub struct Handles<T> {
    ttl: Duration,
    max: NonZeroUsize,
    /// Unbounded, because a bounded `LruCache` allocates its full capacity at once; `insert` enforces `max`.
    entries: LruCache<Handle, Entry<T>>,
    /// The one handle of each (peer, task).
    by_task: HashMap<(Arc<str>, Arc<str>), Handle>,
    /// The number of handles of each owner.
    by_owner: HashMap<Arc<str>, usize>,
}

impl<T> Handles<T> {
    /// Creates a store for `max_entries` handles (at least one), each valid for `ttl` after its last use.
    pub fn new(max_entries: usize, ttl: Duration) -> Self {
        let max = NonZeroUsize::new(max_entries).unwrap_or(NonZeroUsize::MIN);
        Self {
            ttl,
            max,
            entries: LruCache::unbounded(),
            by_task: HashMap::new(),
            by_owner: HashMap::new(),
        }
    }

    /// Returns the number of stored handles, expired ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Looks up `handle` at `now`. A valid one becomes the most recently used; its expiry stays.
    pub fn resolve(&mut self, handle: Handle, now: Instant) -> HandleLookup<T> {
        // `peek` leaves an expired handle in its place in the eviction order.
        if self
            .entries
            .peek(&handle)
            .is_some_and(|entry| entry.expires <= now)
        {
            return HandleLookup::Expired;
        }
        match self.entries.get(&handle) {
            None => HandleLookup::Unknown,
            Some(entry) => HandleLookup::Live(Entry {
                target: Arc::clone(&entry.target),
                task_id: Arc::clone(&entry.task_id),
                context_id: entry.context_id.clone(),
                key: Arc::clone(&entry.key),
                owner: Arc::clone(&entry.owner),
                expires: entry.expires,
            }),
        }
    }

    /// Stores a task at `now` and returns its handle: `current` if the caller has one (it then names the given task,
    /// and is stored again if it was evicted), else the task's valid handle, else a new one from `fresh`.
    pub fn insert(
        &mut self,
        task: NewHandle<'_, T>,
        current: Option<Handle>,
        now: Instant,
        fresh: impl FnOnce() -> Uuid,
    ) -> Handle {
        let task_id: Arc<str> = task.task_id.into();
        let by_task = (Arc::clone(task.key), Arc::clone(&task_id));
        let is_valid = |handle: &Handle| {
            self.entries
                .peek(handle)
                .is_some_and(|entry| entry.expires > now)
        };
        let handle = current
            .or_else(|| self.by_task.get(&by_task).copied().filter(is_valid))
            .unwrap_or_else(|| Handle::new(fresh()));
        let context_id = task.context_id.map(Arc::from);
        let owner = match self.by_owner.get_key_value(task.owner) {
            Some((owner, _)) => Arc::clone(owner),
            None => task.owner.into(),
        };
        *self.by_owner.entry(Arc::clone(&owner)).or_default() += 1;
        let entry = Entry {
            target: Arc::clone(task.target),
            task_id,
            context_id,
            key: Arc::clone(task.key),
            owner,
            expires: now + self.ttl,
        };
        let replaced = self.entries.push(handle, entry);
        let evicted = if self.entries.len() > self.max.get() {
            self.evict()
        } else {
            None
        };
        for (removed, old) in [replaced, evicted].into_iter().flatten() {
            if let Some(count) = self.by_owner.get_mut(&old.owner) {
                *count -= 1;
                if *count == 0 {
                    self.by_owner.remove(&old.owner);
                }
            }
            let old_name = (old.key, old.task_id);
            if self.by_task.get(&old_name) == Some(&removed) {
                self.by_task.remove(&old_name);
            }
        }
        self.by_task.insert(by_task, handle);
        handle
    }

    /// Removes the least recently used handle of the owner that has most.
    fn evict(&mut self) -> Option<(Handle, Entry<T>)> {
        let most = self.by_owner.values().copied().max()?;
        let mut oldest_first = self.entries.iter().rev();
        let (handle, _) =
            oldest_first.find(|(_, entry)| self.by_owner.get(&entry.owner) == Some(&most))?;
        let handle = *handle;
        self.entries.pop_entry(&handle)
    }
}

#[cfg(test)]
mod tests;
