//! The server over HTTP: `/mcp` for hosts of MCP, `/remote_agent/read` and `/remote_agent/write` for other programs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use a2a::A2aError;
use a2a_server::http::access_control::{AccessControl, ErrorForm, RequestContext, control};
use a2a_server::http::error;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, post};
use axum::{Extension, Router};
use base::json;
use futures_util::StreamExt as _;
use http_server::content;
use openclaw_remote_agent::http_api::{
    ApiError, ApiRequest, ApiResponse, MAX_BODY_BYTES, REASON_HEADER, RETRYABLE_HEADER, Route,
};
use rmcp::model::ErrorCode;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::McpServer;
use crate::caller::client;
use crate::message::{self, Head, JSON_LIMITS, Refusal};

/// How many calls of one client run at once; more wait. The tool runs 16 for each target, so that a few clients that hold
/// calls open do not keep others from an agent.
const CALLS_PER_CLIENT: usize = 4;

/// The size of a body, in bytes, from which a message of MCP needs a slot even if it calls nothing.
const LARGE_BODY_BYTES: usize = 64 << 10;

/// The maximum size of the refusal of a request, in bytes. It has an id and the name of a method.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

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
    let own = server.limited(CALLS_PER_CLIENT);
    let service = |json_response: bool| {
        // The access control checks `Host` and `Origin`. A session would belong to every client with its id.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_legacy_session_mode(false)
            .with_max_request_body_bytes(body_bytes)
            .with_json_response(json_response)
            .with_cancellation_token(stop.clone());
        let (server, sessions) = (own.clone(), Arc::new(NeverSessionManager::default()));
        StreamableHttpService::new(move || Ok(server.clone()), sessions, config)
    };
    let mcp = Mcp {
        server: own.clone(),
        body_bytes,
        json: service(true),
        events: service(false),
    };
    let api = |route: Route, limit: Duration| {
        let api = Api {
            server: own.clone(),
            route,
            limit,
        };
        post(call).with_state(api)
    };
    Router::new()
        .route("/mcp", any(serve_mcp).with_state(mcp.clone()))
        .route("/mcp/", any(serve_mcp).with_state(mcp))
        .route("/remote_agent/read", api(Route::Read, limits.read))
        .route("/remote_agent/read/", api(Route::Read, limits.read))
        .route("/remote_agent/write", api(Route::Write, limits.write))
        .route("/remote_agent/write/", api(Route::Write, limits.write))
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
        .layer(Extension(ErrorForm(refusal)))
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
        Some(Err(error)) => refusal(request.method(), request.uri().path(), error),
        None => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request did not pass the access control",
        ),
    }
}

type Service = StreamableHttpService<McpServer, NeverSessionManager>;

#[derive(Clone)]
struct Mcp {
    server: McpServer,
    body_bytes: usize,
    /// Answers with JSON, for clients that accept no event streams.
    json: Service,
    events: Service,
}

async fn serve_mcp(State(mcp): State<Mcp>, request: Request) -> Response {
    if request.method() != Method::POST {
        return mcp.events.handle(request).await.map(Body::new);
    }
    match mcp.prepare(request).await {
        Ok((service, request, unknown)) => {
            let response = service.handle(request).await.map(Body::new);
            match unknown {
                Some(method) => in_own_words(response, &method).await,
                None => response,
            }
        }
        Err(response) => *response,
    }
}

/// Sets the text of an unknown `method` in the refusal of a request where the library has its name alone.
async fn in_own_words(response: Response, method: &str) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, MAX_REFUSAL_BYTES).await else {
        let message = "the answer cannot be read";
        return problem(StatusCode::INTERNAL_SERVER_ERROR, message);
    };
    let member = |message: &str| format!("\"message\":{}", json!(message));
    let own = member(&message::unknown_method(method).message);
    let body = String::from_utf8_lossy(&body).replacen(&member(method), &own, 1);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, body.into())
}

impl Mcp {
    /// Checks a message before the service parses it, and waits for the slot of a call. Returns the service, the request, and
    /// its method if the server does not have it.
    async fn prepare(
        &self,
        request: Request,
    ) -> Result<(&Service, Request, Option<String>), Box<Response>> {
        let (mut parts, body) = request.into_parts();
        let accepted = Accepted::read(&parts.headers);
        if !accepted.json && !accepted.events {
            let message = "accept application/json, text/event-stream or both";
            return Err(Box::new(problem(StatusCode::NOT_ACCEPTABLE, message)));
        }
        let body = read_body(&parts.headers, body, self.body_bytes).await?;
        let text = message::text(&body).map_err(|refusal| refused(&refusal))?;
        let head = Head::parse(&text).map_err(|refusal| refused(&refusal))?;
        head.check_params().map_err(|refusal| refused(&refusal))?;
        if head.is_call() || text.len() > LARGE_BODY_BYTES {
            let caller = self.server.caller(client(&parts.extensions), None);
            let stop = CancellationToken::new();
            let slot = self.server.acquire_slot(&caller, &stop).await;
            let slot = slot.map_err(|_| {
                let message = "the server is shutting down";
                Box::new(problem(StatusCode::SERVICE_UNAVAILABLE, message))
            })?;
            parts.extensions.insert(slot);
        }
        // The refusal repeats the id, whose characters may be escaped.
        let unknown = head
            .unknown_method()
            .filter(|_| text.len() <= MAX_REFUSAL_BYTES / 8);
        let headers = &mut parts.headers;
        let both = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, both);
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        headers.remove(header::CONTENT_LENGTH);
        let body = match text {
            Cow::Borrowed(text) => body.slice_ref(text.as_bytes()),
            Cow::Owned(text) => text.into(),
        };
        let service = if accepted.events {
            &self.events
        } else {
            &self.json
        };
        Ok((service, Request::from_parts(parts, body.into()), unknown))
    }
}

/// The kinds of responses that a client accepts. A client without `Accept` accepts both.
struct Accepted {
    json: bool,
    events: bool,
}

impl Accepted {
    fn read(headers: &HeaderMap) -> Self {
        let types = content::accepted_types(headers);
        let has = |accepted: [&str; 3]| {
            types.is_empty() || types.iter().any(|essence| accepted.contains(&&**essence))
        };
        Self {
            json: has(["application/json", "application/*", "*/*"]),
            events: has(["text/event-stream", "text/*", "*/*"]),
        }
    }
}

fn refused(refusal: &Refusal) -> Box<Response> {
    Box::new(json_response(StatusCode::BAD_REQUEST, refusal.to_json()))
}

/// Reads a JSON body.
async fn read_body(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Box<Response>> {
    if !content::is_json(headers) {
        let message = "unsupported Content-Type; send application/json";
        return Err(Box::new(problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message,
        )));
    }
    content::check_coding(headers)
        .map_err(|message| Box::new(problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)))?;
    to_bytes(body, limit).await.map_err(|_| {
        let message = format!("the body exceeds {limit} bytes");
        Box::new(problem(StatusCode::PAYLOAD_TOO_LARGE, message))
    })
}

#[derive(Clone)]
struct Api {
    server: McpServer,
    route: Route,
    limit: Duration,
}

async fn call(State(api): State<Api>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let trace = parts.headers.get("traceparent");
    let trace = trace.and_then(|trace| trace.to_str().ok());
    let caller = api.server.caller(client(&parts.extensions), trace);
    let body = match read_body(&parts.headers, body, MAX_BODY_BYTES).await {
        Ok(body) => body,
        Err(response) => return *response,
    };
    let checked = json::check(&body, JSON_LIMITS).and_then(|()| json::text(&body));
    let body = match checked {
        Ok(text) => text.into_owned(),
        Err(error) => {
            let error = ApiError::invalid("", format!("cannot read the body: {error}"));
            return respond(&ApiResponse::from(&error));
        }
    };
    let (route, limit) = (api.route, api.limit);
    let (action, expires_after) = match ApiRequest::parse(route, body.as_bytes(), limit) {
        Ok(parsed) => (parsed.action, parsed.expires_after),
        Err(error) => return respond(&ApiResponse::from(&error)),
    };
    let stop = CancellationToken::new();
    // A client that disconnects cancels its call, which then still ends in order.
    let leave = stop.clone().drop_guard();
    let mut running = tokio::spawn(async move {
        let slot = api.server.acquire_slot(&caller, &stop).await?;
        // Parsed only now: the body waits as text.
        let parsed = ApiRequest::parse(route, body.as_bytes(), limit);
        let request = parsed.map_err(|error| error.message)?.request;
        api.server.run_alone(&request, &caller, slot, stop).await
    });
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

/// Returns the response to a request that the access control refuses, in the form of its path: an error of JSON-RPC for MCP
/// (MCP, "Streamable HTTP"), and an error of HTTP for the API.
fn refusal(_: &Method, path: &str, refused: &A2aError) -> Response {
    let (status, _) = refused.reason.status();
    let body = match path.trim_end_matches('/') {
        "/mcp" => {
            let code = match status.is_server_error() {
                true => ErrorCode::INTERNAL_ERROR,
                false => ErrorCode::INVALID_REQUEST,
            };
            let error = json!({"code": code, "message": refused.text});
            json!({"jsonrpc": "2.0", "id": null, "error": error})
        }
        _ => problem_body(status, &refused.text),
    };
    error::json_error_response(status, refused, body)
}

/// Returns an error of HTTP itself, without an envelope of the API.
fn problem(status: StatusCode, message: impl Into<String>) -> Response {
    json_response(status, problem_body(status, &message.into()).to_string())
}

fn problem_body(status: StatusCode, message: &str) -> Value {
    let error = status.canonical_reason().unwrap_or("error");
    json!({ "error": error, "message": message })
}

fn json_response(status: StatusCode, body: String) -> Response {
    let mut answer = (status, body).into_response();
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}
