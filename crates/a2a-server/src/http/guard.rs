//! Stands before everything: who may come in at all.
//!
//! In order: the proxy, the names, the pages of others, the rate, the body. What is asked for is not looked at.

mod forwarded;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::Scheme;
use super::body_budget::{BodyBudget, too_large};
use super::clients::{self, ClientRegistry, Principal};
use super::error;
use super::held::hold;
use super::rate::{Open, Payer, Rate};
use crate::refusal::{A2aError, ErrorReason};
use common::connection_limit::ConnectionHandle;

pub use common::host_names::{HostNames, is_loopback};
pub use forwarded::{Proxies, network};

/// What the guard keeps to.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The names the server answers to.
    pub names: HostNames,
    /// Where others reach it, if that was said.
    pub public_url: Option<Url>,
    /// The proxies it stands behind, if any.
    pub proxies: Option<Proxies>,
    /// Whether its own connections are TLS.
    pub tls: bool,
    /// How much may come in.
    pub bounds: Bounds,
}

/// How much may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests a second of one client, in the long run.
    pub per_second: NonZeroU32,
    /// Requests at once of a client that was silent before.
    pub burst: NonZeroU32,
    /// Requests of one client that are open at a time, streams among them.
    pub open: usize,
    /// The largest body, in bytes.
    pub body: usize,
    /// All bodies together until they are parsed, in bytes.
    pub bodies: usize,
    /// All bodies of one client together until they are parsed, in bytes.
    pub bodies_per_client: usize,
    /// How long a body may take to arrive.
    pub body_time: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            per_second: NonZeroU32::MIN.saturating_add(199),
            burst: NonZeroU32::MIN.saturating_add(999),
            open: 1024,
            body: 10 << 20,
            bodies: 128 << 20,
            bodies_per_client: 32 << 20,
            body_time: Duration::from_secs(30),
        }
    }
}

/// Whom a request comes from, as the guard has found out.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The client's address; behind a proxy what the proxy says.
    pub client: IpAddr,
    /// What the client calls the server: scheme, host and port.
    pub origin: String,
    /// It comes from this machine, to a name of this machine, and no proxy has passed it on.
    pub direct: bool,
    /// Who it is.
    pub principal: Result<Principal, A2aError>,
}

/// Stands before everything.
pub struct Guard {
    rules: Rules,
    clients: Arc<ClientRegistry>,
    rate: Rate,
    open: Arc<Open>,
    bodies: Arc<BodyBudget>,
}

impl Guard {
    /// A guard that lets in whom the rules and the clients allow.
    pub fn new(rules: Rules, clients: Arc<ClientRegistry>) -> Arc<Self> {
        let bounds = rules.bounds;
        Arc::new(Self {
            rate: Rate::new(bounds.per_second, bounds.burst),
            open: Open::new(bounds.open),
            bodies: BodyBudget::new(bounds.bodies, bounds.bodies_per_client),
            rules,
            clients,
        })
    }

    fn see(&self, remote: SocketAddr, request: &Request) -> Result<Seen, A2aError> {
        let headers = request.headers();
        let passed_on = forwarded::is_passed_on(headers);
        let mut client = remote.ip().to_canonical();
        let from_here = client.is_loopback();
        let mut secure = self.rules.tls;
        let mut host = own_name(request)?;
        match &self.rules.proxies {
            Some(proxies) if !proxies.trust(client) => {
                return Err(A2aError::new(
                    ErrorReason::PermissionDenied,
                    "this server takes requests from its proxy alone; ask through it, or name the proxy's address in `trustedProxies`",
                ));
            }
            Some(proxies) if passed_on => {
                let said = proxies.read(headers);
                client = said.client.unwrap_or(client);
                secure |= said.secure;
                if let Some(said) = said.host {
                    host = authority(&said)?;
                }
            }
            // Whoever asks is not the one who connects, and nothing here would tell them apart.
            None if passed_on && !self.clients.requires_token() => {
                return Err(A2aError::new(
                    ErrorReason::PermissionDenied,
                    "a proxy has passed this on, and this server was told of none; start it with `--behind-proxy` and clients, or ask it directly",
                ));
            }
            _ => {}
        }
        if !self.rules.names.has(host.host()) {
            return Err(A2aError::new(
                ErrorReason::PermissionDenied,
                "this server does not answer to the name in `Host`; ask for a name it has, or give it this one with `--host NAME`",
            ));
        }
        let scheme = if secure { "https" } else { "http" };
        let seen = Seen {
            client,
            origin: format!("{scheme}://{host}"),
            direct: from_here && !passed_on && is_loopback(host.host()),
            principal: self.clients.identify(headers),
        };
        self.own_page(&seen, request)?;
        Ok(seen)
    }

    /// Refuses what a page of somebody else has a browser ask.
    fn own_page(&self, seen: &Seen, request: &Request) -> Result<(), A2aError> {
        let headers = request.headers();
        let refused = || {
            A2aError::new(
                ErrorReason::PermissionDenied,
                "this server takes nothing from pages of other origins; ask from a program, or from its own page",
            )
        };
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().map_err(|_| refused())?;
            let public = self.rules.public_url.as_ref();
            let own = origin.eq_ignore_ascii_case(&seen.origin)
                || public.is_some_and(|url| url.origin().ascii_serialization() == origin);
            if !own {
                return Err(refused());
            }
        }
        // Requests without an origin, such as those of images: what they ask for is done though the page cannot read it.
        let text = |name| {
            headers
                .get(name)
                .and_then(|v: &HeaderValue| v.to_str().ok())
        };
        let elsewhere = matches!(text("sec-fetch-site"), Some("cross-site" | "same-site"));
        let followed =
            text("sec-fetch-mode") == Some("navigate") && request.method() == Method::GET;
        if elsewhere && !followed {
            return Err(refused());
        }
        Ok(())
    }

    fn pays(seen: &Seen) -> Payer {
        match &seen.principal {
            Ok(principal) => Payer::Client(Arc::clone(&principal.name)),
            Err(_) => Payer::address(seen.client),
        }
    }

    /// Reads the body of a request, whole.
    async fn receive(&self, request: Request, payer: Payer) -> Result<Request, A2aError> {
        let bounds = &self.rules.bounds;
        let (parts, body) = request.into_parts();
        let announced = announced(&parts.headers);
        if announced.is_some_and(|length| length > bounds.body) {
            return Err(too_large(bounds.body));
        }
        if announced.is_none() && !parts.headers.contains_key(header::TRANSFER_ENCODING) {
            return Ok(Request::from_parts(parts, body));
        }
        let limit = announced.unwrap_or(bounds.body);
        let reading = self.bodies.read(payer, body, limit);
        let Ok(bytes) = tokio::time::timeout(bounds.body_time, reading).await else {
            let text = "the body did not arrive in time; send it again";
            return Err(A2aError::new(ErrorReason::Unavailable, text));
        };
        Ok(Request::from_parts(parts, Body::from(bytes?)))
    }
}

/// The middleware.
pub async fn guard(State(guard): State<Arc<Guard>>, mut request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let refused = |refusal: &A2aError| error::at(&method, uri.path(), refusal);
    let remote = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let Some(remote) = remote.map(|info| info.0) else {
        return refused(&A2aError::new(
            ErrorReason::InternalError,
            "the connection has no address",
        ));
    };
    let seen = match guard.see(remote, &request) {
        Ok(seen) => seen,
        Err(refusal) => {
            // Who is turned away must not fill the log either.
            if let Err(wait) = guard.rate.take(&Payer::address(remote.ip())) {
                return refused(&slower(wait));
            }
            tracing::info!(client = %remote.ip(), reason = refusal.reason.word(), "refused at the door: {refusal}");
            return refused(&refusal);
        }
    };
    let payer = Guard::pays(&seen);
    if let Err(wait) = guard.rate.take(&payer) {
        return refused(&slower(wait));
    }
    let Some(opened) = guard.open.enter(payer.clone()) else {
        let text = "too many requests of yours are open; end some, or wait until they end";
        let mut refusal = A2aError::new(ErrorReason::ResourceExhausted, text);
        refusal.retry_after_s = Some(1);
        return refused(&refusal);
    };
    let known = seen.principal.is_ok();
    let revoked = match &seen.principal {
        Ok(principal) => principal.revoked.clone(),
        Err(_) => CancellationToken::new(),
    };
    // The connection of an unknown client can be evicted, and the server does not read its body.
    let connection = request.extensions().get::<ConnectionHandle>();
    let active = connection.filter(|_| known).map(ConnectionHandle::begin);
    let answering = async {
        if known {
            request = guard.receive(request, payer).await?;
        }
        tell(&mut request, seen);
        Ok(next.run(request).await)
    };
    let answered = revoked.run_until_cancelled(answering).await;
    let mut response = match answered.unwrap_or_else(|| Err(clients::revoked())) {
        Ok(response) => response,
        Err(refusal) => return refused(&refusal),
    };
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response.map(|body| hold(body, (opened, active)))
}

/// Tells whoever answers what has been found out. The name in `Host` is the one the client used from now on.
fn tell(request: &mut Request, seen: Seen) {
    let scheme = match seen.origin.split_once("://") {
        Some(("https", _)) => Scheme("https"),
        _ => Scheme("http"),
    };
    let host = seen.origin.split_once("://").map(|(_, host)| host);
    if let Some(Ok(host)) = host.map(HeaderValue::try_from) {
        request.headers_mut().insert(header::HOST, host);
    }
    request.extensions_mut().insert(scheme);
    request.extensions_mut().insert(seen);
}

fn slower(wait: Duration) -> A2aError {
    let seconds = wait.as_secs() + 1;
    let text = format!("too many requests; ask again in {seconds} s");
    let mut refusal = A2aError::new(ErrorReason::ResourceExhausted, text);
    refusal.retry_after_s = Some(seconds);
    refusal
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// What the client calls the server. There is exactly one name (RFC 9112 §3.2).
fn own_name(request: &Request) -> Result<Authority, A2aError> {
    let mut all = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (all.next(), all.next()) else {
        return Err(A2aError::new(
            ErrorReason::InvalidRequest,
            "a request names its server once, in `Host`",
        ));
    };
    let named = authority(host.to_str().unwrap_or_default())?;
    match request.uri().authority() {
        Some(other) if *other != named => Err(A2aError::new(
            ErrorReason::InvalidRequest,
            "the request's target and its `Host` are two servers; send one",
        )),
        _ => Ok(named),
    }
}

fn authority(host: &str) -> Result<Authority, A2aError> {
    let wrong = || A2aError::new(ErrorReason::InvalidRequest, "`Host` is no name of a server");
    let authority: Authority = host.parse().map_err(|_| wrong())?;
    // What follows a bracket or a colon may be anything to the parser, and would be part of the addresses on cards.
    let rest = authority.as_str().strip_prefix(authority.host());
    let whole = rest.is_some_and(|rest| match rest.strip_prefix(':') {
        Some(port) => port.parse::<u16>().is_ok() && !port.starts_with('+'),
        None => rest.is_empty(),
    });
    if whole { Ok(authority) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
