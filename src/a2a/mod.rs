//! Peers that speak A2A.
//!
//! `discover.rs` finds a card and `card.rs` reads it; `negotiate.rs` picks the interface to call. One file a binding
//! (`jsonrpc.rs`, `http_json.rs`) carries requests and answers over `line.rs`; one room a protocol version (`v0_3/`) turns
//! the model of `peer/` into what that version writes, and back. Nothing here decides who may be called.

mod card;
mod discover;
mod events;
mod http_json;
mod jsonrpc;
mod line;
mod negotiate;
mod secrets;
mod v0_3;
mod weight;

use std::sync::Arc;

use crate::net::{Net, sse::SseLimits};
use crate::peer::{
    BoxFuture, Card, Directory, Discovered, Peer, PeerError, Reach, Transport, Validator,
};

use line::Line;

/// The A2A peers of the world.
pub struct A2a {
    net: Arc<dyn Net>,
    limits: SseLimits,
}

impl A2a {
    /// Peers behind `net`, whose answers may not be larger than `limits`.
    pub fn new(net: Arc<dyn Net>, limits: SseLimits) -> Self {
        Self { net, limits }
    }
}

impl Directory for A2a {
    fn discover<'a>(
        &'a self,
        reach: &'a Reach,
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
        reach: &Reach,
        card: &Card,
        parameters: &[(String, String)],
    ) -> Result<Box<dyn Peer>, PeerError> {
        let (transport, url) = negotiate::choose(reach, card)?;
        let line = Line::new(Arc::clone(&self.net), reach, &url, parameters, self.limits)?;
        Ok(match transport {
            Transport::HttpJson => Box::new(http_json::HttpJson::new(line, url)),
            Transport::JsonRpc | Transport::Grpc => Box::new(jsonrpc::JsonRpc::new(line, url)),
        })
    }
}
