//! Handles the upgrade request (RFC 6455 §4.2) and all other HTTP requests.
//!
//! axum's `WebSocketUpgrade` hides the underlying stream, which `socket.rs` needs to release large buffers.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::header::{
    ACCEPT, CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, SERVER, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use http_server::operator_html::Page;
use http_server::serve::Connection;
use hyper_util::rt::TokioIo;

use super::connection;
use super::state::GatewayState;
use collective::SUBPROTOCOL;
use egress::websocket::{self, has_token};

/// The `Server` header.
const SERVER_NAME: &str = concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION"));

/// Routes HTTP requests. `/` is the WebSocket and the operator's page; `/healthz` and `/readyz` report the state of the
/// process to service managers.
pub(super) fn router(state: Arc<GatewayState>) -> Router {
    let page = Page::new(
        include_str!("operator_page/page.html"),
        include_str!("operator_page/page.js"),
    );
    Router::new()
        .route("/", any(open))
        .layer(from_fn(move |request: Request, next: Next| {
            let page = is_page_request(&request).then(|| page.response());
            async move {
                match page {
                    Some(response) => response,
                    None => next.run(request).await,
                }
            }
        }))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .fallback(not_found)
        // The outermost check, so that a page of another origin cannot even detect which paths exist.
        .layer(from_fn_with_state(Arc::clone(&state), check_access))
        .layer(map_response(add_server_name))
        .with_state(state)
}

/// The response to a request that the gateway does not upgrade.
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

/// Returns whether a browser requests the operator's page. The page is a normal client and contains no data.
fn is_page_request(request: &Request) -> bool {
    let headers = request.headers();
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("text/html"));
    request.method() == Method::GET
        && request.uri().query().is_none()
        && !headers.contains_key(UPGRADE)
        && headers.get_all(ACCEPT).iter().any(accepts)
}

async fn check_access(
    State(state): State<Arc<GatewayState>>,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let allowed = state.origin_check.check(request.headers(), request.uri());
    allowed.map_err(|message| Refused::new(StatusCode::FORBIDDEN, message))?;
    Ok(next.run(request).await)
}

/// Reports that the process is running.
async fn alive() -> Response {
    health(StatusCode::OK, r#"{"status":"ok"}"#)
}

/// Reports whether the gateway serves connections; 503 during shutdown.
async fn ready(State(state): State<Arc<GatewayState>>) -> Response {
    match state.stopping.is_cancelled() {
        false => health(StatusCode::OK, r#"{"status":"ok"}"#),
        true => health(
            StatusCode::SERVICE_UNAVAILABLE,
            r#"{"status":"unavailable","why":"the gateway is shutting down"}"#,
        ),
    }
}

fn health(status: StatusCode, body: &'static str) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CONNECTION, "close")];
    (status, headers, body).into_response()
}

async fn not_found() -> Refused {
    Refused::new(
        StatusCode::NOT_FOUND,
        "not found; the gateway of a2a-v1 is at `/`",
    )
}

/// Upgrades a connection and serves it.
async fn open(
    State(state): State<Arc<GatewayState>>,
    Extension(connection): Extension<Connection>,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    mut request: Request,
) -> Result<Response, Refused> {
    if request.uri().query().is_some() {
        return Err(not_found().await);
    }
    let headers = accept(&request)?;
    let client = connection::register(&state, connection, address.ip()).ok_or(Refused::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "this gateway has as many connections as it may; try again later",
    ))?;
    let upgrade = hyper::upgrade::on(&mut request);
    let tasks = state.tasks.clone();
    tasks.spawn(async move {
        match upgrade.await {
            Ok(stream) => connection::serve(state, client, TokioIo::new(stream)).await,
            Err(_) => state.remove_client(&client),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Returns the headers of the response to a valid upgrade request.
fn accept(request: &Request) -> Result<HeaderMap, Refused> {
    let headers = request.headers();
    let upgrades = has_token(headers, &CONNECTION, "upgrade")
        && has_token(headers, &UPGRADE, "websocket")
        && request.version() >= Version::HTTP_11;
    let is_version_13 = only(headers, &SEC_WEBSOCKET_VERSION) == Some("13");
    if request.method() != Method::GET || !upgrades || !is_version_13 {
        return Err(Refused::new(
            StatusCode::UPGRADE_REQUIRED,
            "WebSocket required: this is a gateway of a2a-v1",
        ));
    }
    match only(headers, &SEC_WEBSOCKET_KEY) {
        Some(key) if !key.is_empty() && key.len() <= 64 => {
            let offers_subprotocol = has_token(headers, &SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
            Ok(switching_headers(key, offers_subprotocol))
        }
        _ => Err(Refused::new(
            StatusCode::BAD_REQUEST,
            "`sec-websocket-key` is missing",
        )),
    }
}

/// Returns the headers of a response that switches to the WebSocket of a request with `key`.
pub(super) fn switching_headers(key: &str, offers_subprotocol: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    // The hash of the key is in Base64, which is always a header.
    if let Ok(accept) = HeaderValue::try_from(websocket::accept(key)) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if offers_subprotocol {
        let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
        headers.insert(SEC_WEBSOCKET_PROTOCOL, subprotocol);
    }
    headers
}

/// Returns the value of a header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
