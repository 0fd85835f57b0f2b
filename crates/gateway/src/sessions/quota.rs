//! Limits what each identity adds to the sessions.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// The size that a new file counts beside its content, because a file system allocates whole blocks.
pub(super) const FILE_BYTES: u64 = 4096;

/// The bytes that each identity has added within about a day. They are forgotten at a constant rate.
#[derive(Debug)]
pub(super) struct Quota {
    max_bytes: u64,
    identities: Mutex<HashMap<Arc<str>, Added>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Added {
    bytes: u64,
    /// The time at which `bytes` was right, in milliseconds since 1970.
    at: u64,
}

impl Added {
    /// Forgets bytes up to `now`.
    fn forget(&mut self, max_bytes: u64, now: u64) {
        let elapsed = now.saturating_sub(self.at).min(DAY_MILLIS);
        let forgotten = u128::from(max_bytes) * u128::from(elapsed) / u128::from(DAY_MILLIS);
        self.bytes = self
            .bytes
            .saturating_sub(u64::try_from(forgotten).unwrap_or(u64::MAX));
        self.at = now;
    }
}

impl Quota {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            identities: Mutex::default(),
        }
    }

    /// Returns the maximum number of bytes that an identity adds within a day.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Counts bytes before an identity adds them. Returns `false` if they do not fit.
    pub(super) fn try_add(&self, identity: &Arc<str>, bytes: u64, now: u64) -> bool {
        self.change(identity, now, |added, max_bytes| {
            let fits = added.bytes.saturating_add(bytes) <= max_bytes;
            if fits {
                added.bytes += bytes;
            }
            fits
        })
    }

    /// Counts bytes that an identity has added.
    pub(super) fn add(&self, identity: &Arc<str>, bytes: u64, now: u64) {
        self.change(identity, now, |added, _| {
            added.bytes = added.bytes.saturating_add(bytes)
        });
    }

    fn change<T>(
        &self,
        identity: &Arc<str>,
        now: u64,
        change: impl FnOnce(&mut Added, u64) -> T,
    ) -> T {
        let mut identities = self.identities.lock();
        if !identities.contains_key(identity) {
            identities.retain(|_, added| {
                added.forget(self.max_bytes, now);
                added.bytes > 0
            });
        }
        let added = identities
            .entry(Arc::clone(identity))
            .or_insert(Added { bytes: 0, at: now });
        added.forget(self.max_bytes, now);
        change(added, self.max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_day_are_bounded_by_identity() {
        let quota = Quota::new(1000);
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        assert!(quota.try_add(&ada, 1000, 0));
        assert!(!quota.try_add(&ada, 1, 0));
        assert!(quota.try_add(&bob, 1000, 0));
        assert!(!quota.try_add(&ada, 501, DAY_MILLIS / 2));
        assert!(quota.try_add(&ada, 500, DAY_MILLIS / 2));
        quota.add(&ada, 5000, DAY_MILLIS / 2);
        assert!(!quota.try_add(&ada, 1, 2 * DAY_MILLIS));
    }

    #[test]
    fn identities_that_added_nothing_lately_are_forgotten() {
        let quota = Quota::new(1000);
        for name in 0..100 {
            quota.add(&name.to_string().into(), 10, 0);
        }
        quota.add(&"last".into(), 10, 2 * DAY_MILLIS);
        assert_eq!(quota.identities.lock().len(), 1);
    }
}
