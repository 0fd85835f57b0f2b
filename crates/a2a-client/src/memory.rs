//! What was found out about interfaces by calling them, kept as long as the instance lives.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use url::Url;

use a2a::{Transport, Version};

/// So many interfaces are remembered; requests may name any number of them.
const KEPT: NonZeroUsize = NonZeroUsize::MIN.saturating_add(511);

/// What is known of interfaces.
pub(super) struct Memory(Mutex<LruCache<Key, Arc<Learned>>>);

/// What tells interfaces apart. One that a card gives for a peer which a request named teaches nothing about the operator's
/// own, and an unknown tenant nothing about others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The operator wrote the peer's address.
    pub(super) configured: bool,
    pub(super) transport: Transport,
    pub(super) url: Url,
    pub(super) tenant: Option<String>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(KEPT)))
    }

    /// What is known of one interface. Whoever holds it adds to it.
    pub(super) fn of(&self, interface: Key) -> Arc<Learned> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.get_or_insert(interface, Arc::default))
    }
}

/// What was found out about one interface.
#[derive(Default)]
pub(super) struct Learned {
    version: AtomicU8,
    /// It takes subscriptions by GET.
    pub(super) subscribes_by_get: Flag,
    /// It knows no tenant in its paths.
    pub(super) takes_no_tenant_path: Flag,
}

/// Something that is so, or is not known to be so.
#[derive(Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Learned {
    /// The version it has answered in.
    pub(super) fn version(&self) -> Option<Version> {
        match self.version.load(Ordering::Relaxed) {
            1 => Some(Version::V0_3),
            2 => Some(Version::V1_0),
            _ => None,
        }
    }

    /// Remembers the version it answers in, or, with `None`, that this is open again.
    pub(super) fn set_version(&self, version: Option<Version>) {
        let value = match version {
            None => 0,
            Some(Version::V0_3) => 1,
            Some(Version::V1_0) => 2,
        };
        self.version.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_learned_stays_with_its_interface() {
        let memory = Memory::new();
        let key = Key {
            configured: true,
            transport: Transport::JsonRpc,
            url: Url::parse("http://a.example/rpc").unwrap(),
            tenant: Some("acme".into()),
        };
        let learned = memory.of(key.clone());
        assert_eq!(learned.version(), None);
        learned.set_version(Some(Version::V0_3));
        learned.subscribes_by_get.set(true);
        let again = memory.of(key.clone());
        assert_eq!(again.version(), Some(Version::V0_3));
        assert!(again.subscribes_by_get.is_set() && !again.takes_no_tenant_path.is_set());
        let others = [
            Key {
                configured: false,
                ..key.clone()
            },
            Key {
                transport: Transport::HttpJson,
                ..key.clone()
            },
            Key {
                tenant: Some("other".into()),
                ..key
            },
        ];
        for other in others {
            assert_eq!(memory.of(other.clone()).version(), None, "{other:?}");
        }
        learned.set_version(None);
        assert_eq!(again.version(), None);
    }
}
