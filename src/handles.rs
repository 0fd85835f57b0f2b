//! Task handles: short-lived names for tasks at peers.
//!
//! A store keeps the most recently used handles, each for a while after its last use. Every operation takes the same
//! time whatever the number of handles. Handles live in memory only; a persisted continuation does without them.

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
    /// A handle from a fresh random UUID.
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

    /// Reads a handle of ours. Whatever else begins with `rah_` was never given out.
    fn from_str(text: &str) -> Result<Self, ()> {
        text.strip_prefix("rah_")
            .and_then(|id| Uuid::try_parse(id).ok())
            .map(Self)
            .ok_or(())
    }
}

/// What a handle stands for. `T` is whatever it takes to reach the task's peer.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    /// The peer.
    pub target: Arc<T>,
    /// The task's id there.
    pub task_id: Arc<str>,
    /// The conversation the task belongs to.
    pub context_id: Option<Arc<str>>,
    key: Arc<str>,
    expires: Instant,
}

/// What a handle turns out to be.
#[derive(Debug, Clone)]
pub enum Found<T> {
    /// It is good.
    Live(Entry<T>),
    /// It was good, but has not been used for too long.
    Expired,
    /// It was never given out, or is forgotten.
    Unknown,
}

/// A task to be remembered.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a, T> {
    /// The peer.
    pub target: &'a Arc<T>,
    /// What tells this peer from all others.
    pub key: &'a Arc<str>,
    /// The task's id there.
    pub task_id: &'a str,
    /// The conversation the task belongs to.
    pub context_id: Option<&'a str>,
}

/// The store.
#[derive(Debug)]
pub struct Handles<T> {
    ttl: Duration,
    max: NonZeroUsize,
    /// Unbounded, because the bounded cache reserves room for its bound at once; `remember` keeps the bound.
    entries: LruCache<Handle, Entry<T>>,
    /// The one handle that a (peer, task) goes by.
    by_task: HashMap<(Arc<str>, Arc<str>), Handle>,
}

impl<T> Handles<T> {
    /// A store for `max_entries` handles (at least one), each good for `ttl` after its last use.
    pub fn new(max_entries: usize, ttl: Duration) -> Self {
        let max = NonZeroUsize::new(max_entries).unwrap_or(NonZeroUsize::MIN);
        Self {
            ttl,
            max,
            entries: LruCache::unbounded(),
            by_task: HashMap::new(),
        }
    }

    /// How many handles are kept, expired ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no handle is kept.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What `handle` stands for at `now`.
    pub fn resolve(&mut self, handle: Handle, now: Instant) -> Found<T> {
        // A dead handle is looked at without being moved in front of the living.
        if self
            .entries
            .peek(&handle)
            .is_some_and(|entry| entry.expires <= now)
        {
            return Found::Expired;
        }
        match self.entries.get(&handle) {
            None => Found::Unknown,
            Some(entry) => Found::Live(Entry {
                target: Arc::clone(&entry.target),
                task_id: Arc::clone(&entry.task_id),
                context_id: entry.context_id.clone(),
                key: Arc::clone(&entry.key),
                expires: entry.expires,
            }),
        }
    }

    /// Remembers a task at `now` and gives its handle: `held`, where the caller has one already (it follows the task it
    /// is told about, and comes back if it was evicted meanwhile), else the task's live one, else a new one from `fresh`.
    pub fn remember(
        &mut self,
        task: Named<'_, T>,
        held: Option<Handle>,
        now: Instant,
        fresh: impl FnOnce() -> Uuid,
    ) -> Handle {
        let task_id: Arc<str> = task.task_id.into();
        let by_task = (Arc::clone(task.key), Arc::clone(&task_id));
        let live = |handle: &Handle| {
            self.entries
                .peek(handle)
                .is_some_and(|entry| entry.expires > now)
        };
        let handle = held
            .or_else(|| self.by_task.get(&by_task).copied().filter(live))
            .unwrap_or_else(|| Handle::new(fresh()));
        let context_id = task.context_id.map(Arc::from);
        let entry = Entry {
            target: Arc::clone(task.target),
            task_id,
            context_id,
            key: Arc::clone(task.key),
            expires: now + self.ttl,
        };
        let replaced = self.entries.push(handle, entry);
        let evicted = if self.entries.len() > self.max.get() {
            self.entries.pop_lru()
        } else {
            None
        };
        for (gone, old) in [replaced, evicted].into_iter().flatten() {
            let old_name = (old.key, old.task_id);
            if self.by_task.get(&old_name) == Some(&gone) {
                self.by_task.remove(&old_name);
            }
        }
        self.by_task.insert(by_task, handle);
        handle
    }
}

#[cfg(test)]
mod tests;
