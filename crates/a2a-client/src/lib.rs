//! Peers that speak A2A.
//!
//! `discover.rs` finds a card; `negotiate.rs` picks the interface and the version to call it in, and `a2a_peer.rs` takes another
//! where that turns out wrong, which `memory.rs` keeps. `bound_peer.rs` is a peer at one interface in one version: either binding
//! (`jsonrpc.rs`, `http_json.rs`) carries its requests over `line.rs`. How a version writes them, and what its answers say, the
//! crate `a2a` knows. `signature/` checks who signed a card. Nothing here decides who may be called.
//!
//! gRPC would be a file beside the two bindings, with a dialect in protobuf and a place in [`a2a::Transport::SUPPORTED`]. It is
//! not spoken today.

#![forbid(unsafe_code)]

mod a2a_peer;
mod bound_peer;
mod challenge;
mod decoder;
mod discover;
mod error_body;
mod events;
mod http_json;
mod jsonrpc;
mod line;
mod memory;
mod negotiate;
mod request;
mod secrets;
mod signature;
mod weight;

use std::sync::Arc;

use a2a::{Card, Version};
use egress::{Net, sse::SseLimits};
use peer::{BoxFuture, CallOptions, Directory, Discovered, Peer, PeerConfig, PeerError, Validator};

use a2a_peer::{A2aPeer, Fallback, VersionedInterface};
use bound_peer::BoundPeer;
use line::HttpBinding;
use memory::{Key, Learned, Memory};
use negotiate::Route;

/// The A2A peers of the world.
pub struct A2a {
    net: Arc<dyn Net>,
    limits: SseLimits,
    memory: Memory,
}

impl A2a {
    /// Peers behind `net`, whose answers may not be larger than `limits`.
    pub fn new(net: Arc<dyn Net>, limits: SseLimits) -> Self {
        Self {
            net,
            limits,
            memory: Memory::new(),
        }
    }

    /// One interface, in the version that its card names and it has not refused so far.
    fn interface(
        &self,
        reach: &PeerConfig,
        card: &Card,
        route: Route,
        parameters: &[(String, String)],
    ) -> Result<VersionedInterface, PeerError> {
        let line = HttpBinding::new(
            Arc::clone(&self.net),
            reach,
            &route.url,
            parameters,
            self.limits,
        )?
        .declaring(&card.security);
        let learned = self.memory.of(Key {
            configured: reach.configured,
            transport: route.transport,
            url: route.url.clone(),
            tenant: route.tenant.clone(),
        });
        // 0.3 cannot name a tenant, and what is meant for one must not reach another.
        let in_doubt = route.version == Version::V1_0 && !route.pinned && route.tenant.is_none();
        let (version, older) = match learned.version().filter(|_| in_doubt) {
            Some(version) => (version, None),
            None if in_doubt => {
                let older = bound(line.clone(), &route, Version::V0_3, &learned);
                (route.version, Some(older))
            }
            None => (route.version, None),
        };
        let peer = bound(line, &route, version, &learned);
        Ok(VersionedInterface::new(peer, older, learned))
    }
}

/// An interface in one version.
fn bound(
    line: HttpBinding,
    route: &Route,
    version: Version,
    learned: &Arc<Learned>,
) -> Box<dyn Peer> {
    let line = line.speaking(version);
    let (url, tenant) = (route.url.clone(), route.tenant.clone());
    Box::new(BoundPeer::new(
        line,
        route.transport,
        url,
        version,
        tenant,
        learned,
    ))
}

impl Directory for A2a {
    fn discover<'a>(
        &'a self,
        reach: &'a PeerConfig,
        known: Option<&'a Validator>,
    ) -> BoxFuture<'a, Result<Discovered, PeerError>> {
        Box::pin(discover::discover(
            &*self.net,
            reach,
            known,
            self.limits.answer_bytes,
        ))
    }

    fn open(
        &self,
        reach: &PeerConfig,
        card: &Card,
        opening: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        let parameters = opening.parameters;
        let (first, other) = negotiate::choose(reach, card)?;
        let other = other.map(|other| {
            let names = [&first, &other].map(Route::to_string);
            Fallback::new(names, self.interface(reach, card, other, parameters))
        });
        let first = self.interface(reach, card, first, parameters)?;
        Ok(Box::new(A2aPeer::new(first, other)))
    }
}
