//! The whole server, behind its guard: the wire, and what is for the operator.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post};
use http::request::Parts;

use super::clients::ClientRegistry;
use super::error::plain;
use super::guard::{Guard, Seen, guard};
use super::identify::Identify;
use super::page::Page;
use super::{api, health};
use crate::refusal::{A2aError, ErrorReason};
use crate::service::Service;

/// What the operator sees.
pub struct Operator {
    /// What answers.
    pub service: Service,
    /// What the server is, in one line: the page shows it.
    pub about: String,
}

/// Puts the operator's part beside the wire, and the guard before both.
pub fn router(wire: Router, operator: Operator, guarding: Arc<Guard>) -> Router {
    let page = Page::new();
    let shown = get(move || async move { page.answer() }).layer(from_fn(near));
    let api = Router::new()
        .route("/api/tasks", get(api::tasks))
        .route("/api/tasks/{id}", delete(api::delete))
        .route("/api/tasks/{id}/cancel", post(api::cancel))
        .layer(from_fn(operators));
    let health = Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .layer(from_fn(known));
    let own = Router::new()
        .route("/", shown)
        .merge(api)
        .merge(health)
        .with_state(Arc::new(operator));
    wire.merge(own).layer(from_fn_with_state(guarding, guard))
}

/// Lets through who is at this machine.
async fn near(request: Request, next: Next) -> Response {
    match seen(&request) {
        Ok(seen) if seen.direct => next.run(request).await,
        Ok(_) => plain(&A2aError::new(
            ErrorReason::PermissionDenied,
            "the operator's page is shown on the server's own machine alone; from elsewhere, forward the port (`ssh -L`)",
        )),
        Err(refusal) => plain(&refusal),
    }
}

/// Lets through the operator: who is at this machine where nobody has to say who he is, else who shows an operator's token.
async fn operators(request: Request, next: Next) -> Response {
    let may = seen(&request).and_then(|seen| {
        let principal = seen.principal.clone()?;
        match (principal.authenticated, principal.operator, seen.direct) {
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

/// Lets through who is at this machine, and every client.
async fn known(request: Request, next: Next) -> Response {
    let may = seen(&request).and_then(|seen| match (&seen.principal, seen.direct) {
        (_, true) => Ok(()),
        (Ok(principal), _) if principal.authenticated => Ok(()),
        (Ok(_), _) => Err(A2aError::new(
            ErrorReason::PermissionDenied,
            "this is told on the server's own machine alone",
        )),
        (Err(refusal), _) => Err(refusal.clone()),
    });
    match may {
        Ok(()) => next.run(request).await,
        Err(refusal) => plain(&refusal),
    }
}

fn seen(request: &Request) -> Result<&Seen, A2aError> {
    request.extensions().get::<Seen>().ok_or_else(unguarded)
}

fn unguarded() -> A2aError {
    A2aError::new(
        ErrorReason::InternalError,
        "the request did not pass the guard",
    )
}

/// Tells the wire whom the guard has seen.
pub struct Guarded(pub Arc<ClientRegistry>);

impl Identify for Guarded {
    fn identify(&self, parts: &Parts, _remote: SocketAddr) -> Result<(String, bool), A2aError> {
        let seen = parts.extensions.get::<Seen>().ok_or_else(unguarded)?;
        let principal = seen.principal.clone()?;
        Ok((principal.name.to_string(), principal.authenticated))
    }

    fn schemes(&self) -> bool {
        self.0.requires_token()
    }
}

#[cfg(test)]
mod tests;
