//! Selects the directory of a peer by its protocol.

use std::sync::Arc;

use a2a::Card;
use peer::{BoxFuture, CallOptions, Directory, Discovered, Peer, PeerConfig, PeerError, Validator};

/// The agents behind the local gateway, and all other peers.
pub(super) struct Directories {
    pub(super) local: Arc<dyn Directory>,
    pub(super) elsewhere: Arc<dyn Directory>,
}

impl Directories {
    fn select(&self, reach: &PeerConfig) -> &dyn Directory {
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
        self.select(reach).discover(reach, known)
    }

    fn open(
        &self,
        reach: &PeerConfig,
        card: &Card,
        opening: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        self.select(reach).open(reach, card, opening)
    }
}
