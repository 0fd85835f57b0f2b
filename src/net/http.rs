//! The real network: HTTP/1.1 over TCP and TLS.
//!
//! There is a client for each [`Access`]. A connection is kept for the next request to the same host, and a
//! request that is handed a kept connection asks no resolver. With one client, a request that may connect only public
//! addresses could travel over a connection to a private one that another request was allowed to open. With one for
//! each, the addresses behind a pool were all checked the same way. Each [`Trust`] has its own, for the same reason: a kept
//! connection was secured as the request that opened it wanted. Connections that change their protocol come from clients
//! that keep nothing.
//!
//! An address is judged in one of two places: the resolver of a client sees every answer for a name, and a host that already
//! is an address never reaches a resolver and is looked at before the call.

mod client;
mod connect;
mod stream;
mod target;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ::http::header::{ACCEPT, HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use ::http::uri::Scheme;
use ::http::{StatusCode, Uri};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream as streams};
use http_body_util::{BodyDataStream, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::ResponseFuture;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use url::Url;

use crate::credential::Trust;

use super::error::place;
use super::lookup::{Lookup, SystemLookup};
use super::proxy::Proxies;
use super::resolve::{Resolver, Whose, check_for_proxy};
use super::tls::{self, Tls};
use super::{Access, BoxFuture, Net, NetError, NetFault, Request, Response, Sent, Upgrade, fault};

use client::{Client, Use};
use connect::{CONNECT, Connector, End};

const OWN_NAME: HeaderValue =
    HeaderValue::from_static(concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION")));
const ANYTHING: HeaderValue = HeaderValue::from_static("*/*");

/// The real [`Net`].
pub struct Http {
    system: Clients,
    /// By the address of the [`Trust`], which its clients keep alive.
    others: Mutex<HashMap<usize, Arc<Clients>>>,
    lookup: Arc<dyn Lookup>,
    proxies: Proxies,
}

/// The clients whose connections are secured in one way.
#[derive(Default)]
struct Clients {
    trust: Option<Arc<Trust>>,
    tls: OnceLock<Result<Tls, NetError>>,
    /// By [`Access`].
    exchanging: [OnceLock<Client>; 3],
    upgrading: [OnceLock<Client>; 3],
}

/// A request on its way, and what its errors tell of.
struct Sending {
    answer: ResponseFuture,
    url: Url,
    /// Asked first whether the name may be told to a proxy.
    lookup: Option<Arc<dyn Lookup>>,
    without_roots: Option<Arc<str>>,
}

impl Clients {
    fn tls(&self) -> Result<&Tls, NetError> {
        let made = self.tls.get_or_init(|| {
            tls::client_config(self.trust.as_deref()).map_err(|e| {
                NetError::new(
                    NetFault::Tls,
                    Sent::No,
                    format!("TLS cannot be set up on this system: {e}"),
                )
            })
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl Http {
    /// A network without connections. The clients are made at the first exchange, inside the caller's tokio runtime.
    ///
    /// # Errors
    /// None today; what can fail is made later and reported by the exchange.
    pub fn new() -> Result<Self, NetError> {
        Ok(Self {
            system: Clients::default(),
            others: Mutex::default(),
            lookup: Arc::new(SystemLookup),
            proxies: Proxies::default(),
        })
    }

    /// The same network, with names resolved by `lookup` instead of the system.
    #[must_use]
    pub fn with_lookup(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.lookup = lookup;
        self
    }

    /// The same network, reached through `proxies`.
    #[must_use]
    pub fn with_proxies(mut self, proxies: Proxies) -> Self {
        self.proxies = proxies;
        self
    }

    fn end(&self, whose: Whose, tls: &Tls) -> End {
        let lookup = Arc::clone(&self.lookup);
        End {
            resolver: Resolver { whose, lookup },
            tls: Arc::clone(&tls.config),
        }
    }

    /// Through a proxy it is the proxy that resolves the name, so it is checked before.
    fn names_are_resolved_elsewhere(&self, access: Access) -> bool {
        access == Access::Public && self.proxies(access).is_some()
    }

    fn others(&self, trust: &Arc<Trust>) -> Arc<Clients> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let clients = others.entry(Arc::as_ptr(trust).addr()).or_insert_with(|| {
            Arc::new(Clients {
                trust: Some(Arc::clone(trust)),
                ..Clients::default()
            })
        });
        Arc::clone(clients)
    }

    fn client<'a>(
        &self,
        clients: &'a Clients,
        tls: &Tls,
        access: Access,
        used: Use,
    ) -> Result<&'a Client, NetError> {
        let cells = match used {
            Use::Exchange => &clients.exchanging,
            Use::Upgrade => &clients.upgrading,
        };
        let cell = match access {
            Access::Public => &cells[0],
            Access::Private => &cells[1],
            Access::Loopback => &cells[2],
        };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let proxies = match self.proxies(access) {
            // What a target trusts and shows is not for a proxy.
            Some(proxies) => Some((proxies.clone(), self.end(Whose::Proxy, self.system.tls()?))),
            None => None,
        };
        let peer = self.end(Whose::Peer(access), tls);
        Ok(cell.get_or_init(|| client::new(Connector::new(&peer, proxies), used)))
    }

    /// No proxy is asked for what is on this machine.
    fn proxies(&self, access: Access) -> Option<&Proxies> {
        match access {
            Access::Loopback => None,
            Access::Public | Access::Private => {
                Some(&self.proxies).filter(|proxies| !proxies.is_empty())
            }
        }
    }

    /// Puts the request on its way. Nothing is sent before its answer is waited for.
    fn send(&self, request: Request, used: Use) -> Result<Sending, NetError> {
        let Request {
            method,
            url,
            mut headers,
            body,
            access,
            trust,
            ..
        } = request;
        target::check(&url, access, used)?;
        let others = trust.as_ref().map(|trust| self.others(trust));
        let clients = others.as_deref().unwrap_or(&self.system);
        let tls = clients.tls()?;
        let uri = target::uri(&url, used)?;
        headers.entry(ACCEPT).or_insert(ANYTHING);
        headers.entry(USER_AGENT).or_insert(OWN_NAME);
        if let Some(shown) = self.proxy_authorization(&uri, access) {
            headers.entry(PROXY_AUTHORIZATION).or_insert(shown);
        }
        headers.entry(HOST).or_insert(target::host(&url)?);
        let mut sent = ::http::Request::new(Full::new(body.unwrap_or_default()));
        *sent.method_mut() = method;
        *sent.headers_mut() = headers;
        *sent.uri_mut() = uri;
        let resolved_elsewhere = self.names_are_resolved_elsewhere(access);
        Ok(Sending {
            answer: self.client(clients, tls, access, used)?.request(sent),
            url,
            lookup: resolved_elsewhere.then(|| Arc::clone(&self.lookup)),
            without_roots: tls.without_roots.clone(),
        })
    }

    /// What a proxy that hands requests on is shown of who asks. One that makes a tunnel is shown it there.
    fn proxy_authorization(&self, uri: &Uri, access: Access) -> Option<HeaderValue> {
        let handed_on = uri.scheme() == Some(&Scheme::HTTP);
        let proxy = self.proxies(access).filter(|_| handed_on)?.before(uri)?;
        proxy.basic_auth().cloned()
    }
}

impl Sending {
    async fn answer(self) -> Result<(::http::Response<Incoming>, Url), NetError> {
        if let Some(lookup) = self.lookup {
            let checked = timeout(CONNECT, check_for_proxy(lookup, &self.url)).await;
            checked.map_err(|_| fault::unresolved(&self.url))??;
        }
        match self.answer.await {
            Ok(answer) => Ok((answer, self.url)),
            Err(error) => {
                let without_roots = self.without_roots.as_deref();
                Err(fault::before_response(&error, &self.url, without_roots))
            }
        }
    }
}

impl Net for Http {
    fn exchange(&self, request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        let sending = self.send(request, Use::Exchange);
        Box::pin(async move {
            let (answer, url) = sending?.answer().await?;
            let (head, rest) = answer.into_parts();
            Ok(Response {
                status: head.status,
                headers: head.headers,
                body: Box::pin(body(rest, url)),
            })
        })
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'static, Result<Upgrade, NetError>> {
        let sending = self.send(request, Use::Upgrade);
        Box::pin(async move {
            let (mut answer, url) = sending?.answer().await?;
            let changed = (answer.status() == StatusCode::SWITCHING_PROTOCOLS)
                .then(|| hyper::upgrade::on(&mut answer));
            let (head, rest) = answer.into_parts();
            let (status, headers) = (head.status, head.headers);
            let Some(changed) = changed else {
                return Ok(Upgrade {
                    status,
                    headers,
                    stream: None,
                    body: Box::pin(body(rest, url)),
                });
            };
            let stream = changed.await.map_err(|error| {
                let place = place(&url);
                let message = format!("`{place}` does not hand its connection over: {error}");
                NetError::new(NetFault::Protocol, Sent::Unknown, message)
            })?;
            Ok(Upgrade {
                status,
                headers,
                stream: Some(Box::new(TokioIo::new(stream))),
                body: Box::pin(streams::empty()),
            })
        })
    }
}

fn body(body: Incoming, url: Url) -> impl Stream<Item = Result<Bytes, NetError>> + Send + Sync {
    let mut over = false;
    BodyDataStream::new(body)
        .map(move |chunk| chunk.map_err(|error| fault::in_body(&error, &url)))
        .take_while(move |chunk| {
            let take = !over;
            over = chunk.is_err();
            std::future::ready(take)
        })
}

#[cfg(test)]
mod tests;
