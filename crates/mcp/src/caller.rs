//! The caller of a request: the authenticated client, and the trace that it continues.

use a2a_server::http::access_control::RequestContext;
use axum::http::Extensions;
use serde_json::{Value, json};

/// Returns the name of the authenticated client of an HTTP request with these extensions.
pub(crate) fn client(extensions: &Extensions) -> Option<&str> {
    let principal = extensions
        .get::<RequestContext>()?
        .principal
        .as_ref()
        .ok()?;
    principal.authenticated.then_some(&*principal.name)
}

/// The minimum interval of the updates of a call, and so of its progress notifications, in milliseconds.
const UPDATE_INTERVAL_MS: u32 = 100;

/// Returns the caller for the tool. A W3C trace continues.
pub(crate) fn caller(agent: Option<&str>, traceparent: Option<&str>) -> Value {
    let mut caller = json!({"update_interval_ms": UPDATE_INTERVAL_MS});
    if let Some(agent) = agent {
        caller["agent_id"] = agent.into();
    }
    if let Some(trace) = traceparent {
        caller["traceparent"] = trace.into();
    }
    caller
}
