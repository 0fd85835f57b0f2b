//! Selects the directory of a peer by its protocol.

use std::sync::Arc;

use a2a::Card;
use peer::{
    BoxFuture, CallOptions, CardEtag, Discovered, Peer, PeerConfig, PeerError, PeerProvider,
};

/// The agents behind the local gateway, and all other peers.
pub(super) struct PeerProviders {
    pub(super) local: Arc<dyn PeerProvider>,
    pub(super) elsewhere: Arc<dyn PeerProvider>,
}

impl PeerProviders {
    fn select(&self, peer_config: &PeerConfig) -> &dyn PeerProvider {
        if peer_config.is_local() {
            &*self.local
        } else {
            &*self.elsewhere
        }
    }
}

impl PeerProvider for PeerProviders {
    fn discover<'a>(
        &'a self,
        peer_config: &'a PeerConfig,
        known: Option<&'a CardEtag>,
    ) -> BoxFuture<'a, Result<Discovered, PeerError>> {
        self.select(peer_config).discover(peer_config, known)
    }

    fn open(
        &self,
        peer_config: &PeerConfig,
        card: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        self.select(peer_config).open(peer_config, card, options)
    }
}
