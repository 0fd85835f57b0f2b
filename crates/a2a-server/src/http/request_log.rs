//! One line in the log for each request: who requested what, and how it ended. Never contents or credentials.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use a2a::v1_0::{Task, TaskState};
use a2a::{ErrorReason, Operation};
use axum::extract::Request;
use axum::response::Response;
use base::log::SPANS;
use base::text::first_chars;
use base::visible::visible;
use http::{Extensions, Method, StatusCode};
use parking_lot::Mutex;
use tracing::Span;
use tracing::field::Empty;

use crate::store::state_name;
use a2a::Version;

/// The maximum length of a logged path, name or id, in characters.
const MAX_CHARS: usize = 200;

/// The paths that monitors and the operator's page request continually.
const POLLED: [&str; 5] = ["/", "/healthz", "/readyz", "/metrics", "/api/tasks"];

/// The methods that a span names. Others are text of clients.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// The facts of one request, as an extension of the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestLog(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    /// The operation of A2A.
    operation: Option<&'static str>,
    client: Option<String>,
    task: Option<String>,
    state: Option<TaskState>,
}

/// The start of a request.
pub(super) struct Started {
    log: RequestLog,
    at: Instant,
    method: Method,
    path: String,
    span: Span,
}

impl RequestLog {
    /// Adds a log to a request, and the [`Span`] of the request if it is exported.
    pub(super) fn start(request: &mut Request) -> Started {
        let log = Self::default();
        request.extensions_mut().insert(log.clone());
        let span = match is_polled(request.method(), request.uri().path()) {
            true => Span::none(),
            false => request_span(request),
        };
        if !span.is_disabled() {
            request.extensions_mut().insert(span.clone());
        }
        Started {
            log,
            at: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            span,
        }
    }

    /// Returns the log of a request.
    pub(super) fn get(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Records the client: its name, or its address if it has none.
    pub(super) fn record_client(&self, client: &str) {
        self.0.lock().client = Some(short(client));
    }

    /// Records what a client requests.
    pub(super) fn record_operation(&self, operation: Operation, task: Option<&str>) {
        let mut facts = self.0.lock();
        facts.operation = Some(operation.method(Version::V1_0));
        facts.task = task.map(short);
    }

    /// Records the state of the task that a client requests.
    pub(super) fn record_state(&self, state: &TaskState) {
        self.0.lock().state = Some(state.clone());
    }

    /// Records the task of an answer.
    pub(super) fn record_task(&self, task: &Task) {
        let mut facts = self.0.lock();
        facts.task = Some(task.id.clone());
        facts.state = Some(task.status.state.clone());
    }
}

impl Started {
    pub(super) fn log(&self) -> &RequestLog {
        &self.log
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Writes the line, and ends the span.
    pub(super) fn finish(self, response: &Response) {
        let facts = std::mem::take(&mut *self.log.0.lock());
        let method = match facts.operation {
            Some(operation) => Cow::Borrowed(operation),
            None => Cow::Owned(format!("{} {}", self.method, short(&self.path))),
        };
        let status = response.status();
        let client = facts.client.as_deref();
        let task = facts.task.as_deref();
        let state = facts.state.as_ref().map(state_name);
        let reason = response.extensions().get::<ErrorReason>();
        let reason = reason.map(|reason| reason.name());
        let ms = base::environment::millis(self.at.elapsed());
        let (method, status) = (&*method, status.as_u16());
        if !self.span.is_disabled() {
            let span = &self.span;
            span.record("http.response.status_code", status);
            span.record("client.name", client);
            if let Some(operation) = facts.operation {
                span.record("otel.name", operation);
                span.record("rpc.method", operation);
            }
            // Only then it is the id of a task, and not just text of the client.
            if state.is_some() {
                span.record("a2a.task.id", task);
                span.record("a2a.task.state", state);
            }
            match reason {
                Some(reason) => span.record("error.type", reason),
                None if status >= 500 => span.record("error.type", status),
                None => span,
            };
        }
        // A client above its limit must not fill the log, and monitors must not either.
        let is_frequent =
            status == StatusCode::TOO_MANY_REQUESTS.as_u16() || is_polled(&self.method, &self.path);
        if is_frequent {
            tracing::debug!(client, method, task, state, status, reason, ms, "request");
        } else {
            tracing::info!(client, method, task, state, status, reason, ms, "request");
        }
    }
}

fn is_polled(method: &Method, path: &str) -> bool {
    method == Method::GET && (POLLED.contains(&path) || path.starts_with("/api/tasks/"))
}

/// Returns the span of a request for export. Nothing of the request is read without an export.
fn request_span(request: &Request) -> Span {
    let method = || METHODS.into_iter().find(|known| request.method() == known);
    let trace = || request.headers().get("traceparent")?.to_str().ok();
    tracing::info_span!(
        target: SPANS,
        parent: None,
        "request",
        otel.name = method().unwrap_or("HTTP"),
        traceparent = trace(),
        http.request.method = method().unwrap_or("_OTHER"),
        http.response.status_code = Empty,
        rpc.method = Empty,
        client.name = Empty,
        a2a.task.id = Empty,
        a2a.task.state = Empty,
        "error.type" = Empty,
    )
}

/// Returns text of a client in the form for the log.
fn short(text: &str) -> String {
    first_chars(&visible(text), MAX_CHARS).to_owned()
}
