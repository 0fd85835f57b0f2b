//! The caller of a request: the authenticated client of HTTP.

use a2a_server::http::access_control::RequestContext;
use axum::http::Extensions;

/// Returns the name of the authenticated client of an HTTP request with these extensions.
pub(crate) fn client(extensions: &Extensions) -> Option<&str> {
    let principal = extensions
        .get::<RequestContext>()?
        .principal
        .as_ref()
        .ok()?;
    principal.authenticated.then_some(&*principal.name)
}
