//! Checks every request before its handler runs.
//!
//! The order of the checks is proxy, `Host`, limit of guesses, token, `Origin`, rate, open requests, body. A request without a valid token passes these
//! checks; handlers that need an authenticated client reject it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use http_server::auth_limit::AuthLimiter;
use http_server::host::{self, HostError, HostNames, is_loopback};
use http_server::host::{TrustedProxies, is_forwarded};
use http_server::rate_limit::RateLimitKey;
use http_server::request_limit::{HttpLimits, LimitError, RequestLimiter};
use http_server::serve::Connection;
use url::Url;

use super::clients::{self, ClientRegistry};
use super::error;
use super::request_log::{RequestLog, Started};
use super::route::Path;
use a2a::{A2aError, ErrorReason};

pub use super::clients::Principal;

/// The number of failed authentications of an address that have no consequence.
const MAX_AUTH_FAILURES: u32 = 20;

/// The time after which the server forgets one of them.
const AUTH_FAILURE_INTERVAL: Duration = Duration::from_secs(1);

/// The rules that requests have to satisfy.
#[derive(Debug, Clone)]
pub struct AccessRules {
    /// The host names of this server.
    pub names: HostNames,
    /// The URL for clients on other machines, if configured.
    pub public_url: Option<Url>,
    /// The trusted proxies, if the server is behind one.
    pub proxies: Option<TrustedProxies>,
    /// Whether the server itself terminates TLS.
    pub tls: bool,
    /// The limits for each client.
    pub limits: HttpLimits,
}

/// The results of the access control for a request, as an extension of the request.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The address of the client; behind a proxy, the forwarded address.
    pub client: IpAddr,
    /// The origin of the server in the client's view: scheme, host and port.
    pub origin: String,
    /// Whether the request comes from this machine without a proxy and names a loopback host.
    pub direct: bool,
    /// The principal, or the error of the authentication.
    pub principal: Result<Arc<Principal>, A2aError>,
}

/// How a server of another protocol responds to a request that the access control refuses, as an extension of the request:
/// from its method, its path and the error. Without it, the response has the form of A2A.
#[derive(Clone, Copy)]
pub struct ErrorForm(pub fn(&Method, &str, &A2aError) -> Response);

/// The access control of a server, which [`control`] applies.
pub struct AccessControl {
    rules: AccessRules,
    /// The origin of the public URL.
    public_origin: Option<String>,
    clients: Arc<ClientRegistry>,
    limiter: RequestLimiter,
    auth_limiter: AuthLimiter,
}

impl AccessControl {
    /// Creates an access control for these rules and clients.
    pub fn new(rules: AccessRules, clients: Arc<ClientRegistry>) -> Arc<Self> {
        Arc::new(Self {
            limiter: RequestLimiter::new(rules.limits),
            auth_limiter: AuthLimiter::new(MAX_AUTH_FAILURES, AUTH_FAILURE_INTERVAL),
            public_origin: rules
                .public_url
                .as_ref()
                .map(|url| url.origin().ascii_serialization()),
            rules,
            clients,
        })
    }

    /// Checks the proxy, the host and the origin of a request.
    fn context(&self, remote: SocketAddr, request: &Request) -> Result<RequestContext, A2aError> {
        let headers = request.headers();
        let forwarded = is_forwarded(headers);
        let mut client = remote.ip().to_canonical();
        let from_here = client.is_loopback();
        let mut secure = self.rules.tls;
        let mut host = host::requested_host(headers, request.uri()).map_err(host_error)?;
        match &self.rules.proxies {
            Some(proxies) if !proxies.contains(client) => {
                return Err(A2aError::new(
                    ErrorReason::PermissionDenied,
                    "this server accepts requests from its proxy only; send them through the proxy, or add the proxy's address to `trustedProxies`",
                ));
            }
            Some(proxies) if forwarded => {
                let behind = proxies.client(headers);
                client = behind.address.unwrap_or(client);
                secure |= behind.is_tls;
                if let Some(named) = behind.host {
                    host = host::parse_host(&named).map_err(host_error)?;
                }
            }
            // Without tokens, the server cannot distinguish the clients behind the proxy.
            None if forwarded && !self.clients.requires_token() => {
                return Err(A2aError::new(
                    ErrorReason::PermissionDenied,
                    "forwarded request, but no trusted proxy is configured; start the server with `--behind-proxy` and clients, or connect to it directly",
                ));
            }
            _ => {}
        }
        if !self.rules.names.contains(host.host()) {
            return Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "unknown host name in `Host`; use a name of this server, or add this one with `--host NAME`",
            ));
        }
        let scheme = if secure { "https" } else { "http" };
        let context = RequestContext {
            client,
            origin: [scheme, "://", host.as_str()].concat(),
            direct: from_here && !forwarded && is_loopback(host.host()),
            principal: self.clients.identify(headers, certificate(request)),
        };
        // The catalog is for everyone, and a page can change nothing by reading it.
        if self.public_origin.is_some() && Path::is_catalog(request.method(), request.uri().path())
        {
            return Ok(context);
        }
        let is_public = |origin: &str| self.public_origin.as_deref() == Some(origin);
        if host::is_foreign_origin(headers, &context.origin, is_public)
            || host::is_cross_site(headers, request.method())
        {
            return Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "this server rejects requests of web pages from other origins; use a program, or the server's own page",
            ));
        }
        Ok(context)
    }
}

impl AccessControl {
    /// Limits how fast an address can guess tokens.
    fn check_credentials(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
    ) -> Result<(), LimitError> {
        let now = tokio::time::Instant::now().into_std();
        let checked = match &context.principal {
            Ok(principal) if principal.authenticated => {
                self.auth_limiter
                    .succeed(context.client, &principal.name, now)
            }
            Err(_) if headers.contains_key(header::AUTHORIZATION) => {
                self.auth_limiter.fail(context.client, now)
            }
            _ => Ok(()),
        };
        checked.map_err(LimitError::Rate)
    }
}

impl RequestContext {
    /// Returns the context that [`control`] added to a request.
    pub(super) fn get(extensions: &Extensions) -> Result<&Self, A2aError> {
        extensions.get::<Self>().ok_or_else(|| {
            A2aError::new(
                ErrorReason::InternalError,
                "the request did not pass the access control",
            )
        })
    }

    fn rate_limit_key(&self) -> RateLimitKey {
        match &self.principal {
            Ok(principal) => RateLimitKey::Client(Arc::clone(&principal.name)),
            Err(_) => RateLimitKey::address(self.client),
        }
    }
}

/// Returns the middleware that applies the access control to a request, and logs it.
pub async fn control(
    State(access): State<Arc<AccessControl>>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = RequestLog::start(&mut request);
    let response = checked(&access, request, next, &started).await;
    started.finish(&response);
    response
}

async fn checked(
    access: &AccessControl,
    mut request: Request,
    next: Next,
    started: &Started,
) -> Response {
    let log = started.log();
    let respond = match request.extensions().get::<ErrorForm>() {
        Some(form) => form.0,
        None => error::respond_at,
    };
    let refused = |error: A2aError| respond(started.method(), started.path(), &error);
    let remote = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let Some(remote) = remote.map(|info| info.0) else {
        return refused(A2aError::new(
            ErrorReason::InternalError,
            "the connection has no address",
        ));
    };
    let limiter = &access.limiter;
    let mut context = match access.context(remote, &request) {
        Ok(context) => context,
        Err(error) => {
            // This limit also prevents rejected requests from filling the log.
            if let Err(error) = limiter.check_rate(&RateLimitKey::address(remote.ip())) {
                return refused(limit_error(error));
            }
            log.record_client(&remote.ip().to_string());
            tracing::info!(client = %remote.ip(), reason = error.reason.name(), "rejected a request: {error}");
            return refused(error);
        }
    };
    if context.principal.is_err()
        && let Some(token) = access.clients.issued_token(request.headers())
    {
        // Verifying a signature costs more than the rest of a refused request.
        if let Err(error) = limiter.check_rate(&RateLimitKey::address(context.client)) {
            return refused(limit_error(error));
        }
        context.principal = access.clients.identify_issued(token).await;
    }
    match &context.principal {
        Ok(principal) => log.record_client(&principal.name),
        Err(_) => log.record_client(&context.client.to_string()),
    }
    let key = context.rate_limit_key();
    let opened = limiter
        .check_rate(&key)
        .and_then(|()| access.check_credentials(&context, request.headers()))
        .and_then(|()| limiter.try_open(key.clone()));
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => return refused(limit_error(error)),
    };
    let principal = context.principal.clone().ok();
    let known = principal.is_some();
    // For an unauthenticated client, the connection stays evictable, and the server does not read the body.
    let connection = request.extensions().get::<Connection>();
    let active = connection.filter(|_| known).map(Connection::begin);
    let answering = async {
        if known {
            let (parts, body) = request.into_parts();
            let body = limiter.read_body(key.clone(), &parts.headers, body).await;
            let body = body.map_err(limit_error)?;
            request = Request::from_parts(parts, body);
        }
        request.extensions_mut().insert(context);
        Ok(next.run(request).await)
    };
    let revocation = async {
        match &principal {
            Some(principal) => principal.revoked.cancelled().await,
            None => std::future::pending().await,
        }
    };
    // An answer that is ready at once needs no waiter for the revocation.
    let answered = tokio::select! {
        biased;
        answered = answering => Some(answered),
        () = revocation => None,
    };
    // The end of a removed client's tasks may answer its request before this notices the removal.
    let is_revoked = principal.is_some_and(|principal| principal.revoked.is_cancelled());
    let answered = answered.filter(|_| !is_revoked);
    let mut response = match answered.unwrap_or_else(|| Err(clients::revoked())) {
        Ok(response) => response,
        Err(error) => return refused(error),
    };
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    limiter
        .guard_response(key, response, (opened, active))
        .unwrap_or_else(|error| refused(limit_error(error)))
}

/// Returns the client certificate of the connection, in DER.
fn certificate(request: &Request) -> Option<&[u8]> {
    let connection = request.extensions().get::<Connection>()?;
    connection.client_certificate().map(AsRef::as_ref)
}

fn host_error(error: HostError) -> A2aError {
    A2aError::new(ErrorReason::InvalidRequest, error.to_string())
}

/// Converts the error of an exceeded limit.
fn limit_error(exceeded: LimitError) -> A2aError {
    let reason = match exceeded.status() {
        StatusCode::TOO_MANY_REQUESTS => ErrorReason::ResourceExhausted,
        StatusCode::PAYLOAD_TOO_LARGE => ErrorReason::PayloadTooLarge,
        StatusCode::BAD_REQUEST => ErrorReason::InvalidRequest,
        _ => ErrorReason::Unavailable,
    };
    let mut error = A2aError::new(reason, exceeded.to_string());
    error.retry_after_s = exceeded.retry_after_s();
    error
}

#[cfg(test)]
mod tests;
