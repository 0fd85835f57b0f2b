//! The HTTP layer: JSON-RPC and HTTP+JSON of both versions, event streams, agent cards, and the operator's page.
//!
//! - [`router`] passes a request by its `route` to `rpc`, `rest` or `card`.
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
mod card_signer;
pub mod clients;
mod envelope;
pub mod error;
pub(crate) mod operations;
mod request;
pub(crate) mod request_log;
mod rest;
mod route;
mod rpc;
mod sse;

use std::sync::Arc;
use std::time::Duration;

use a2a::{A2aError, ErrorReason};
pub use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, post};
pub use card::CardFacts;
pub use card_signer::CardSigner;
use envelope::Id;
use error::Failure;
use http::header::ALLOW;
use http::{HeaderValue, StatusCode};
use route::{Path, Route};

use crate::service::Service;
use a2a::Version;

/// The components that the endpoints of the protocol need.
#[derive(Clone)]
pub struct App {
    /// Executes the operations.
    pub service: Service,
    /// Whether requests need a token. The agent card declares this.
    pub requires_token: bool,
    /// The part of the agent card that does not depend on the agents.
    pub card: CardFacts,
    /// Signs the agent cards; `None` for cards without a signature.
    pub card_signer: Option<Arc<CardSigner>>,
    /// The maximum size of a request body, in bytes.
    pub body_limit: usize,
    /// How long a stream may be silent before the server sends a comment.
    pub keep_alive: Duration,
}

/// The default of [`App::body_limit`]: 10 MiB.
pub const DEFAULT_BODY_BYTES: usize = 10 << 20;

/// The default of [`App::keep_alive`].
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the router of the protocol: `POST /`, `/a2a`, the endpoints of the Agent Protocol, and a fallback for all other
/// paths, so that other routes can be merged. The fallback serves `/a2a` too, but a route is found with less work.
///
/// The requests must have the [`RequestContext`](access_control::RequestContext) that [`access_control::control`] adds.
pub fn router(app: App) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route("/", post(dispatch))
        .route("/a2a", any(dispatch))
        .fallback(dispatch)
        .with_state(Arc::clone(&app))
        .merge(agent_protocol::router(app))
}

/// Handles a request to any path of the protocol.
async fn dispatch(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Path { agent, route } = Path::parse(parts.uri.path());
    if !matches!(route, Route::Unknown(_)) && !route.allows(&parts.method) {
        return method_not_allowed(&route);
    }
    match route {
        Route::Card => card::serve(&app, &parts, agent).await,
        Route::Keys => match &app.card_signer {
            Some(signer) => signer.keys(),
            None => {
                let error = A2aError::new(
                    ErrorReason::MethodNotFound,
                    "this server does not sign its cards, so it has no keys",
                );
                error::rest(Version::V1_0, &error.into())
            }
        },
        Route::Catalog if app.card.public_url.is_some() => card::serve_catalog(&app, &parts).await,
        Route::Catalog => unknown_path(Version::V1_0),
        Route::Rpc => rpc::serve(&app, parts, body, agent).await,
        Route::Rest {
            version,
            tenant,
            resource,
        } => match rest::serve(&app, parts, body, version, agent, tenant, resource).await {
            Ok(response) => response,
            Err(failure) => error::rest(version, &failure),
        },
        Route::Unknown(version) => unknown_path(version),
    }
}

fn unknown_path(version: Version) -> Response {
    let error = A2aError::new(
        ErrorReason::MethodNotFound,
        "unknown path; `/.well-known/agent-card.json` lists the interfaces",
    );
    error::rest(version, &error.into())
}

fn method_not_allowed(route: &Route) -> Response {
    let error = A2aError::new(
        ErrorReason::InvalidRequest,
        format!("method not allowed; this path accepts {}", route.methods()),
    );
    let failure = Failure::with(error, StatusCode::METHOD_NOT_ALLOWED);
    let mut response = match route {
        Route::Rpc => error::rpc(&Id::null(), &failure),
        Route::Rest { version, .. } => error::rest(*version, &failure),
        Route::Card | Route::Catalog | Route::Keys | Route::Unknown(_) => {
            error::rest(Version::V1_0, &failure)
        }
    };
    let methods = HeaderValue::from_static(route.methods());
    response.headers_mut().insert(ALLOW, methods);
    response
}

#[cfg(test)]
mod testing;

#[cfg(test)]
pub(crate) mod tests;
