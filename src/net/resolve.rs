//! Names to addresses, under the policy of the request.

use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Access;
use super::address::special_use;

/// Resolves through the system and refuses a name with an address that may not be connected.
pub(super) struct Resolver(pub(super) Access);

/// Why a name yields no address to connect.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("it resolves to a {0} address")]
    NotPublic(&'static str),
    #[error("the name has no address")]
    Empty,
    #[error("{0}")]
    System(io::Error),
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let access = self.0;
        Box::pin(async move {
            // The port is filled in by the connector.
            let found = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(ResolveError::System)?;
            let allowed = allowed(found.collect(), access)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// All of the addresses or none: a name that is public and private at once is a rebinding attempt or a mistake, and
/// connecting the public half would hide either.
fn allowed(found: Vec<SocketAddr>, access: Access) -> Result<Vec<SocketAddr>, ResolveError> {
    if found.is_empty() {
        return Err(ResolveError::Empty);
    }
    match access {
        Access::Private => Ok(found),
        Access::Public => match found.iter().find_map(|address| special_use(address.ip())) {
            Some(class) => Err(ResolveError::NotPublic(class)),
            None => Ok(found),
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|a| a.parse().unwrap()).collect()
    }

    #[test]
    fn one_private_answer_refuses_the_whole_name() {
        let mixed = addresses(&["8.8.8.8:0", "10.0.0.1:0"]);
        assert!(matches!(
            allowed(mixed.clone(), Access::Public),
            Err(ResolveError::NotPublic("private"))
        ));
        assert_eq!(allowed(mixed.clone(), Access::Private).unwrap(), mixed);
    }

    #[test]
    fn public_answers_are_all_kept() {
        let both = addresses(&["8.8.8.8:0", "[2606:4700::1111]:0"]);
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
