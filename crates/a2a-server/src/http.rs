//! The HTTP layer: JSON-RPC and HTTP+JSON of both versions, event streams, agent cards, and the operator's page.
//!
//! - `dispatch` passes a request by its `route` to `rpc`, `rest` or `card`.
//! - `rpc` and `rest` parse a call of `operations` and write its answer: 1.0 with the official types, 0.3 with [`a2a::v0_3`].
//!   What both read of a request is in `request`.
//! - `agent_protocol` serves the endpoints of the Agent Protocol.
//! - `sse` writes streams, and `error` error responses.
//! - [`app`] adds the operator's page and API, and applies [`access_control`] to all routes.
//!
//! The crate `http_server` accepts the connections and limits the requests.

pub mod access_control;
mod agent_protocol;
pub mod app;
mod card;
pub mod clients;
mod dispatch;
mod envelope;
pub mod error;
pub(crate) mod operations;
mod request;
pub(crate) mod request_log;
mod rest;
mod route;
mod rpc;
mod sse;

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

/// The components that the endpoints of the protocol need.
#[derive(Clone)]
pub struct App {
    /// Executes the operations.
    pub service: Service,
    /// Whether requests need a token. The agent card declares this.
    pub requires_token: bool,
    /// The part of the agent card that does not depend on the agents.
    pub card: CardFacts,
    /// The maximum size of a request body, in bytes.
    pub body_limit: usize,
    /// How long a stream may be silent before the server sends a comment.
    pub keep_alive: Duration,
}

/// The default of [`App::body_limit`]: 10 MiB.
pub const DEFAULT_BODY_BYTES: usize = 10 << 20;

/// The default of [`App::keep_alive`].
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the router of the protocol: `POST /`, the endpoints of the Agent Protocol, and a fallback for all other
/// paths, so that other routes can be merged.
///
/// The requests must have the [`RequestContext`](access_control::RequestContext) that [`access_control::control`] adds.
pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route("/", post(dispatch::handle))
        .fallback(dispatch::handle)
        .with_state(Arc::clone(&app))
        .merge(agent_protocol::router(app))
}
