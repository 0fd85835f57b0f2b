//! The wire: paths, JSON-RPC and HTTP+JSON of both versions, event streams, the agent card.
//!
//! - `paths` says what a path is, `handle` who answers it.
//! - `rpc` and `rest` read a `call` out of a request, and write its answer: 1.0 in the official types' own JSON, 0.3 by
//!   [`a2a::v0_3`]. `read` holds what they read alike, `fields` how a JSON object is read,
//!   `shape` how much one may hold.
//! - `sse` writes streams, `error` refusals, `card` agent cards.
//! - [`app`] puts it all together: [`access_control`] before everything, and `page`, `api` and `health` for the operator.
//!   The crate `http_server` takes connections, and bounds them and requests.

pub mod access_control;
pub mod api;
pub mod app;
pub(crate) mod body;
pub(crate) mod call;
mod card;
pub mod clients;
mod envelope;
pub mod error;
mod etag;
mod handle;
mod json_limits;
mod list;
mod page;
mod request;
mod rest;
mod route;
mod rpc;
mod sse;
mod version;
mod write;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::routing::post;

pub use card::CardFacts;

use crate::service::Service;

/// What the wire is made of.
#[derive(Clone)]
pub struct App {
    /// What answers.
    pub service: Service,
    /// Whether requests need a token. The card says so.
    pub requires_token: bool,
    /// What the card says beside the agents.
    pub card: CardFacts,
    /// How large a body may be, in bytes.
    pub body_limit: usize,
    /// After how much silence a stream says that it is still there.
    pub keep_alive: Duration,
}

/// A body may be so large where nobody says otherwise: 10 MiB.
pub const DEFAULT_BODY_BYTES: usize = 10 << 20;

/// A stream is silent for at most so long where nobody says otherwise.
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The whole wire. Routes `POST /`, and everything else by its fallback, so that pages can be put beside it.
///
/// Requests need the [`RequestContext`](access_control::RequestContext) that [`access_control::control`] adds.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/", post(handle::handle))
        .fallback(handle::handle)
        .with_state(Arc::new(app))
}
