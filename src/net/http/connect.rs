//! Making a connection: name, TCP and TLS, past a proxy or through it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http::header::USER_AGENT;
use ::http::uri::Scheme;
use ::http::{HeaderMap, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Intercept;
use rustls::ClientConfig;
use tokio::time::timeout;
use tower_service::Service;

use super::OWN_NAME;
use super::stream::Stream;
use crate::net::BoxFuture;
use crate::net::proxy::Proxies;
use crate::net::resolve::Resolver;

/// Name, TCP and TLS together. A host that drops packets is found out while it is still certain that nothing was sent.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// How a peer that is gone is noticed while nothing comes from it: it is asked after this long, and as often as this.
const ASK_AFTER: Duration = Duration::from_secs(15);
const ASK_TIMES: u32 = 3;
/// The same while something is under way to it.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const UNHEARD: Duration = Duration::from_secs(30);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes the connections of a client. The client copies it for each request, so it is small.
#[derive(Clone)]
pub(super) struct Connector(Arc<Ways>);

type Direct = HttpsConnector<HttpConnector<Resolver>>;

struct Ways {
    to_peer: Direct,
    tls: Arc<ClientConfig>,
    proxies: Option<(Proxies, Direct)>,
}

/// A name resolved and a connection secured: what one end of a connection asks for.
pub(super) struct End {
    pub(super) resolver: Resolver,
    pub(super) tls: Arc<ClientConfig>,
}

impl End {
    fn direct(&self) -> Direct {
        HttpsConnector::from((tcp(self.resolver.clone()), Arc::clone(&self.tls)))
    }
}

impl Connector {
    /// Connects peers as `peer` says. A proxy is nobody that a request trusts or is meant for, so it has an end of its own.
    pub(super) fn new(peer: &End, proxies: Option<(Proxies, End)>) -> Self {
        Self(Arc::new(Ways {
            to_peer: peer.direct(),
            tls: Arc::clone(&peer.tls),
            proxies: proxies.map(|(proxies, end)| (proxies, end.direct())),
        }))
    }
}

fn tcp(resolver: Resolver) -> HttpConnector<Resolver> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    // `https` is TCP too.
    tcp.enforce_http(false);
    // Of several addresses each has its part of the time.
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(ASK_AFTER));
    tcp.set_keepalive_interval(Some(ASK_AFTER));
    tcp.set_keepalive_retries(Some(ASK_TIMES));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(UNHEARD));
    tcp
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Stream, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let ways = Arc::clone(&self.0);
        Box::pin(async move { timeout(CONNECT, ways.connect(to)).await? })
    }
}

impl Ways {
    async fn connect(&self, to: Uri) -> Result<Stream, BoxError> {
        let proxies = self.proxies.as_ref();
        let proxy = proxies.and_then(|(proxies, direct)| Some((proxies.before(&to)?, direct)));
        let Some((proxy, direct)) = proxy else {
            let stream = self.to_peer.clone().call(to).await?;
            return Ok(Stream::to_peer(stream.into()));
        };
        let direct = direct.clone();
        if to.scheme() == Some(&Scheme::HTTPS) {
            return self.tunnel(&proxy, direct, to).await;
        }
        let stream = { direct }.call(proxy.uri().clone()).await?;
        Ok(Stream::to_proxy(stream.into()))
    }

    async fn tunnel(&self, proxy: &Intercept, direct: Direct, to: Uri) -> Result<Stream, BoxError> {
        let headers = [(USER_AGENT, OWN_NAME)];
        let mut tunnel =
            Tunnel::new(proxy.uri().clone(), direct).with_headers(HeaderMap::from_iter(headers));
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let mut secured = HttpsConnector::from((tunnel, Arc::clone(&self.tls)));
        Ok(Stream::to_peer(secured.call(to).await?))
    }
}
