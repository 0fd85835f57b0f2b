//! The router of the whole server: the endpoints of the protocol and of the operator, behind the access control.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};

use super::access_control::{AccessControl, RequestContext, control};
use super::api::{self, Operator};
use super::error::plain;
use a2a::{A2aError, ErrorReason};
use http_server::operator_html::Page;

/// Merges the routes of the operator and of the protocol, and applies the access control to both.
pub fn router(wire: Router, operator: Operator, access: Arc<AccessControl>) -> Router {
    let page = Page::new(
        include_str!("operator_page/page.html"),
        include_str!("operator_page/page.js"),
    );
    let shown = get(move || async move { page.response() }).layer(from_fn(require_direct));
    let api = Router::new()
        .route("/api/tasks", get(api::tasks))
        .route("/api/tasks/{id}", get(api::task).delete(api::delete))
        .route("/api/tasks/{id}/cancel", post(api::cancel))
        .layer(from_fn(require_operator));
    let health = Router::new()
        .route("/healthz", get(api::alive))
        .route("/readyz", get(api::ready))
        .route("/metrics", get(api::metrics))
        .layer(from_fn(require_client));
    let own = Router::new()
        .route("/", shown)
        .merge(api)
        .merge(health)
        .with_state(Arc::new(operator));
    wire.merge(own).layer(from_fn_with_state(access, control))
}

/// Rejects requests that do not come directly from this machine.
async fn require_direct(request: Request, next: Next) -> Response {
    match context(&request) {
        Ok(context) if context.direct => next.run(request).await,
        Ok(_) => plain(&A2aError::new(
            ErrorReason::PermissionDenied,
            "the operator's page is only available from localhost; from elsewhere, forward the port (`ssh -L`)",
        )),
        Err(error) => plain(&error),
    }
}

/// Rejects requests that are not the operator's. Without tokens, the operator is every client on this machine.
/// Otherwise, the request needs a token of an operator.
async fn require_operator(request: Request, next: Next) -> Response {
    let may = context(&request).and_then(|context| {
        let principal = context.principal.clone()?;
        match (principal.authenticated, principal.operator, context.direct) {
            (true, true, _) | (false, _, true) => Ok(()),
            (true, false, _) => Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "only available to the operator; create an operator's token with `remote-agent serve clients add NAME --operator`",
            )),
            (false, _, false) => Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "only available to the operator, from localhost",
            )),
        }
    });
    match may {
        Ok(()) => next.run(request).await,
        Err(error) => plain(&error),
    }
}

/// Rejects requests that neither come from this machine nor have a valid token.
async fn require_client(request: Request, next: Next) -> Response {
    let may = context(&request).and_then(|context| match (&context.principal, context.direct) {
        (_, true) => Ok(()),
        (Ok(principal), _) if principal.authenticated => Ok(()),
        (Ok(_), _) => Err(A2aError::new(
            ErrorReason::PermissionDenied,
            "only available from localhost",
        )),
        (Err(error), _) => Err(error.clone()),
    });
    match may {
        Ok(()) => next.run(request).await,
        Err(error) => plain(&error),
    }
}

fn context(request: &Request) -> Result<&RequestContext, A2aError> {
    RequestContext::get(request.extensions())
}

#[cfg(test)]
mod tests;
