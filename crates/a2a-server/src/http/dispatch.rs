//! Dispatches requests by their path.

use std::sync::Arc;

use a2a::{A2aError, ErrorReason};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{ALLOW, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body::Body as _;

use super::envelope::Id;
use super::error::Failure;
use super::route::{Path, Route};
use super::{App, card, error, rest, rpc};
use crate::call_context::Version;

/// Handles a request to any path of the protocol.
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
    let Path { agent, route } = Path::parse(parts.uri.path());
    if !matches!(route, Route::Unknown(_)) && !route.allows(&parts.method) {
        return method_not_allowed(&route);
    }
    match route {
        Route::Card => card::serve(app, &parts, agent).await,
        Route::Rpc => rpc::serve(app, parts, body, agent).await,
        Route::Rest {
            version,
            tenant,
            resource,
        } => match rest::serve(app, parts, body, version, agent, tenant, resource).await {
            Ok(response) => response,
            Err(failure) => error::rest(version, &failure),
        },
        Route::Unknown(version) => {
            let error = A2aError::new(
                ErrorReason::MethodNotFound,
                "unknown path; `/.well-known/agent-card.json` lists the interfaces",
            );
            error::rest(version, &error.into())
        }
    }
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
        Route::Card | Route::Unknown(_) => error::rest(Version::V1_0, &failure),
    };
    let methods = HeaderValue::from_static(route.methods());
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
