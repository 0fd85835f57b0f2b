//! The real network: HTTP/1.1 and HTTP/2 over TCP and TLS.
//!
//! There are two clients, one for each [`Access`]. A connection is kept for the next request to the same host, and a
//! request that is handed a kept connection asks no resolver. With one client, a request that may connect only public
//! addresses could travel over a connection to a private one that another request was allowed to open. With two, the
//! addresses behind a pool were all checked the same way. Each [`Trust`] has two more, for the same reason: a kept
//! connection was secured as the request that opened it wanted.
//!
//! An address is judged in one of two places: the resolver of the public client sees every answer for a name, and a host
//! that already is an address never reaches a resolver and is looked at before the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::redirect::Policy;

use crate::address::{literal_ip, special_use};
use crate::credential::Trust;

use super::error::place;
use super::lookup::{Lookup, SystemLookup};
use super::proxy::Proxies;
use super::resolve::{Resolver, check_for_proxy};
use super::tls::{self, Tls};
use super::{Access, BoxFuture, Net, NetError, NetFault, Request, Response, Sent, fault};

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
    public: OnceLock<Result<reqwest::Client, NetError>>,
    private: OnceLock<Result<reqwest::Client, NetError>>,
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

    fn client(&self, clients: &Clients, access: Access) -> Result<reqwest::Client, NetError> {
        let cell = match access {
            Access::Public => &clients.public,
            Access::Private => &clients.private,
        };
        cell.get_or_init(|| client(clients.tls()?, self.resolver(access), &self.proxies))
            .clone()
    }

    fn prepare(
        &self,
        clients: &Clients,
        request: Request,
    ) -> Result<(reqwest::Client, reqwest::Request), NetError> {
        let Request {
            method,
            mut url,
            headers,
            body,
            access,
            ..
        } = request;
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!(
                "`{}:` is not a scheme a request can be sent to: use `http` or `https`",
                url.scheme()
            );
            return Err(NetError::new(NetFault::Protocol, Sent::No, message));
        }
        if access == Access::Public
            && let Some(class) = literal_ip(&url).and_then(special_use)
        {
            let message = format!(
                "`{}` is not allowed: it is a {class} address, and only public addresses may be connected",
                place(&url)
            );
            return Err(NetError::new(NetFault::AddressRefused, Sent::No, message));
        }
        // Both calls fail only for URLs without a host, and these schemes have one.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let mut prepared = reqwest::Request::new(method, url);
        *prepared.headers_mut() = headers;
        *prepared.body_mut() = body.map(reqwest::Body::from);
        Ok((self.client(clients, access)?, prepared))
    }
}

impl Net for Http {
    fn exchange(&self, request: Request) -> BoxFuture<'static, Result<Response, NetError>> {
        let url = request.url.clone();
        let check = self
            .names_are_resolved_elsewhere(request.access)
            .then(|| Arc::clone(&self.lookup));
        let others = request.trust.as_ref().map(|trust| self.others(trust));
        let clients = others.as_deref().unwrap_or(&self.system);
        let prepared = self.prepare(clients, request);
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
            let status = response.status();
            let headers = response.headers().clone();
            Ok(Response {
                status,
                headers,
                body: Box::pin(body(response, place(&url))),
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

fn client(tls: &Tls, resolver: Resolver, proxies: &Proxies) -> Result<reqwest::Client, NetError> {
    proxies
        .apply(reqwest::Client::builder())
        .tls_backend_preconfigured(tls.config.clone())
        .dns_resolver(resolver)
        .redirect(Policy::none())
        .referer(false)
        // Left alone, the client repeats a request after some HTTP/2 errors.
        .retry(reqwest::retry::never())
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(IDLE_PER_HOST)
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
