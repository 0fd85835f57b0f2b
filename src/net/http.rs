//! The real network: HTTP/1.1 over TCP and TLS.
//!
//! There is a client for each [`Access`]. A connection is kept for the next request to the same host, and a
//! request that is handed a kept connection asks no resolver. With one client, a request that may connect only public
//! addresses could travel over a connection to a private one that another request was allowed to open. With one for
//! each, the addresses behind a pool were all checked the same way. Each [`Trust`] has its own, for the same reason: a kept
//! connection was secured as the request that opened it wanted. Connections that change their protocol come from clients
//! that offer HTTP/1.1 alone and keep nothing.
//!
//! An address is judged in one of two places: the resolver of a client sees every answer for a name, and a host that already is an address never reaches a resolver and is looked at before the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ::http::StatusCode;
use futures_util::{Stream, StreamExt, stream};
use reqwest::redirect::Policy;

use crate::address::{is_loopback, literal_ip, special_use};
use crate::credential::Trust;

use super::error::place;
use super::lookup::{Lookup, SystemLookup};
use super::proxy::Proxies;
use super::resolve::{Resolver, check_for_proxy};
use super::tls::{self, Tls};
use super::{
    Access, BoxFuture, Net, NetError, NetFault, Request, Response, Sent, Upgrade, fault, upgrade,
};

/// An idle connection is given up before the usual server does it (Node.js and uvicorn close after 5 seconds): a request
/// written to a connection that is being closed fails, and nobody can tell whether it arrived.
const IDLE: Duration = Duration::from_secs(4);
const IDLE_PER_HOST: usize = 64;
/// Name, TCP and TLS together. A host that drops packets is found out while it is still certain that nothing was sent.
const CONNECT: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("openclaw-remote-agent/", env!("CARGO_PKG_VERSION"));

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
    exchanging: [OnceLock<Result<reqwest::Client, NetError>>; 3],
    upgrading: [OnceLock<Result<reqwest::Client, NetError>>; 3],
}

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It carries requests, one after another or side by side.
    Exchange,
    /// It becomes something else than HTTP.
    Upgrade,
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

    fn without_roots(&self) -> Option<String> {
        self.tls().ok().and_then(|tls| tls.without_roots.clone())
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

    fn resolver(&self, access: Access) -> Resolver {
        Resolver {
            access,
            lookup: Arc::clone(&self.lookup),
            proxies: self.proxies.clone(),
        }
    }

    /// Through a proxy it is the proxy that resolves the name, so it is checked before.
    fn names_are_resolved_elsewhere(&self, access: Access) -> bool {
        access == Access::Public && !self.proxies.is_empty()
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

    fn client(
        &self,
        clients: &Clients,
        access: Access,
        used: Use,
    ) -> Result<reqwest::Client, NetError> {
        let cells = match used {
            Use::Exchange => &clients.exchanging,
            Use::Upgrade => &clients.upgrading,
        };
        let cell = match access {
            Access::Public => &cells[0],
            Access::Private => &cells[1],
            Access::Loopback => &cells[2],
        };
        let make = || {
            let none = Proxies::default();
            let proxies = match access {
                Access::Loopback => &none,
                Access::Public | Access::Private => &self.proxies,
            };
            client(clients.tls()?, self.resolver(access), proxies, used)
        };
        cell.get_or_init(make).clone()
    }

    fn prepare(
        &self,
        clients: &Clients,
        request: Request,
        used: Use,
    ) -> Result<(reqwest::Client, reqwest::Request), NetError> {
        let Request {
            method,
            mut url,
            headers,
            body,
            access,
            ..
        } = request;
        let shown = place(&url);
        if used == Use::Upgrade {
            upgrade::over_http(&mut url);
        }
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!(
                "`{}:` is not a scheme a request can be sent to: use `http` or `https`",
                url.scheme()
            );
            return Err(NetError::new(NetFault::Protocol, Sent::No, message));
        }
        let refused = literal_ip(&url).and_then(|ip| match access {
            Access::Private => None,
            Access::Public => special_use(ip).map(|class| {
                format!("it is a {class} address, and only public addresses may be connected")
            }),
            Access::Loopback => (!is_loopback(ip)).then(|| {
                "it is an address of another machine, and only this one may be connected".to_owned()
            }),
        });
        if let Some(why) = refused {
            let message = format!("`{shown}` is not allowed: {why}");
            return Err(NetError::new(NetFault::AddressRefused, Sent::No, message));
        }
        // Both calls fail only for URLs without a host, and these schemes have one.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let mut prepared = reqwest::Request::new(method, url);
        *prepared.headers_mut() = headers;
        *prepared.body_mut() = body.map(reqwest::Body::from);
        Ok((self.client(clients, access, used)?, prepared))
    }
}

impl Http {
    /// Sends the request, and gives what came of it with what its errors show.
    fn execute(
        &self,
        request: Request,
        used: Use,
    ) -> BoxFuture<'static, Result<(reqwest::Response, String), NetError>> {
        let url = request.url.clone();
        let check = self
            .names_are_resolved_elsewhere(request.access)
            .then(|| Arc::clone(&self.lookup));
        let others = request.trust.as_ref().map(|trust| self.others(trust));
        let clients = others.as_deref().unwrap_or(&self.system);
        let prepared = self.prepare(clients, request, used);
        let without_roots = clients.without_roots();
        Box::pin(async move {
            let (client, request) = prepared?;
            if let Some(lookup) = check {
                check_for_proxy(lookup, &url).await?;
            }
            let response = client
                .execute(request)
                .await
                .map_err(|error| fault::before_response(&error, &url, without_roots.as_deref()))?;
            Ok((response, place(&url)))
        })
    }
}

impl Net for Http {
    fn exchange(&self, request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        let executed = self.execute(request, Use::Exchange);
        Box::pin(async move {
            let (response, place) = executed.await?;
            Ok(Response {
                status: response.status(),
                headers: response.headers().clone(),
                body: Box::pin(body(response, place)),
            })
        })
    }

    fn upgrade(&self, request: Request) -> BoxFuture<'static, Result<Upgrade, NetError>> {
        let executed = self.execute(request, Use::Upgrade);
        Box::pin(async move {
            let (response, place) = executed.await?;
            let (status, headers) = (response.status(), response.headers().clone());
            if status != StatusCode::SWITCHING_PROTOCOLS {
                return Ok(Upgrade {
                    status,
                    headers,
                    stream: None,
                    body: Box::pin(body(response, place)),
                });
            }
            let stream = response.upgrade().await.map_err(|error| {
                let message = format!("`{place}` does not hand its connection over: {error}");
                NetError::new(NetFault::Protocol, Sent::Unknown, message)
            })?;
            Ok(Upgrade {
                status,
                headers,
                stream: Some(Box::new(stream)),
                body: Box::pin(stream::empty()),
            })
        })
    }
}

fn body(
    response: reqwest::Response,
    place: String,
) -> impl Stream<Item = Result<bytes::Bytes, NetError>> + Send + Sync {
    let mut over = false;
    response
        .bytes_stream()
        .map(move |chunk| chunk.map_err(|error| fault::in_body(&error, &place)))
        .take_while(move |chunk| {
            let take = !over;
            over = chunk.is_err();
            std::future::ready(take)
        })
}

fn client(
    tls: &Tls,
    resolver: Resolver,
    proxies: &Proxies,
    used: Use,
) -> Result<reqwest::Client, NetError> {
    let idle = match used {
        Use::Exchange => IDLE_PER_HOST,
        Use::Upgrade => 0,
    };
    proxies
        .apply(reqwest::Client::builder())
        .tls_backend_preconfigured(tls.config.clone())
        .dns_resolver(resolver)
        .redirect(Policy::none())
        .referer(false)
        // Left alone, the client may repeat a request.
        .retry(reqwest::retry::never())
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle)
        .build()
        .map_err(|e| {
            NetError::new(
                NetFault::Protocol,
                Sent::No,
                format!("the HTTP client cannot be set up: {e}"),
            )
        })
}

#[cfg(test)]
mod tests;
