//! The whole application: the wire, and what is for the operator, behind the access control.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post};

use super::access_control::{AccessControl, RequestContext, control};
use super::api::{self, Operator};
use super::error::plain;
use super::page::Page;
use a2a::{A2aError, ErrorReason};

/// Puts the operator's part beside the wire, and the access control before both.
pub fn router(wire: Router, operator: Operator, access: Arc<AccessControl>) -> Router {
    let page = Page::new();
    let shown = get(move || async move { page.answer() }).layer(from_fn(require_direct));
    let api = Router::new()
        .route("/api/tasks", get(api::tasks))
        .route("/api/tasks/{id}", delete(api::delete))
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

/// Lets requests from this machine through.
async fn require_direct(request: Request, next: Next) -> Response {
    match context(&request) {
        Ok(context) if context.direct => next.run(request).await,
        Ok(_) => plain(&A2aError::new(
            ErrorReason::PermissionDenied,
            "the operator's page is shown on the server's own machine alone; from elsewhere, forward the port (`ssh -L`)",
        )),
        Err(refusal) => plain(&refusal),
    }
}

/// Lets the operator through: requests from this machine where the server has no tokens, else those with an operator's token.
async fn require_operator(request: Request, next: Next) -> Response {
    let may = context(&request).and_then(|context| {
        let principal = context.principal.clone()?;
        match (principal.authenticated, principal.operator, context.direct) {
            (true, true, _) | (false, _, true) => Ok(()),
            (true, false, _) => Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "this is the operator's; make a token for him with `remote-agent serve clients add NAME --operator`",
            )),
            (false, _, false) => Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "this is the operator's, and he is at the server's own machine",
            )),
        }
    });
    match may {
        Ok(()) => next.run(request).await,
        Err(refusal) => plain(&refusal),
    }
}

/// Lets requests from this machine and of known clients through.
async fn require_client(request: Request, next: Next) -> Response {
    let may = context(&request).and_then(|context| match (&context.principal, context.direct) {
        (_, true) => Ok(()),
        (Ok(principal), _) if principal.authenticated => Ok(()),
        (Ok(_), _) => Err(A2aError::new(
            ErrorReason::PermissionDenied,
            "only available from localhost",
        )),
        (Err(refusal), _) => Err(refusal.clone()),
    });
    match may {
        Ok(()) => next.run(request).await,
        Err(refusal) => plain(&refusal),
    }
}

fn context(request: &Request) -> Result<&RequestContext, A2aError> {
    RequestContext::get(request.extensions())
}

#[cfg(test)]
mod tests;
