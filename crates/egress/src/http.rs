//! The real network: HTTP/1.1 over TCP and TLS, by reqwest.
//!
//! There is one client per [`AddressPolicy`]. A client reuses connections to the same host, and a reused connection needs no
//! resolver. With one shared client, a request that may reach only public addresses could reuse a private connection of
//! another request. Each [`Trust`] has its own clients for the same reason. Upgrades use clients without reuse.
//! Connections to a proxy use clients that resolve only the proxy's name.
//!
//! `resolver.rs` checks the addresses that a name resolves to, before a connection and before a proxy gets the name.
//! `check_target` checks a host that is a literal address. Callers choose the policy before, with [`AddressPolicy::for_url`]. [`Upgrade`] is the answer to an upgrade request.

use std::collections::HashMap;
use std::mem::take;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use ::http::uri::Scheme;
use ::http::{HeaderMap, HeaderValue, StatusCode};
use bytes::Bytes;
use futures_util::{Stream, stream as streams};
use hyper_util::client::proxy::matcher::Intercept;
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use url::Url;

use super::error::place;
use super::proxy::Proxies;
use super::resolver::{Lookup, ResolvePolicy, Resolver, SystemLookup, check_for_proxy};
use super::retry::RetryContext;
use super::send_state::TrackedBody;
use super::tls::Tls;
use super::{
    AddressPolicy, BoxFuture, ByteStream, HttpClient, NetError, NetFault, Request, Response, Sent,
    auth, body, http_error, proxy, retry, tls,
};
use crate::address::{is_loopback, literal_ip, special_use, with_article};
use crate::credential::Trust;

const PRODUCT_TOKEN: &str = concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION"));

/// The timeout of resolution, TCP and TLS together. It detects hosts that drop packets while certainly no byte was
/// sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection is kept: less than usual servers do (Node.js and uvicorn close after 5 seconds). A
/// request on a connection that the server is closing fails, and the client cannot know whether it arrived.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// The real [`HttpClient`]. Its clones share their connections.
#[derive(Clone)]
pub struct ReqwestClient {
    /// The clients by the address of their [`Trust`], which they keep alive; 0 stands for the system's trust.
    clients: Arc<Mutex<HashMap<usize, Arc<TrustClients>>>>,
    lookup: Arc<dyn Lookup>,
    proxies: Proxies,
    retries: Option<RetryContext>,
}

/// The clients with one TLS trust.
#[derive(Default)]
struct TrustClients {
    trust: Option<Arc<Trust>>,
    tls: OnceLock<Result<Tls, NetError>>,
    by_pool: Mutex<HashMap<PoolKey, reqwest::Client>>,
}

/// The properties that connections of a pool share, apart from TLS.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PoolKey {
    access: AddressPolicy,
    kind: PoolKind,
    secure: bool,
    proxied: bool,
}

/// The kind of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum PoolKind {
    /// Carries requests, one after another.
    Exchange,
    /// Becomes a connection of another protocol.
    Upgrade,
}

/// A request, its client, and the names for its errors.
struct PreparedRequest {
    client: reqwest::Client,
    request: reqwest::Request,
    connection: http_error::Connection,
    /// Resolves the name to check its addresses, if a proxy would resolve it.
    lookup: Option<Arc<dyn Lookup>>,
}

impl TrustClients {
    fn tls(&self) -> Result<&Tls, NetError> {
        let made = self.tls.get_or_init(|| {
            tls::client_config(self.trust.as_deref())
                .map_err(|e| http_error::unusable(NetFault::Tls, "TLS", &e))
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl ReqwestClient {
    /// Creates a client without connections and without retries. It creates reqwest's clients on first use.
    ///
    /// # Errors
    /// None today; the first exchange reports what is unusable.
    pub fn new() -> Result<Self, NetError> {
        Ok(Self {
            clients: Arc::default(),
            lookup: Arc::new(SystemLookup),
            proxies: Proxies::default(),
            retries: None,
        })
    }

    /// Enables retries of [repeatable](Request::repeatable) requests.
    #[must_use]
    pub fn with_retries(mut self, context: RetryContext) -> Self {
        self.retries = Some(context);
        self
    }

    /// Resolves names with `lookup` in place of the system.
    #[must_use]
    pub fn with_lookup(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// Connects through `proxies`.
    #[must_use]
    pub fn with_proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    fn clients(&self, trust: Option<Arc<Trust>>) -> Arc<TrustClients> {
        let mut clients = self.clients.lock();
        let key = trust.as_ref().map_or(0, |trust| Arc::as_ptr(trust).addr());
        let found = clients.entry(key).or_insert_with(|| {
            Arc::new(TrustClients {
                trust,
                ..TrustClients::default()
            })
        });
        Arc::clone(found)
    }

    fn client(
        &self,
        clients: &TrustClients,
        pool: PoolKey,
        proxy: Option<&Intercept>,
    ) -> Result<reqwest::Client, NetError> {
        let tls = clients.tls()?;
        let mut by_pool = clients.by_pool.lock();
        if let Some(client) = by_pool.get(&pool) {
            return Ok(client.clone());
        }
        let client = self
            .build(tls, pool, proxy)
            .map_err(|e| http_error::unusable(NetFault::Protocol, "the HTTP client", &e))?;
        by_pool.insert(pool, client.clone());
        Ok(client)
    }

    /// Builds a reqwest client. It detects a dead peer by keep-alive probes after 15 s, and after 30 s during a
    /// request.
    fn build(
        &self,
        tls: &Tls,
        pool: PoolKey,
        proxy: Option<&Intercept>,
    ) -> reqwest::Result<reqwest::Client> {
        let policy = proxy.map_or(ResolvePolicy::Peer(pool.access), |_| ResolvePolicy::Proxy);
        let lookup = Arc::clone(&self.lookup);
        let builder = reqwest::Client::builder()
            // The operator decides about the proxies of the environment.
            .no_proxy()
            .tls_backend_preconfigured(tls.config.clone())
            .dns_resolver(Resolver { policy, lookup })
            .redirect(Policy::none())
            .referer(false)
            // By default, reqwest may repeat a request.
            .retry(reqwest::retry::never())
            .user_agent(PRODUCT_TOKEN)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(match pool.kind {
                // No more are idle than requests were under way at a time, which the configuration limits.
                PoolKind::Exchange => usize::MAX,
                PoolKind::Upgrade => 0,
            });
        let Some(proxy) = proxy else {
            return builder.build();
        };
        let mut all = reqwest::Proxy::all(proxy.uri().to_string())?;
        if let Some(auth) = proxy.basic_auth() {
            all = all.custom_http_auth(auth.clone());
        }
        builder.proxy(all).build()
    }

    /// Returns the proxies for a request. Requests to this machine use none.
    fn proxies(&self, access: AddressPolicy) -> Option<&Proxies> {
        Some(&self.proxies)
            .filter(|proxies| access != AddressPolicy::Loopback && !proxies.is_empty())
    }

    /// Prepares a request without sending it.
    fn prepare(&self, request: Request, kind: PoolKind) -> Result<PreparedRequest, NetError> {
        let Request {
            method,
            url,
            headers,
            body,
            access,
            trust,
            send_state,
            ..
        } = request;
        check_target(&url, access, kind)?;
        let to = over_http(&url);
        let proxies = self.proxies(access);
        let proxy = proxies.and_then(|proxies| proxies.proxy_for(&to));
        if let Some(proxy) = &proxy
            && proxy.uri().scheme() == Some(&Scheme::HTTPS)
            && trust.is_some()
        {
            return Err(http_error::not_proxied(&url));
        }
        let clients = self.clients(trust);
        let pool = PoolKey {
            access,
            kind,
            secure: to.scheme() == "https",
            proxied: proxy.is_some(),
        };
        let client = self.client(&clients, pool, proxy.as_ref())?;
        let mut request = reqwest::Request::new(method, to);
        *request.headers_mut() = headers;
        if kind == PoolKind::Exchange {
            let identity = HeaderValue::from_static("identity");
            request.headers_mut().insert(ACCEPT_ENCODING, identity);
        }
        *request.body_mut() = body.map(|body| match send_state {
            Some(state) => reqwest::Body::wrap(TrackedBody::new(body, state)),
            None => reqwest::Body::from(body),
        });
        // A proxy would resolve the name, so check it before.
        let resolved_elsewhere = access == AddressPolicy::Public && proxies.is_some();
        Ok(PreparedRequest {
            client,
            request,
            connection: http_error::Connection {
                url,
                without_roots: clients.tls()?.without_roots.clone(),
                proxy: proxy.as_ref().map(proxy::place),
            },
            lookup: resolved_elsewhere.then(|| Arc::clone(&self.lookup)),
        })
    }
}

impl PreparedRequest {
    async fn send(self) -> Result<(reqwest::Response, Url), NetError> {
        let connection = self.connection;
        if let Some(lookup) = self.lookup {
            let checked = timeout(CONNECT_TIMEOUT, check_for_proxy(lookup, &connection.url)).await;
            checked.map_err(|_| http_error::unresolved(&connection.url))??;
        }
        match self.client.execute(self.request).await {
            Ok(answer) => match connection.proxy {
                Some(proxy) if answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                    Err(http_error::proxy_auth(&proxy))
                }
                _ => Ok((answer, connection.url)),
            },
            Err(error) => Err(http_error::before_response(&error, &connection)),
        }
    }
}

impl HttpClient for ReqwestClient {
    /// Handles credentials and retries first. Each removes its part of the request and calls `exchange` again, so that
    /// the last call sends the request once.
    fn exchange(&self, mut request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        if let Some(state) = request
            .send_state
            .as_ref()
            .filter(|_| request.body.is_some())
        {
            state.track();
        }
        if let Some(authorization) = request.authorization.take() {
            return Box::pin(auth::exchange(self, authorization, request));
        }
        if let Some(context) = self.retries.as_ref().filter(|_| request.repeatable) {
            return Box::pin(retry::exchange(self, context, request));
        }
        let prepared = self.prepare(request, PoolKind::Exchange);
        Box::pin(async move {
            let (mut answer, url) = prepared?.send().await?;
            let headers = take(answer.headers_mut());
            let encoded_at = headers.contains_key(CONTENT_ENCODING).then(|| place(&url));
            let response = Response {
                status: answer.status(),
                headers,
                body: Box::pin(body(answer, url)),
            };
            match encoded_at {
                Some(place) => body::decode(response, &place),
                None => Ok(response),
            }
        })
    }

    fn detached(&self) -> Option<Arc<dyn HttpClient>> {
        Some(Arc::new(self.clone()))
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'_, Result<Upgrade, NetError>> {
        let prepared = self.prepare(request, PoolKind::Upgrade);
        Box::pin(async move {
            let (mut answer, url) = prepared?.send().await?;
            let (status, headers) = (answer.status(), take(answer.headers_mut()));
            if status != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Upgrade {
                    status,
                    headers,
                    stream: None,
                    body: Box::pin(body(answer, url)),
                });
            }
            let changed = answer.upgrade().await;
            let stream = changed.map_err(|error| http_error::upgrade_failed(&error, &url))?;
            Ok(Upgrade {
                status,
                headers,
                stream: Some(Box::new(stream)),
                body: Box::pin(streams::empty()),
            })
        })
    }
}

fn body(
    answer: reqwest::Response,
    url: Url,
) -> impl Stream<Item = Result<Bytes, NetError>> + Send + Sync {
    streams::try_unfold((answer, url), async |(mut answer, url)| {
        match answer.chunk().await {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk, (answer, url)))),
            Err(error) => Err(http_error::in_body(&error, &url)),
        }
    })
}

/// Checks whether a request can be sent to `url`, as far as known before resolution.
fn check_target(url: &Url, access: AddressPolicy, kind: PoolKind) -> Result<(), NetError> {
    check_scheme(url, kind)?;
    check_literal(url, access)
}

fn check_scheme(url: &Url, kind: PoolKind) -> Result<(), NetError> {
    match url.scheme() {
        "http" | "https" => Ok(()),
        "ws" | "wss" if kind == PoolKind::Upgrade => Ok(()),
        other => {
            let message = format!("`{other}:` is not a supported scheme; use `http` or `https`");
            Err(NetError::new(NetFault::Protocol, Sent::No, message))
        }
    }
}

/// Checks a host that is a literal address.
fn check_literal(url: &Url, access: AddressPolicy) -> Result<(), NetError> {
    let refused = literal_ip(url).and_then(|ip| match access {
        AddressPolicy::AnyAddress => None,
        AddressPolicy::Public => special_use(ip).map(|class| {
            format!(
                "it is {} address, and only public addresses are allowed",
                with_article(class)
            )
        }),
        AddressPolicy::Loopback => (!is_loopback(ip)).then(|| {
            "it is an address of another machine, and only this machine is allowed".to_owned()
        }),
    });
    refused.map_or(Ok(()), |reason| {
        let message = format!("`{}` is not allowed: {reason}", place(url));
        Err(NetError::new(NetFault::AddressRefused, Sent::No, message))
    })
}

/// Returns the URL with the HTTP scheme of a WebSocket handshake (RFC 6455 §3), and without user info, which a proxy
/// would receive.
fn over_http(url: &Url) -> Url {
    let mut url = url.clone();
    let scheme = match url.scheme() {
        "ws" => Some("http"),
        "wss" => Some("https"),
        _ => None,
    };
    // These calls fail only for URLs without a host, or between schemes with and without one. All of these have one.
    if let Some(scheme) = scheme {
        let _ = url.set_scheme(scheme);
    }
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// A bidirectional stream of bytes.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The response to an upgrade request.
pub struct Upgrade {
    /// The status: 101 if the upgrade succeeded.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The connection, if the upgrade succeeded. Dropping it closes it.
    pub stream: Option<Box<dyn Duplex>>,
    /// The body, if the upgrade failed.
    pub body: ByteStream,
}

base::debug_fields!(self: Upgrade {
    status, headers = super::names(&self.headers), changed = self.stream.is_some(),
});

/// Returns the error of a network without WebSockets.
pub(super) fn unsupported(request: &Request) -> NetError {
    NetError::new(
        NetFault::Protocol,
        Sent::No,
        format!(
            "this network supports no upgrade of connections to `{}`",
            place(&request.url)
        ),
    )
}

#[cfg(test)]
mod tests;
