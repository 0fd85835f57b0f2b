//! A client of A2A 1.0 and 0.3.
//!
//! [`A2aPeerProvider`] implements [`peer::PeerProvider`]: it fetches agent cards and opens peers.
//!
//! - `discover.rs` fetches a card, and `signature.rs` verifies it.
//! - `negotiate.rs` chooses interface and version, and keeps the result. `a2a_peer.rs` falls back to another one.
//! - `ai_catalog.rs` finds agents for a person who adds one.
//! - `bound_peer.rs` calls one interface in one version: the crate `a2a` writes the parameters, the binding (`jsonrpc.rs` or
//!   `http_json.rs`) puts them into a body, and `interface_client.rs` sends it, with the address policy, credentials and headers of
//!   `outgoing.rs`.
//! - Back, `response_json.rs` bounds the JSON of an answer, `events.rs` and `decoder.rs` read it by the crate `a2a`, and `peer_secrets.rs`
//!   removes secrets. `error.rs` and `challenge.rs` read refusals.
//!
//! The caller decides which addresses are allowed. gRPC is not supported; it would be a third binding.
//!
//! ```no_run
//! # async fn example(net: std::sync::Arc<dyn egress::HttpClient>, config: peer::PeerConfig) -> Result<(), peer::PeerError> {
//! use openclaw_remote_agent_a2a_client::A2aPeerProvider;
//! use peer::{PeerProvider as _, Discovered};
//!
//! let limits = egress::sse::SseLimits { event_bytes: 1 << 20, answer_bytes: 8 << 20 };
//! if let Discovered::Card { card, .. } = A2aPeerProvider::new(net, limits).discover(&config, None).await? {
//!     println!("{} interfaces", card.interfaces.len());
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod a2a_peer;
pub mod ai_catalog;
mod bound_peer;
mod challenge;
mod decoder;
mod discover;
mod error;
mod events;
mod http_json;
mod interface_client;
mod jsonrpc;
mod negotiate;
mod outgoing;
mod peer_secrets;
mod response_json;
mod signature;

use std::sync::Arc;

use a2a::{Card, Version};
use async_trait::async_trait;
use egress::{HttpClient, sse::SseLimits};
use peer::{CallOptions, CardEtag, Discovered, Peer, PeerConfig, PeerError, PeerProvider};

use a2a_peer::{A2aPeer, Fallback, VersionedInterface};
use bound_peer::BoundPeer;
use interface_client::InterfaceClient;
use negotiate::Route;
use negotiate::{InterfaceCache, InterfaceKey, InterfaceState};

/// Opens A2A peers.
pub struct A2aPeerProvider {
    net: Arc<dyn HttpClient>,
    limits: SseLimits,
    interfaces: InterfaceCache,
}

impl A2aPeerProvider {
    /// Creates a client that sends requests by `net`. `limits` bound each response, in bytes.
    pub fn new(net: Arc<dyn HttpClient>, limits: SseLimits) -> Self {
        Self {
            net,
            limits,
            interfaces: InterfaceCache::new(),
        }
    }

    /// Returns an interface in the version of its card, unless an earlier call found another.
    fn interface(
        &self,
        config: &PeerConfig,
        card: &Card,
        route: Route,
        options: &CallOptions<'_>,
        extensions: &[String],
    ) -> Result<VersionedInterface, PeerError> {
        let state = self.interfaces.get_or_insert(InterfaceKey {
            configured: config.configured,
            transport: route.transport,
            url: route.url.clone(),
            tenant: route.tenant.clone(),
        });
        let http = InterfaceClient::new(
            Arc::clone(&self.net),
            config,
            &route.url,
            options.parameters,
            self.limits,
            state.secrets(config),
        )?
        .with_security(&card.security)
        .with_field_order(options.field_order)
        .with_send_state(options.send_state);
        // 0.3 has no tenants, and a response for one tenant must not decide the version for another.
        let in_doubt = route.version == Version::V1_0 && !route.pinned && route.tenant.is_none();
        let (version, older) = match state.version().filter(|_| in_doubt) {
            Some(version) => (version, None),
            None if in_doubt => {
                let older = bind(http.clone(), &route, Version::V0_3, &state, extensions);
                (route.version, Some(older))
            }
            None => (route.version, None),
        };
        let peer = bind(http, &route, version, &state, extensions);
        Ok(VersionedInterface::new(peer, older, state))
    }
}

/// Binds a route to a version.
fn bind(
    http: InterfaceClient,
    route: &Route,
    version: Version,
    state: &Arc<InterfaceState>,
    extensions: &[String],
) -> Box<dyn Peer> {
    let http = http
        .with_version(version)
        .with_extensions(version, extensions);
    let (url, tenant) = (route.url.clone(), route.tenant.clone());
    Box::new(BoundPeer::new(
        http,
        route.transport,
        url,
        version,
        tenant,
        state,
    ))
}

#[async_trait]
impl PeerProvider for A2aPeerProvider {
    async fn discover(
        &self,
        config: &PeerConfig,
        validator: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        discover::discover(&*self.net, config, validator, self.limits.answer_bytes).await
    }

    fn preferred_interface(&self, config: &PeerConfig, card: &Card) -> Option<usize> {
        negotiate::preferred(config, card)
    }

    fn open(
        &self,
        config: &PeerConfig,
        card: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        let extensions = negotiate::extensions(config, card)?;
        let (first, other) = negotiate::choose(config, card)?;
        let open = |route| self.interface(config, card, route, options, &extensions);
        let other = other.map(|other| {
            let names = [&first, &other].map(Route::to_string);
            Fallback::new(names, open(other))
        });
        let first = open(first)?;
        Ok(Box::new(A2aPeer::new(first, other)))
    }
}
