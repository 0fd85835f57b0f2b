//! A cache of the runs that were started on a connection.

use std::num::NonZeroUsize;

use lru::LruCache;
use serde_json::Value;

/// The maximum number of cached runs. The least recently queried one is evicted.
const MAX_RUNS: usize = 128;

/// The maximum size of a cached response, in bytes. Longer responses are requested from the gateway again.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// A cached run.
#[derive(Debug, Clone)]
pub(super) struct CachedRun {
    /// The session of the run.
    pub session_key: String,
    /// The conversation of the run.
    pub context: String,
    /// The last response to the request that started the run.
    pub response: Option<Value>,
}

/// The cached runs by id.
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
    /// Adds a run that starts.
    pub(super) fn insert(&mut self, run: &str, session_key: &str, context: &str) {
        let entry = CachedRun {
            session_key: session_key.to_owned(),
            context: context.to_owned(),
            response: None,
        };
        self.0.push(run.to_owned(), entry);
    }

    /// Stores the final response of a run and its size in bytes.
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
