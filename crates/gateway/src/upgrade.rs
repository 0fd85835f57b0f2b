//! The request that opens a WebSocket (RFC 6455 §4.2), and the answer to any other.
//!
//! axum's own `WebSocketUpgrade` does not serve here: it hides the stream below its WebSocket, which `socket.rs` needs to let
//! go of large buffers.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::header::{
    CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, SERVER, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use http_server::serve::Connection;
use hyper_util::rt::TokioIo;

use super::connection;
use super::hub::Hub;
use collective::SUBPROTOCOL;
use egress::websocket;

/// What the gateway calls itself in HTTP.
const SERVER_NAME: &str = concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION"));

/// Routes requests: the WebSocket is at `/`.
pub(super) fn router(hub: Arc<Hub>) -> Router {
    Router::new()
        .route("/", any(open))
        .fallback(not_found)
        // Before anything else is answered: a page from elsewhere learns nothing, not even which paths there are.
        .layer(from_fn_with_state(Arc::clone(&hub), control))
        .layer(map_response(add_server_name))
        .with_state(hub)
}

/// A request for a WebSocket that can be granted.
#[derive(Debug)]
struct Granted {
    accept: String,
    subprotocol: bool,
}

/// Why a request is not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused {
    status: StatusCode,
    message: &'static str,
}

impl Refused {
    const fn new(status: StatusCode, message: &'static str) -> Self {
        Self { status, message }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let headers = [
            (CONTENT_TYPE, "text/plain; charset=utf-8"),
            (CONNECTION, "close"),
        ];
        let mut response = (self.status, headers, format!("{}\n", self.message)).into_response();
        if self.status == StatusCode::UPGRADE_REQUIRED {
            let headers = response.headers_mut();
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        response
    }
}

async fn add_server_name(mut response: Response) -> Response {
    let name = HeaderValue::from_static(SERVER_NAME);
    response.headers_mut().insert(SERVER, name);
    response
}

async fn control(
    State(hub): State<Arc<Hub>>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let allowed = hub.access.check(request.headers(), request.uri());
    allowed.map_err(|message| Refused::new(StatusCode::FORBIDDEN, message))?;
    Ok(next.run(request).await)
}

async fn not_found() -> Refused {
    Refused::new(
        StatusCode::NOT_FOUND,
        "this gateway of a2a-v1 is at `/`, and nothing else is here",
    )
}

/// Opens a WebSocket, and serves it once the connection is upgraded.
async fn open(
    State(hub): State<Arc<Hub>>,
    Extension(connection): Extension<Connection>,
    mut request: Request,
) -> Result<Response, Refused> {
    if request.uri().query().is_some() {
        return Err(not_found().await);
    }
    let granted = grant(&request)?;
    let client = connection::enter(&hub, connection).ok_or(Refused::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "this gateway has as many connections as it may; try again later",
    ))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let tasks = hub.tasks.clone();
    tasks.spawn(async move {
        match upgrade.await {
            Ok(stream) => connection::serve(hub, client, TokioIo::new(stream)).await,
            Err(_) => hub.leave(&client),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::try_from(granted.accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if granted.subprotocol {
        let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    Ok(response)
}

fn grant(request: &Request) -> Result<Granted, Refused> {
    let headers = request.headers();
    let upgrades = has_token(headers, &CONNECTION, "upgrade")
        && has_token(headers, &UPGRADE, "websocket")
        && request.version() >= Version::HTTP_11;
    let is_version_13 = only(headers, &SEC_WEBSOCKET_VERSION) == Some("13");
    if request.method() != Method::GET || !upgrades || !is_version_13 {
        return Err(Refused::new(
            StatusCode::UPGRADE_REQUIRED,
            "this is a gateway of a2a-v1; connect with a WebSocket",
        ));
    }
    match only(headers, &SEC_WEBSOCKET_KEY) {
        Some(key) if !key.is_empty() && key.len() <= 64 => Ok(Granted {
            accept: websocket::accept(key),
            subprotocol: has_token(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL),
        }),
        _ => Err(Refused::new(
            StatusCode::BAD_REQUEST,
            "`sec-websocket-key` is missing",
        )),
    }
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
