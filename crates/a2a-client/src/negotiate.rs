//! Which interface of a peer to call, and in which version (A2A 0.3 §5.6, 1.0 §8.3.2 and §3.6).

use std::cmp::Reverse;
use std::fmt;

use url::Url;

use a2a::{Card, Interface, Transport, Version};
use peer::{PeerConfig, PeerError, PeerErrorKind, Transports, excerpt};

/// So many of the transports or versions that a peer offers are named when none can be spoken.
const NAMED: usize = 10;

/// One way to call a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// Over what.
    pub(super) transport: Transport,
    /// Where.
    pub(super) url: Url,
    /// In which version, as far as the card or the operator says so; where neither does, 1.0 is tried first.
    pub(super) version: Version,
    /// The operator pinned the version, so no other one is tried.
    pub(super) pinned: bool,
    /// The tenant to name in every request of 1.0.
    pub(super) tenant: Option<String>,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at `{}`",
            self.transport,
            self.url.origin().ascii_serialization()
        )
    }
}

/// An interface that can be spoken.
struct Offer<'a> {
    interface: &'a Interface,
    transport: Transport,
    /// As declared; `None` where nothing is said.
    declared: Option<Version>,
}

impl Offer<'_> {
    /// It is said to be in another version than the pinned one, or in one that cannot name the operator's tenant.
    fn contradicts(&self, reach: &PeerConfig) -> bool {
        self.declared.is_some_and(|declared| {
            reach.version.is_some_and(|pinned| declared != pinned) || leaves_out(reach, declared)
        })
    }

    /// How much its version is liked: one that is said to be the pinned one or, where none is, 1.0; then what is not said;
    /// then 0.3.
    fn rank(&self, reach: &PeerConfig) -> u8 {
        let wanted = reach.version.unwrap_or(Version::V1_0);
        match self.declared {
            Some(declared) if declared == wanted => 2,
            None => 1,
            Some(_) => 0,
        }
    }
}

/// The ways to call a peer: the one to take, and perhaps another in case its host cannot be reached at all.
///
/// A pinned version decides, then the target's order of transports, then the version: 1.0 before 0.3. Where the target has no say, what is 1.0
/// comes first, in the card's order; 0.3 and interfaces of a tenant are better called over JSON-RPC, since servers differ
/// in how they read the paths and bodies of HTTP+JSON there. `Transport::Grpc` is never chosen.
pub(super) fn choose(reach: &PeerConfig, card: &Card) -> Result<(Route, Option<Route>), PeerError> {
    if !card.required_extensions.is_empty() {
        return Err(extension_required(card));
    }
    let mut offers = offers(card)?;
    offers.sort_by_key(|offer| {
        let wanted = reach.preferred.iter().position(|t| *t == offer.transport);
        let old_or_tenanted = offer.declared == Some(Version::V0_3)
            || tenant(reach, offer.interface).is_some_and(|_| reach.endpoint.is_none());
        (
            offer.contradicts(reach),
            wanted.unwrap_or(usize::MAX),
            Reverse(offer.rank(reach)),
            old_or_tenanted && offer.transport == Transport::HttpJson,
        )
    });
    let (first, others) = offers
        .split_first()
        .ok_or_else(|| unsupported_transport(card))?;
    let first = route(reach, first)?;
    if leaves_out(reach, first.version) {
        let message = "the peer speaks A2A 0.3, which cannot name the tenant that is configured for the target";
        return Err(PeerError::new(PeerErrorKind::UnsupportedVersion, message));
    }
    // An operator's endpoint replaces every address, so there is no other one.
    let other = others
        .iter()
        .filter(|_| reach.endpoint.is_none())
        .filter_map(|offer| route(reach, offer).ok())
        .find(|other| may_stand_in(&first.url, &other.url) && !leaves_out(reach, other.version));
    Ok((first, other))
}

/// Another address is worth a try where the first one's host cannot be reached: on another origin, and not in the clear
/// where the first was not.
fn may_stand_in(first: &Url, other: &Url) -> bool {
    first.origin() != other.origin() && (first.scheme() != "https" || other.scheme() == "https")
}

/// What the card offers, as far as it can be spoken.
fn offers(card: &Card) -> Result<Vec<Offer<'_>>, PeerError> {
    let mut unknown_versions: Vec<String> = Vec::new();
    let mut offers = Vec::new();
    for interface in &card.interfaces {
        let transport = interface.transport.parse().ok();
        let Some(transport) = transport.filter(|t| Transport::SUPPORTED.contains(t)) else {
            continue;
        };
        let said = interface.version.as_deref();
        let declared = match said.and_then(|said| Version::declared(said).ok()) {
            None => None,
            Some(Some(version)) => Some(version),
            Some(None) => {
                unknown_versions.extend(said.map(excerpt));
                continue;
            }
        };
        offers.push(Offer {
            interface,
            transport,
            declared,
        });
    }
    if offers.is_empty() && !unknown_versions.is_empty() {
        unknown_versions.truncate(NAMED);
        let message = format!(
            "the peer speaks A2A {}, and only 1.0 and 0.3 are spoken",
            unknown_versions.join(", ")
        );
        return Err(PeerError::new(PeerErrorKind::UnsupportedVersion, message));
    }
    Ok(offers)
}

fn route(reach: &PeerConfig, offer: &Offer<'_>) -> Result<Route, PeerError> {
    let transport = offer.transport;
    let url = match &reach.endpoint {
        Some(endpoint) => endpoint.clone(),
        None => address(reach, transport, offer.interface)?,
    };
    Ok(Route {
        transport,
        url,
        version: reach.version.or(offer.declared).unwrap_or(Version::V1_0),
        pinned: reach.version.is_some(),
        tenant: tenant(reach, offer.interface).map(str::to_owned),
    })
}

/// What the operator means for one tenant must not reach another: 0.3 knows none.
fn leaves_out(reach: &PeerConfig, version: Version) -> bool {
    reach.tenant.is_some() && version == Version::V0_3
}

fn tenant<'a>(reach: &'a PeerConfig, interface: &'a Interface) -> Option<&'a str> {
    reach.tenant.as_deref().or(interface.tenant.as_deref())
}

/// An interface's address, which is used as the card gives it: a slash more or less is another place to some servers.
fn address(
    reach: &PeerConfig,
    transport: Transport,
    interface: &Interface,
) -> Result<Url, PeerError> {
    let read = match &interface.address {
        Some(url) => Ok(url.clone()),
        None => reach.base_url.join(&interface.url),
    };
    let url = read.map_err(|e| {
        let message = format!(
            "the agent card's address for {transport} is not a URL: `{}`: {e}",
            excerpt(interface.url.split(['?', '#']).next().unwrap_or_default())
        );
        PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered()
    })?;
    if matches!(url.scheme(), "http" | "https") {
        return Ok(url);
    }
    let message = format!(
        "the agent card's address for {transport} begins with `{}:`; only http and https can be called",
        excerpt(url.scheme())
    );
    Err(PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered())
}

fn extension_required(card: &Card) -> PeerError {
    let named: Vec<String> = card
        .required_extensions
        .iter()
        .take(NAMED)
        .map(|uri| format!("`{}`", excerpt(uri)))
        .collect();
    let message = format!(
        "the peer takes only requests that use the extension {}, which is not known here",
        named.join(" and ")
    );
    PeerError::new(PeerErrorKind::ExtensionRequired, message)
}

fn unsupported_transport(card: &Card) -> PeerError {
    let offered: Vec<String> = card
        .interfaces
        .iter()
        .take(NAMED)
        .map(|i| excerpt(&i.transport))
        .collect();
    let protocol: Vec<String> = Transport::SUPPORTED
        .iter()
        .map(ToString::to_string)
        .collect();
    let message = format!(
        "the peer offers {}, and only {} are spoken",
        offered.join(", "),
        protocol.join(" and ")
    );
    let mut error = PeerError::new(PeerErrorKind::UnsupportedTransport, message).undelivered();
    error.transports = Some(Box::new(Transports {
        unsupported: offered,
        supported: protocol,
    }));
    error
}

#[cfg(test)]
mod tests;
