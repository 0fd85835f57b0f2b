//! Chooses the interface of a peer and its version (A2A 0.3 §5.6, 1.0 §8.3.2 and §3.6).

use std::cmp::Reverse;
use std::fmt;

use url::Url;

use a2a::{Card, Interface, Transport, Version};
use peer::{PeerConfig, PeerError, PeerErrorKind, Transports, excerpt};

/// The maximum number of transports or versions in an error.
const MAX_LISTED: usize = 10;

/// One way to call a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// The transport.
    pub(super) transport: Transport,
    /// The URL.
    pub(super) url: Url,
    /// The version of the operator or of the card; 1.0 if neither names one.
    pub(super) version: Version,
    /// Whether the operator pinned the version.
    pub(super) pinned: bool,
    /// The tenant of every request of 1.0.
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

/// An interface with a supported transport and version.
struct Candidate<'a> {
    interface: &'a Interface,
    transport: Transport,
    /// The declared version, if any.
    declared: Option<Version>,
}

impl Candidate<'_> {
    /// Returns whether it declares another version than the pinned one, or one without tenants although the operator set one.
    fn conflicts_with(&self, config: &PeerConfig) -> bool {
        self.declared.is_some_and(|declared| {
            config.version.is_some_and(|pinned| declared != pinned)
                || loses_tenant(config, declared)
        })
    }

    /// Ranks the version: best the declared one that is pinned or, without a pin, 1.0; then an undeclared one; then 0.3.
    fn rank(&self, config: &PeerConfig) -> u8 {
        let preferred = config.version.unwrap_or(Version::V1_0);
        match self.declared {
            Some(declared) if declared == preferred => 2,
            None => 1,
            Some(_) => 0,
        }
    }
}

/// Returns the route to a peer, and a fallback for the case that its host is unreachable.
///
/// A pinned version decides first, then the target's order of transports, then the version: 1.0 before 0.3. Without an order
/// of the target, interfaces of 1.0 come first, in the order of the card. For 0.3 and for tenants, JSON-RPC comes first,
/// because servers differ in the paths and bodies of HTTP+JSON. `Transport::Grpc` is never chosen.
pub(super) fn choose(
    config: &PeerConfig,
    card: &Card,
) -> Result<(Route, Option<Route>), PeerError> {
    if !card.required_extensions.is_empty() {
        return Err(extension_required(card));
    }
    let mut candidates = candidates(card)?;
    candidates.sort_by_key(|candidate| {
        let preferred = config
            .preferred
            .iter()
            .position(|t| *t == candidate.transport);
        let prefers_json_rpc = candidate.declared == Some(Version::V0_3)
            || tenant(config, candidate.interface).is_some_and(|_| config.endpoint.is_none());
        (
            candidate.conflicts_with(config),
            preferred.unwrap_or(usize::MAX),
            Reverse(candidate.rank(config)),
            prefers_json_rpc && candidate.transport == Transport::HttpJson,
        )
    });
    let (first, others) = candidates
        .split_first()
        .ok_or_else(|| unsupported_transport(card))?;
    let first = route(config, first)?;
    if loses_tenant(config, first.version) {
        let message = "the peer supports only A2A 0.3, which has no tenants, but the target has a configured tenant";
        return Err(PeerError::new(PeerErrorKind::UnsupportedVersion, message));
    }
    // The operator's endpoint replaces every URL, so there is no fallback.
    let other = others
        .iter()
        .filter(|_| config.endpoint.is_none())
        .filter_map(|candidate| route(config, candidate).ok())
        .find(|other| may_replace(&first.url, &other.url) && !loses_tenant(config, other.version));
    Ok((first, other))
}

/// Returns whether another URL may replace an unreachable one: on another origin, and never without TLS where the first
/// uses TLS.
fn may_replace(first: &Url, other: &Url) -> bool {
    first.origin() != other.origin() && (first.scheme() != "https" || other.scheme() == "https")
}

/// Returns the interfaces of the card with a supported transport and version.
fn candidates(card: &Card) -> Result<Vec<Candidate<'_>>, PeerError> {
    let mut unknown_versions: Vec<String> = Vec::new();
    let mut candidates = Vec::new();
    for interface in &card.interfaces {
        let transport = interface.transport.parse().ok();
        let Some(transport) = transport.filter(|t| Transport::SUPPORTED.contains(t)) else {
            continue;
        };
        let version = interface.version.as_deref();
        let declared = match version.and_then(|version| Version::declared(version).ok()) {
            None => None,
            Some(Some(version)) => Some(version),
            Some(None) => {
                unknown_versions.extend(version.map(excerpt));
                continue;
            }
        };
        candidates.push(Candidate {
            interface,
            transport,
            declared,
        });
    }
    if candidates.is_empty() && !unknown_versions.is_empty() {
        unknown_versions.truncate(MAX_LISTED);
        let message = format!(
            "the peer supports A2A {}; only 1.0 and 0.3 are supported here",
            unknown_versions.join(", ")
        );
        return Err(PeerError::new(PeerErrorKind::UnsupportedVersion, message));
    }
    Ok(candidates)
}

fn route(config: &PeerConfig, candidate: &Candidate<'_>) -> Result<Route, PeerError> {
    let transport = candidate.transport;
    let url = match &config.endpoint {
        Some(endpoint) => endpoint.clone(),
        None => interface_url(config, transport, candidate.interface)?,
    };
    Ok(Route {
        transport,
        url,
        version: config
            .version
            .or(candidate.declared)
            .unwrap_or(Version::V1_0),
        pinned: config.version.is_some(),
        tenant: tenant(config, candidate.interface).map(str::to_owned),
    })
}

/// Returns whether requests in `version` would lose the tenant of the operator: 0.3 has none.
fn loses_tenant(config: &PeerConfig, version: Version) -> bool {
    config.tenant.is_some() && version == Version::V0_3
}

fn tenant<'a>(config: &'a PeerConfig, interface: &'a Interface) -> Option<&'a str> {
    config.tenant.as_deref().or(interface.tenant.as_deref())
}

/// Returns the URL of an interface exactly as the card contains it: some servers distinguish a trailing slash.
fn interface_url(
    config: &PeerConfig,
    transport: Transport,
    interface: &Interface,
) -> Result<Url, PeerError> {
    let read = match &interface.address {
        Some(url) => Ok(url.clone()),
        None => config.base_url.join(&interface.url),
    };
    let url = read.map_err(|e| {
        let message = format!(
            "the agent card's address for {transport} is not a URL: `{}`: {e}",
            excerpt(interface.url.split(['?', '#']).next().unwrap_or_default())
        );
        PeerError::new(PeerErrorKind::CardMalformed, message).undelivered()
    })?;
    if matches!(url.scheme(), "http" | "https") {
        return Ok(url);
    }
    let message = format!(
        "the agent card's address for {transport} begins with `{}:`; only http and https are supported",
        excerpt(url.scheme())
    );
    Err(PeerError::new(PeerErrorKind::CardMalformed, message).undelivered())
}

fn extension_required(card: &Card) -> PeerError {
    let named: Vec<String> = card
        .required_extensions
        .iter()
        .take(MAX_LISTED)
        .map(|uri| format!("`{}`", excerpt(uri)))
        .collect();
    let message = format!(
        "the peer requires the extension {}, which is not supported",
        named.join(" and ")
    );
    PeerError::new(PeerErrorKind::ExtensionRequired, message)
}

fn unsupported_transport(card: &Card) -> PeerError {
    let offered: Vec<String> = card
        .interfaces
        .iter()
        .take(MAX_LISTED)
        .map(|i| excerpt(&i.transport))
        .collect();
    let protocol: Vec<String> = Transport::SUPPORTED
        .iter()
        .map(ToString::to_string)
        .collect();
    let message = format!(
        "the peer offers {}; only {} are supported",
        match offered.as_slice() {
            [] => "no transport".to_owned(),
            offered => offered.join(", "),
        },
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
