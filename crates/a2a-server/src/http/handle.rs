//! Says who answers a request.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use http::header::{ALLOW, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body::Body as _;

use super::error::{self, Failure};
use super::paths::{Path, Place};
use super::rpc::Id;
use super::{App, Scheme, card, rest, rpc};
use crate::caller::Version;
use a2a::{A2aError, ErrorReason};

/// Answers everything that comes.
pub(crate) async fn handle(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let head = parts.method == Method::HEAD;
    let response = dispatch(&app, parts, body).await;
    if head {
        without_body(response)
    } else {
        response
    }
}

async fn dispatch(app: &App, parts: Parts, body: Body) -> Response {
    let Path { agent, place } = Path::read(parts.uri.path());
    if !matches!(place, Place::Nothing(_)) && !place.takes(&parts.method) {
        return not_allowed(&place);
    }
    match place {
        Place::Card => card::serve(app, &parts, agent).await,
        Place::Rpc => rpc::serve(app, parts, body, agent).await,
        Place::Rest {
            version,
            tenant,
            resource,
        } => match rest::serve(app, parts, body, version, agent, tenant, resource).await {
            Ok(response) => response,
            Err(failure) => error::rest(version, &failure),
        },
        Place::Nothing(version) => {
            let refusal = A2aError::new(
                ErrorReason::MethodNotFound,
                "there is nothing at this path; `/.well-known/agent-card.json` says where things are",
            );
            error::rest(version, &refusal.into())
        }
    }
}

fn not_allowed(place: &Place) -> Response {
    let refusal = A2aError::new(
        ErrorReason::InvalidRequest,
        format!("this path takes {} alone", place.methods()),
    );
    let failure = Failure::with(refusal, StatusCode::METHOD_NOT_ALLOWED);
    let mut response = match place {
        Place::Rpc => error::rpc(&Id::none(), &failure),
        Place::Rest { version, .. } => error::rest(*version, &failure),
        Place::Card | Place::Nothing(_) => error::rest(Version::V1_0, &failure),
    };
    let methods = HeaderValue::from_static(place.methods());
    response.headers_mut().insert(ALLOW, methods);
    response
}

fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Response::from_parts(parts, Body::empty())
}

/// Where a request comes from. Nowhere in particular, which is not loopback, if nobody has said.
pub(crate) fn remote(parts: &Parts) -> SocketAddr {
    parts
        .extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map_or_else(
            || SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            |info| info.0,
        )
}

/// The address that the client knows this server by, without a slash at the end: the one that was set, or the one it asked.
///
/// # Errors
/// None was set, and the request does not name a host.
pub(crate) fn base(app: &App, parts: &Parts) -> Result<String, A2aError> {
    if let Some(url) = &app.card.public_url {
        return Ok(url.as_str().trim_end_matches('/').to_owned());
    }
    let scheme = parts
        .extensions
        .get::<Scheme>()
        .map_or("http", |scheme| scheme.0);
    let host = parts
        .headers
        .get(http::header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
        .filter(|host| {
            let authority = host.parse::<http::uri::Authority>();
            authority.is_ok_and(|authority| !authority.as_str().contains('@'))
        })
        .ok_or_else(|| {
            A2aError::new(
                ErrorReason::InvalidRequest,
                "the request has no `Host`, so the server cannot say what its address is; send it",
            )
        })?;
    Ok(format!("{scheme}://{host}"))
}

/// Checks that the path or the tenant names an agent that is here.
///
/// # Errors
/// It does not, or nobody knows.
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
        let refusal = A2aError::new(
            ErrorReason::MethodNotFound,
            format!("there is no agent `{}` here", short(name)),
        );
        return Err(Failure::with(refusal, StatusCode::NOT_FOUND));
    }
    match (path, tenant) {
        (Some(path), Some(tenant)) if path != tenant => {
            Err(bad_tenant("is not the agent that the path names").into())
        }
        (None, Some(tenant)) if !known(&tenant) => {
            Err(bad_tenant("names no agent that is here; leave it out, or name one").into())
        }
        (path, tenant) => Ok(path.or(tenant)),
    }
}

fn bad_tenant(why: &str) -> A2aError {
    a2a::params::refused("tenant", why)
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}
