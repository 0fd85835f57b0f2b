//! The server over HTTP: `/mcp` for hosts of MCP, `/remote_agent/read` and `/remote_agent/write` for other programs.

use std::sync::Arc;
use std::time::Duration;

use a2a_server::http::access_control::{AccessControl, RequestContext, control};
use a2a_server::http::error::plain;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::StreamExt as _;
use openclaw_remote_agent::http_api::{
    ApiError, ApiRequest, ApiResponse, MAX_BODY_BYTES, REASON_HEADER, RETRYABLE_HEADER, Route,
};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::McpServer;
use crate::caller::{caller, client};

/// How many calls of one client run at once; more wait. The tool runs 16 for each target, so that a few clients that hold
/// calls open do not keep others from an agent.
const CALLS_PER_CLIENT: usize = 4;

/// The time limits of the HTTP API.
#[derive(Debug, Clone, Copy)]
pub struct ApiLimits {
    /// The limit of a call over `/remote_agent/read`.
    pub read: Duration,
    /// The limit of a call over `/remote_agent/write`.
    pub write: Duration,
}

/// Returns the routes of `server` behind `access`, which identifies clients and bounds their requests; a body of MCP has
/// at most `body_bytes`. `stop` ends streams and sessions.
pub fn router(
    server: McpServer,
    access: Arc<AccessControl>,
    limits: ApiLimits,
    body_bytes: usize,
    stop: CancellationToken,
) -> Router {
    // The access control checks `Host` and `Origin`. A session would belong to every client with its id.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_max_request_body_bytes(body_bytes)
        .with_cancellation_token(stop);
    let server = server.limited(CALLS_PER_CLIENT);
    let own = server.clone();
    let sessions = Arc::new(NeverSessionManager::default());
    let mcp = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let api = |route: Route, limit: Duration| {
        let api = Api {
            server: own.clone(),
            route,
            limit,
        };
        post(call).with_state(api)
    };
    Router::new()
        .route_service("/mcp", mcp)
        .route("/remote_agent/read", api(Route::Read, limits.read))
        .route("/remote_agent/write", api(Route::Write, limits.write))
        .fallback(|| async {
            problem(
                StatusCode::NOT_FOUND,
                "there are /mcp, /remote_agent/read and /remote_agent/write",
            )
        })
        .method_not_allowed_fallback(|| async {
            problem(StatusCode::METHOD_NOT_ALLOWED, "use POST")
        })
        .layer(from_fn(require_client))
        .layer(from_fn_with_state(access, control))
}

/// Admits identified clients, and ends the response to a client that the operator removes.
async fn require_client(request: Request, next: Next) -> Response {
    let context = request.extensions().get::<RequestContext>();
    match context.map(|context| context.principal.as_ref()) {
        Some(Ok(principal)) => {
            let revoked = principal.revoked.clone().cancelled_owned();
            let response = next.run(request).await;
            response.map(|body| Body::from_stream(body.into_data_stream().take_until(revoked)))
        }
        Some(Err(error)) => plain(error),
        None => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request did not pass the access control",
        ),
    }
}

#[derive(Clone)]
struct Api {
    server: McpServer,
    route: Route,
    limit: Duration,
}

async fn call(State(api): State<Api>, request: Request) -> Response {
    if !is_json(request.headers()) {
        return problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json");
    }
    let trace = request.headers().get("traceparent");
    let caller = caller(
        client(request.extensions()),
        trace.and_then(|trace| trace.to_str().ok()),
    );
    let Ok(body) = to_bytes(request.into_body(), MAX_BODY_BYTES).await else {
        return problem(StatusCode::PAYLOAD_TOO_LARGE, "the body exceeds 1 MiB");
    };
    let parsed = match ApiRequest::parse(api.route, &body, api.limit) {
        Ok(parsed) => parsed,
        Err(error) => return respond(&ApiResponse::from(&error)),
    };
    let ApiRequest {
        request,
        action,
        expires_after,
    } = parsed;
    let stop = CancellationToken::new();
    // A client that disconnects cancels its call, which then still ends in order.
    let leave = stop.clone().drop_guard();
    let mut running =
        tokio::spawn(async move { api.server.run_alone(&request, &caller, stop).await });
    let expired = tokio::time::sleep(expires_after);
    let (ended, has_expired) = tokio::select! {
        ended = &mut running => (ended, false),
        () = expired => {
            drop(leave);
            (running.await, true)
        }
    };
    match ended {
        Ok(Ok(envelope)) => respond(&ApiResponse::new(action, &envelope, has_expired)),
        // The call still waited for others of its client.
        Ok(Err(_)) if has_expired => respond(&ApiResponse::new(action, "", true)),
        Ok(Err(message)) => respond(&ApiResponse::from(&ApiError::unavailable(message))),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the call failed"),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

fn respond(response: &ApiResponse) -> Response {
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = (status, Body::from(response.body.clone())).into_response();
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(reason) = response.reason {
        headers.insert(REASON_HEADER, HeaderValue::from_static(reason));
    }
    if let Some(retryable) = response.retryable {
        let retryable = if retryable { "true" } else { "false" };
        headers.insert(RETRYABLE_HEADER, HeaderValue::from_static(retryable));
    }
    answer
}

/// Returns an error of HTTP itself, without an envelope of the API.
fn problem(status: StatusCode, message: &'static str) -> Response {
    let error = status.canonical_reason().unwrap_or("error");
    let body = json!({ "error": error, "message": message }).to_string();
    let mut answer = (status, body).into_response();
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
