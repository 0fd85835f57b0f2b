//! Each peer by the protocol that it is reached by.

use std::sync::Arc;

use a2a::Card;
use peer::{BoxFuture, CallOptions, Directory, Discovered, Peer, PeerConfig, PeerError, Validator};

/// The agents behind the local gateway, and those elsewhere.
pub(super) struct Directories {
    /// Finds the agents behind the local gateway.
    pub(super) local: Arc<dyn Directory>,
    /// Finds all others.
    pub(super) elsewhere: Arc<dyn Directory>,
}

impl Directories {
    fn of(&self, reach: &PeerConfig) -> &dyn Directory {
        if reach.is_local() {
            &*self.local
        } else {
            &*self.elsewhere
        }
    }
}

impl Directory for Directories {
    fn discover<'a>(
        &'a self,
        reach: &'a PeerConfig,
        known: Option<&'a Validator>,
    ) -> BoxFuture<'a, Result<Discovered, PeerError>> {
        self.of(reach).discover(reach, known)
    }

    fn open(
        &self,
        reach: &PeerConfig,
        card: &Card,
        opening: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        self.of(reach).open(reach, card, opening)
    }
}
