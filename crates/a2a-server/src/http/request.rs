//! Reads the parts of a request that both bindings have.

use base::text::first_chars;
use http::StatusCode;
use http::request::Parts;

use super::App;
use super::access_control::{Principal, RequestContext};
use super::error::Failure;
use a2a::{A2aError, ErrorReason};

/// Returns the principal of a request.
///
/// # Errors
/// The request needs a token and has none, or an unknown one.
pub(crate) fn principal(parts: &Parts) -> Result<Principal, A2aError> {
    RequestContext::get(&parts.extensions)?.principal.clone()
}

/// Returns the URL of this server in the client's view, without a slash at the end: the configured URL, or else the
/// origin of the request.
pub(crate) fn base_url(app: &App, parts: &Parts) -> Result<String, A2aError> {
    match &app.card.public_url {
        Some(url) => Ok(url.as_str().trim_end_matches('/').to_owned()),
        None => Ok(RequestContext::get(&parts.extensions)?.origin.clone()),
    }
}

/// Returns the agent in the path or the tenant of a request.
///
/// # Errors
/// The agent does not exist, or the executor cannot list agents.
pub(crate) async fn agent(
    app: &App,
    path: Option<String>,
    tenant: Option<String>,
) -> Result<Option<String>, Failure> {
    let tenant = tenant.filter(|tenant| !tenant.is_empty());
    if path.is_none() && tenant.is_none() {
        return Ok(None);
    }
    let agents = app.service.agents().await?;
    let known = |name: &str| agents.iter().any(|agent| agent.name == name);
    if let Some(name) = path.as_deref().filter(|name| !known(name)) {
        let error = A2aError::new(
            ErrorReason::MethodNotFound,
            format!("unknown agent `{}`", first_chars(name, 64)),
        );
        return Err(Failure::with(error, StatusCode::NOT_FOUND));
    }
    match (path, tenant) {
        (Some(path), Some(tenant)) if path != tenant => {
            Err(invalid_tenant("is not the agent that the path names").into())
        }
        (None, Some(tenant)) if !known(&tenant) => {
            Err(invalid_tenant("names no agent of this server; omit it, or name one").into())
        }
        (path, tenant) => Ok(path.or(tenant)),
    }
}

fn invalid_tenant(problem: &str) -> A2aError {
    a2a::parse_request::invalid_params("tenant", problem)
}
