//! Limits the concurrent requests of each client.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::rate_limit::RateLimitKey;

/// Limits the concurrent requests of each client, so that no client occupies all connections.
#[derive(Debug)]
pub struct OpenRequests {
    counts: Mutex<HashMap<RateLimitKey, usize>>,
    per_client: usize,
}

impl OpenRequests {
    /// Creates a limiter for `per_client` concurrent requests.
    pub fn new(per_client: usize) -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::default(),
            per_client,
        })
    }

    /// Opens a request. Returns `None` if the client has the maximum number of open requests.
    pub fn try_open(self: &Arc<Self>, key: RateLimitKey) -> Option<OpenRequestGuard> {
        let mut counts = self.counts.lock();
        let count = counts.entry(key.clone()).or_default();
        if *count >= self.per_client {
            return None;
        }
        *count += 1;
        Some(OpenRequestGuard {
            requests: Arc::clone(self),
            key,
        })
    }
}

/// An open request. Dropping it closes the request.
#[derive(Debug)]
pub struct OpenRequestGuard {
    requests: Arc<OpenRequests>,
    key: RateLimitKey,
}

impl Drop for OpenRequestGuard {
    fn drop(&mut self) {
        let counts = &self.requests.counts;
        let mut counts = counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_request_frees_its_slot() {
        let open = OpenRequests::new(2);
        let ada = RateLimitKey::Client("ada".into());
        let first = open.try_open(ada.clone());
        let second = open.try_open(ada.clone());
        assert!(first.is_some() && second.is_some());
        assert!(open.try_open(ada.clone()).is_none());
        assert!(open.try_open(RateLimitKey::Client("bob".into())).is_some());
        drop(second);
        assert!(open.try_open(ada).is_some());
        drop(first);
        assert!(open.counts.lock().is_empty());
    }
}
