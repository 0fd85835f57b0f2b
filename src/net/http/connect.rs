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
const CONNECT: Duration = Duration::from_secs(10);

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

struct Ways {
    direct: HttpsConnector<HttpConnector<Resolver>>,
    tls: Arc<ClientConfig>,
    proxies: Proxies,
}

impl Connector {
    pub(super) fn new(resolver: Resolver, tls: &Arc<ClientConfig>, proxies: Proxies) -> Self {
        Self(Arc::new(Ways {
            direct: HttpsConnector::from((tcp(resolver), Arc::clone(tls))),
            tls: Arc::clone(tls),
            proxies,
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
        let mut direct = self.direct.clone();
        let Some(proxy) = self.proxies.before(&to) else {
            return Ok(Stream::to_peer(direct.call(to).await?.into()));
        };
        if to.scheme() == Some(&Scheme::HTTPS) {
            return self.tunnel(&proxy, to).await;
        }
        let stream = direct.call(proxy.uri().clone()).await?;
        Ok(Stream::to_proxy(stream.into()))
    }

    async fn tunnel(&self, proxy: &Intercept, to: Uri) -> Result<Stream, BoxError> {
        let headers = [(USER_AGENT, OWN_NAME)];
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct.clone())
            .with_headers(HeaderMap::from_iter(headers));
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let mut secured = HttpsConnector::from((tunnel, Arc::clone(&self.tls)));
        Ok(Stream::to_peer(secured.call(to).await?))
    }
}
