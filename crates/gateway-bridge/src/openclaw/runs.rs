//! The runs that were begun over a connection: whose they are, and what came of them.

use std::num::NonZeroUsize;

use lru::LruCache;
use serde_json::Value;

/// The maximum number of cached runs; the least recently queried is evicted.
const MAX_RUNS: usize = 128;

/// A longer answer is not kept, in bytes: the gateway has it.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A run.
#[derive(Debug, Clone)]
pub(super) struct CachedRun {
    /// The session it belongs to.
    pub session_key: String,
    /// The conversation it belongs to.
    pub context: String,
    /// The last response to the request that began it.
    pub response: Option<Value>,
}

/// The runs, by id.
#[derive(Debug)]
pub(super) struct RunCache(LruCache<String, CachedRun>);

impl Default for RunCache {
    fn default() -> Self {
        Self(LruCache::new(
            NonZeroUsize::new(MAX_RUNS).unwrap_or(NonZeroUsize::MIN),
        ))
    }
}

impl RunCache {
    /// Remembers a run that begins.
    pub(super) fn insert(&mut self, run: &str, session_key: &str, context: &str) {
        let begun = CachedRun {
            session_key: session_key.to_owned(),
            context: context.to_owned(),
            response: None,
        };
        self.0.push(run.to_owned(), begun);
    }

    /// Remembers what came of a run, which had so many bytes.
    pub(super) fn set_response(&mut self, run: &str, response: &Value, bytes: usize) {
        if let Some(run) = self.0.get_mut(run).filter(|_| bytes <= MAX_RESPONSE_BYTES) {
            run.response = Some(response.clone());
        }
    }

    /// Returns a cached run.
    pub(super) fn get(&mut self, run: &str) -> Option<&CachedRun> {
        self.0.get(run)
    }
}
