//! Names to addresses, under the policy of the request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::address::{is_loopback, special_use};

use super::error::place;
use super::lookup::Lookup;
use super::{Access, NetError, NetFault, Sent};

/// Resolves and refuses a name with an address that may not be connected. The client connects to nothing but what it
/// gives, so there is no second question whose answer could be another.
pub(super) struct Resolver {
    pub(super) policy: ResolvePolicy,
    pub(super) lookup: Arc<dyn Lookup>,
}

/// Which addresses a name may resolve to.
#[derive(Clone, Copy)]
pub(super) enum ResolvePolicy {
    /// The peer's, which may be where the request allows it to be.
    Peer(Access),
    /// The proxy's. The operator named it, and it is where he says.
    Proxy,
}

/// Why a name yields no address to connect.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("it resolves to a {0} address, and only public addresses may be connected")]
    NotPublic(&'static str),
    #[error("it resolves to an address of another machine, and only this one may be connected")]
    NotLoopback,
    #[error("the name has no address")]
    Empty,
    #[error("{0}")]
    System(io::Error),
    #[error("the name of the proxy cannot be resolved: {0}")]
    Proxy(io::Error),
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (access, untold): (_, fn(io::Error) -> ResolveError) = match self.policy {
            ResolvePolicy::Peer(access) => (access, ResolveError::System),
            ResolvePolicy::Proxy => (Access::Private, ResolveError::Proxy),
        };
        let asked = self.lookup.lookup(name.as_str().to_owned());
        Box::pin(async move {
            let found = asked.await.map_err(untold)?;
            let allowed = allowed(found, access)?;
            // The port is filled in by the connector.
            let allowed = allowed.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(allowed) as Addrs)
        })
    }
}

/// Checks what a proxy would be asked to connect: a name that this system resolves to an address that is not public is
/// refused. One that it does not know is left to the proxy.
pub(super) async fn check_for_proxy(lookup: Arc<dyn Lookup>, url: &Url) -> Result<(), NetError> {
    let Some(Host::Domain(name)) = url.host() else {
        return Ok(());
    };
    let Ok(found) = lookup.lookup(name.to_owned()).await else {
        return Ok(());
    };
    match allowed(found, Access::Public) {
        Err(refused @ ResolveError::NotPublic(_)) => Err(NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!("`{}` is not allowed: {refused}", place(url)),
        )),
        _ => Ok(()),
    }
}

/// All of the addresses or none: a name that is public and private at once is a rebinding attempt or a mistake, and
/// connecting the public half would hide either.
fn allowed(found: Vec<IpAddr>, access: Access) -> Result<Vec<IpAddr>, ResolveError> {
    if found.is_empty() {
        return Err(ResolveError::Empty);
    }
    match access {
        Access::Private => Ok(found),
        Access::Loopback if found.iter().copied().all(is_loopback) => Ok(found),
        Access::Loopback => Err(ResolveError::NotLoopback),
        Access::Public => match found.iter().copied().find_map(special_use) {
            Some(class) => Err(ResolveError::NotPublic(class)),
            None => Ok(found),
        },
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
    fn one_private_answer_refuses_the_whole_name() {
        let mixed = addresses(&["8.8.8.8", "10.0.0.1"]);
        assert!(matches!(
            allowed(mixed.clone(), Access::Public),
            Err(ResolveError::NotPublic("private"))
        ));
        assert_eq!(allowed(mixed.clone(), Access::Private).unwrap(), mixed);
    }

    #[test]
    fn one_answer_elsewhere_refuses_a_name_that_must_be_this_machine() {
        let mixed = addresses(&["127.0.0.1", "192.168.1.4"]);
        assert!(matches!(
            allowed(mixed, Access::Loopback),
            Err(ResolveError::NotLoopback)
        ));
        let own = addresses(&["127.0.0.1", "::1"]);
        assert_eq!(allowed(own.clone(), Access::Loopback).unwrap(), own);
    }

    #[test]
    fn public_answers_are_all_kept() {
        let both = addresses(&["8.8.8.8", "2606:4700::1111"]);
        assert_eq!(allowed(both.clone(), Access::Public).unwrap(), both);
    }

    #[test]
    fn no_answer_is_an_error() {
        assert!(matches!(
            allowed(Vec::new(), Access::Private),
            Err(ResolveError::Empty)
        ));
    }
}
