//! The HTTP layer: JSON-RPC and HTTP+JSON of both versions, event streams, agent cards, and the operator's page.
//!
//! - `handle` dispatches a request by its `route` to `rpc`, `rest` or `card`.
//! - `rpc` and `rest` parse a `call` and write its answer: 1.0 as JSON of the official types, 0.3 by [`a2a::v0_3`].
//! - `agent_protocol` has the endpoints of the Agent Protocol.
//! - `sse` writes streams, `list` pages of tasks, `error` errors.
//! - [`app`] puts [`access_control`] before everything, and adds the operator's page and [`api`].
//!
//! The crate `http_server` accepts connections and bounds them.

pub mod access_control;
mod agent_protocol;
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
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::routing::post;

pub use card::CardFacts;

use crate::service::Service;

/// The components of the protocol's endpoints.
#[derive(Clone)]
pub struct App {
    /// Answers the requests.
    pub service: Service,
    /// Whether requests need a token. The card declares it.
    pub requires_token: bool,
    /// The part of the card that does not depend on the agents.
    pub card: CardFacts,
    /// The largest request body, in bytes.
    pub body_limit: usize,
    /// How long a stream stays silent before it sends a comment.
    pub keep_alive: Duration,
}

/// The default of [`App::body_limit`]: 10 MiB.
pub const DEFAULT_BODY_BYTES: usize = 10 << 20;

/// The default of [`App::keep_alive`].
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the router of the protocol's endpoints: `POST /`, those of the Agent Protocol, and a fallback for all other paths,
/// so that other routes can be merged.
///
/// Requests need the [`RequestContext`](access_control::RequestContext) that [`access_control::control`] adds.
pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route("/", post(handle::handle))
        .fallback(handle::handle)
        .with_state(Arc::clone(&app))
        .merge(agent_protocol::router(app))
}
