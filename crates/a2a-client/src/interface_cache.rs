//! Facts about interfaces that calls discovered, kept as long as the instance.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use lru::LruCache;
use parking_lot::Mutex;
use url::Url;

use a2a::{Transport, Version};
use peer::PeerConfig;

use super::peer_secrets::PeerSecrets;

/// The maximum number of interfaces.
const MAX_INTERFACES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(511);

/// The discovered facts about interfaces.
pub(super) struct InterfaceCache(Mutex<LruCache<InterfaceKey, Arc<InterfaceState>>>);

/// The key of an interface. Peers of requests and peers of the operator have separate entries, and so has each tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct InterfaceKey {
    /// Whether the operator configured the address of the peer.
    pub(super) configured: bool,
    pub(super) transport: Transport,
    pub(super) url: Url,
    pub(super) tenant: Option<String>,
}

impl InterfaceCache {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_INTERFACES)))
    }

    /// Returns the shared state of an interface.
    pub(super) fn get_or_insert(&self, interface: InterfaceKey) -> Arc<InterfaceState> {
        let mut all = self.0.lock();
        Arc::clone(all.get_or_insert(interface, Arc::default))
    }
}

/// The discovered facts about one interface.
#[derive(Default)]
pub(super) struct InterfaceState {
    version: AtomicU8,
    /// It accepts subscriptions with GET.
    pub(super) subscribes_by_get: Flag,
    /// Its paths contain no tenant.
    pub(super) no_tenant_path: Flag,
    /// The credentials of the last call, in every form.
    secrets: Mutex<Option<Arc<PeerSecrets>>>,
}

/// A fact that is true or unknown.
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

impl InterfaceState {
    /// Returns the credentials of `config`, those of the last call if that had the same ones.
    pub(super) fn secrets(&self, config: &PeerConfig) -> Arc<PeerSecrets> {
        let mut last = self.secrets.lock();
        if let Some(last) = last.as_ref().filter(|last| last.matches(config)) {
            return Arc::clone(last);
        }
        Arc::clone(last.insert(Arc::new(PeerSecrets::new(config))))
    }

    /// Returns the version that a response has confirmed.
    pub(super) fn version(&self) -> Option<Version> {
        match self.version.load(Ordering::Relaxed) {
            1 => Some(Version::V0_3),
            2 => Some(Version::V1_0),
            _ => None,
        }
    }

    /// Sets the confirmed version; `None` means unknown.
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
    fn learned_capabilities_stay_with_their_interface() {
        let memory = InterfaceCache::new();
        let key = InterfaceKey {
            configured: true,
            transport: Transport::JsonRpc,
            url: Url::parse("http://a.example/rpc").unwrap(),
            tenant: Some("acme".into()),
        };
        let learned = memory.get_or_insert(key.clone());
        assert_eq!(learned.version(), None);
        learned.set_version(Some(Version::V0_3));
        learned.subscribes_by_get.set(true);
        let again = memory.get_or_insert(key.clone());
        assert_eq!(again.version(), Some(Version::V0_3));
        assert!(again.subscribes_by_get.is_set() && !again.no_tenant_path.is_set());
        let others = [
            InterfaceKey {
                configured: false,
                ..key.clone()
            },
            InterfaceKey {
                transport: Transport::HttpJson,
                ..key.clone()
            },
            InterfaceKey {
                tenant: Some("other".into()),
                ..key
            },
        ];
        for other in others {
            assert_eq!(
                memory.get_or_insert(other.clone()).version(),
                None,
                "{other:?}"
            );
        }
        learned.set_version(None);
        assert_eq!(again.version(), None);
    }
}
