//! Resolves names, under the address policy of the request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::error::place;
use super::{AddressPolicy, BoxFuture, NetError, NetFault, Sent};
use crate::address::{is_loopback, special_use, with_article};

/// Resolves names, and refuses a name with a forbidden address. The client connects only to the returned addresses, so
/// no second lookup can change them.
pub(super) struct Resolver {
    pub(super) policy: ResolvePolicy,
    pub(super) lookup: Arc<dyn Lookup>,
}

/// The addresses that a name may resolve to.
#[derive(Clone, Copy)]
pub(super) enum ResolvePolicy {
    /// The addresses that the request permits, for the peer's name.
    Peer(AddressPolicy),
    /// Any address, for the name of the proxy, because the operator configured it.
    Proxy,
}

/// The reason why a name has no address that the client may connect to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("it resolves to {} address, and only public addresses are allowed", with_article(.0))]
    NotPublic(&'static str),
    #[error("it resolves to an address of another machine, and only this machine is allowed")]
    NotLoopback,
    #[error("the name has no address")]
    Empty,
    #[error("{0}")]
    System(io::Error),
    #[error("its name cannot be resolved: {0}")]
    Proxy(io::Error),
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (access, to_error): (_, fn(io::Error) -> ResolveError) = match self.policy {
            ResolvePolicy::Peer(access) => (access, ResolveError::System),
            ResolvePolicy::Proxy => (AddressPolicy::AnyAddress, ResolveError::Proxy),
        };
        let lookup = self.lookup.lookup(name.as_str().to_owned());
        Box::pin(async move {
            let addresses = lookup.await.map_err(to_error)?;
            let addresses = check_all(addresses, access)?;
            // The connector sets the port.
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Checks the name of a request that a proxy will resolve: refuses it if this system resolves it to an address that is
/// not public. The proxy resolves names that this system does not know.
pub(super) async fn check_for_proxy(lookup: Arc<dyn Lookup>, url: &Url) -> Result<(), NetError> {
    let Some(Host::Domain(name)) = url.host() else {
        return Ok(());
    };
    let Ok(addresses) = lookup.lookup(name.to_owned()).await else {
        return Ok(());
    };
    match check_all(addresses, AddressPolicy::Public) {
        Err(refused @ ResolveError::NotPublic(_)) => Err(NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!("`{}` is not allowed: {refused}", place(url)),
        )),
        _ => Ok(()),
    }
}

/// Returns the addresses if `access` permits all of them. A name with both public and private addresses is a rebinding
/// attempt or a mistake. Connecting only to the public ones would hide either.
fn check_all(addresses: Vec<IpAddr>, access: AddressPolicy) -> Result<Vec<IpAddr>, ResolveError> {
    if addresses.is_empty() {
        return Err(ResolveError::Empty);
    }
    match access {
        AddressPolicy::AnyAddress => Ok(addresses),
        AddressPolicy::Loopback if addresses.iter().copied().all(is_loopback) => Ok(addresses),
        AddressPolicy::Loopback => Err(ResolveError::NotLoopback),
        AddressPolicy::Public => match addresses.iter().copied().find_map(special_use) {
            Some(class) => Err(ResolveError::NotPublic(class)),
            None => Ok(addresses),
        },
    }
}

/// Resolves names. [`SystemLookup`] is the real one.
pub trait Lookup: Send + Sync + 'static {
    /// Resolves `name`.
    ///
    /// # Errors
    /// The name has no address.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Uses the resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn addresses(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|a| a.parse().unwrap()).collect()
    }

    #[test]
    fn one_private_address_refuses_the_name() {
        let mixed = addresses(&["8.8.8.8", "10.0.0.1"]);
        assert!(matches!(
            check_all(mixed.clone(), AddressPolicy::Public),
            Err(ResolveError::NotPublic("private"))
        ));
        assert_eq!(
            check_all(mixed.clone(), AddressPolicy::AnyAddress).unwrap(),
            mixed
        );
    }

    #[test]
    fn one_remote_address_refuses_a_local_name() {
        let mixed = addresses(&["127.0.0.1", "192.168.1.4"]);
        assert!(matches!(
            check_all(mixed, AddressPolicy::Loopback),
            Err(ResolveError::NotLoopback)
        ));
        let own = addresses(&["127.0.0.1", "::1"]);
        assert_eq!(
            check_all(own.clone(), AddressPolicy::Loopback).unwrap(),
            own
        );
    }

    #[test]
    fn returns_all_public_addresses() {
        let both = addresses(&["8.8.8.8", "2606:4700::1111"]);
        assert_eq!(
            check_all(both.clone(), AddressPolicy::Public).unwrap(),
            both
        );
    }

    #[test]
    fn no_answer_is_an_error() {
        assert!(matches!(
            check_all(Vec::new(), AddressPolicy::AnyAddress),
            Err(ResolveError::Empty)
        ));
    }
}
