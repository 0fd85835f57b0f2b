//! Chooses the interface of a peer and its version (A2A 0.3 §5.6, 1.0 §8.3.2 and §3.6), and keeps what calls discover about
//! interfaces until the instance is closed.

use std::cmp::Reverse;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use a2a::{Card, Interface, Transport, Version};
use egress::address::is_this_machine;
use lru::LruCache;
use parking_lot::Mutex;
use peer::{CardLocation, PeerConfig, PeerError, PeerErrorKind, Transports, excerpt};
use url::{Host, Url};

use super::peer_secrets::PeerSecrets;

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
    let candidates = sorted_candidates(config, card)?;
    // The error of an unusable address matters only if every interface has one.
    let mut refused = None;
    let mut routes = candidates
        .iter()
        .filter_map(|candidate| match route(config, candidate) {
            Ok(route) => Some(route),
            Err(error) => {
                refused.get_or_insert(error);
                None
            }
        });
    let first = routes.next();
    let others: Vec<Route> = routes.collect();
    let first = first.ok_or_else(|| refused.unwrap_or_else(|| unsupported_transport(card)))?;
    if loses_tenant(config, first.version) {
        let message = "the peer supports only A2A 0.3, which has no tenants, but the target has a configured tenant";
        return Err(PeerError::new(PeerErrorKind::UnsupportedVersion, message));
    }
    // The operator's endpoint replaces every URL, so there is no fallback.
    let other = others
        .into_iter()
        .filter(|_| config.endpoint.is_none())
        .find(|other| may_replace(&first.url, &other.url) && !loses_tenant(config, other.version));
    Ok((first, other))
}

/// Returns the place in the card of the interface that [`choose`] prefers; `None` if none can be called.
pub(super) fn preferred(config: &PeerConfig, card: &Card) -> Option<usize> {
    let candidates = sorted_candidates(config, card).ok()?;
    let mut usable = candidates
        .iter()
        .filter(|candidate| route(config, candidate).is_ok());
    let chosen = usable.next()?.interface;
    card.interfaces
        .iter()
        .position(|interface| std::ptr::eq(interface, chosen))
}

/// Returns the interfaces with a supported transport and version, the best one first.
fn sorted_candidates<'a>(
    config: &PeerConfig,
    card: &'a Card,
) -> Result<Vec<Candidate<'a>>, PeerError> {
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
    Ok(candidates)
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

/// Returns the URL of an interface: exactly as the card contains it, because some servers distinguish a trailing slash, but
/// for a host that only the server itself can mean.
fn interface_url(
    config: &PeerConfig,
    transport: Transport,
    interface: &Interface,
) -> Result<Url, PeerError> {
    let base = &config.base_url;
    let read = match &interface.address {
        Some(url) if is_http(url) => Ok(url.clone()),
        // `agent.example:9000` and `localhost:9000` are URLs whose scheme is the host.
        _ if names_host(base, &interface.url) => {
            Url::parse(&format!("{}://{}", base.scheme(), interface.url))
        }
        Some(url) => Ok(url.clone()),
        None => base.join(&interface.url),
    };
    let not_a_url = |reason: &dyn fmt::Display| {
        let message = format!(
            "the agent card's address for {transport} is not a URL: `{}`: {reason}; the setting `endpoint` of the target replaces it",
            excerpt(interface.url.split(['?', '#']).next().unwrap_or_default())
        );
        PeerError::new(PeerErrorKind::CardMalformed, message).undelivered()
    };
    let url = read.map_err(|e| not_a_url(&e))?;
    if is_http(&url) {
        let card = card_location(config);
        let url = reachable(card, url);
        // URLs may have `{host}` as their host, requests may not.
        if url.as_str().parse::<http::Uri>().is_err() {
            return Err(not_a_url(
                &"HTTP cannot carry its host, which may be a placeholder",
            ));
        }
        return with_tls_of_card(card, url);
    }
    let message = format!(
        "the agent card's address for {transport} begins with `{}:`; only http and https are supported",
        excerpt(url.scheme())
    );
    Err(PeerError::new(PeerErrorKind::CardMalformed, message).undelivered())
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// Returns whether an address without a scheme begins with a host: one with a port, or that of the base URL.
fn names_host(base: &Url, address: &str) -> bool {
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let has_port =
        port.is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let is_base = base
        .host_str()
        .is_some_and(|base| base.eq_ignore_ascii_case(host));
    !host.is_empty() && (has_port || (port.is_none() && is_base))
}

/// Returns the URL whose host has served the card.
fn card_location(config: &PeerConfig) -> &Url {
    match &config.card {
        CardLocation::Url(card) => card,
        CardLocation::Path(_) | CardLocation::Given(_) => &config.base_url,
    }
}

/// Replaces a host that only the server itself can mean: `0.0.0.0`, `[::]`, `+` and `*`, and a loopback host unless the card is
/// on this machine too. The host of the card (`base`) has just answered. With another scheme than that of the card, the
/// server is behind a proxy, which hides the port as well.
fn reachable(base: &Url, mut url: Url) -> Url {
    let is_own = is_unspecified(&url) || (is_this_machine(&url) && !is_this_machine(base));
    if !is_own || is_unspecified(base) {
        return url;
    }
    if url.scheme() != base.scheme() {
        let mut replaced = base.clone();
        replaced.set_path(url.path());
        replaced.set_query(url.query());
        replaced.set_fragment(None);
        return replaced;
    }
    // The base URL has a host, so this cannot fail.
    let _ = url.set_host(base.host_str());
    url
}

/// Refuses an interface without TLS if the card came over TLS: the messages would be readable on the network.
fn with_tls_of_card(card: &Url, url: Url) -> Result<Url, PeerError> {
    if card.scheme() != "https" || url.scheme() == "https" {
        return Ok(url);
    }
    let message = format!(
        "the agent card came over https, but its interface at `{}` has no TLS; an operator can allow that with the setting `endpoint` of the target",
        url.origin().ascii_serialization()
    );
    Err(PeerError::new(PeerErrorKind::CardMalformed, message).undelivered())
}

fn is_unspecified(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_unspecified(),
        // Servers of .NET write these for every address.
        Some(Host::Domain(name)) => matches!(name, "+" | "*"),
        None => false,
    }
}

/// Returns the URIs of the extensions to activate.
///
/// # Errors
/// [`PeerErrorKind::ExtensionRequired`] if the peer requires another one.
pub(super) fn extensions(config: &PeerConfig, card: &Card) -> Result<Vec<String>, PeerError> {
    let active = config.active_extensions(card);
    let active: Vec<_> = active.map(|extension| extension.uri.clone()).collect();
    let missing = card.extensions.iter();
    let missing: Vec<String> = missing
        .filter(|extension| extension.required && !active.contains(&extension.uri))
        .take(MAX_LISTED)
        .map(|extension| match &*extension.uri {
            "" => "without a name".to_owned(),
            uri => format!("`{}`", excerpt(uri)),
        })
        .collect();
    if missing.is_empty() {
        return Ok(active);
    }
    let message = format!(
        "the peer requires the extension {}, which is not active here",
        missing.join(" and ")
    );
    Err(PeerError::new(PeerErrorKind::ExtensionRequired, message))
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

/// The maximum number of interfaces.
const MAX_INTERFACES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(511);

/// The discovered facts about interfaces.
pub(super) struct InterfaceCache(Mutex<LruCache<InterfaceKey, Arc<InterfaceState>>>);

/// The key of an interface. Peers of requests and peers of the operator have separate entries, and so has each tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct InterfaceKey {
    /// Whether the operator configured the address of the peer.
    pub(super) configured: bool,
    pub(super) transport: Transport,
    pub(super) url: Url,
    pub(super) tenant: Option<String>,
}

impl InterfaceCache {
    pub(super) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_INTERFACES)))
    }

    /// Returns the shared state of an interface.
    pub(super) fn get_or_insert(&self, interface: InterfaceKey) -> Arc<InterfaceState> {
        let mut all = self.0.lock();
        Arc::clone(all.get_or_insert(interface, Arc::default))
    }
}

/// The discovered facts about one interface.
#[derive(Default)]
pub(super) struct InterfaceState {
    version: AtomicU8,
    /// It accepts subscriptions with GET.
    pub(super) subscribes_by_get: Flag,
    /// Its paths contain no tenant.
    pub(super) no_tenant_path: Flag,
    /// The credentials of the last call, in every form.
    secrets: Mutex<Option<Arc<PeerSecrets>>>,
}

/// A fact that is true or unknown.
#[derive(Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl InterfaceState {
    /// Returns the credentials of `config`, those of the last call if that had the same ones.
    pub(super) fn secrets(&self, config: &PeerConfig) -> Arc<PeerSecrets> {
        let mut last = self.secrets.lock();
        if let Some(last) = last.as_ref().filter(|last| last.matches(config)) {
            return Arc::clone(last);
        }
        Arc::clone(last.insert(Arc::new(PeerSecrets::new(config))))
    }

    /// Returns the version that a response has confirmed.
    pub(super) fn version(&self) -> Option<Version> {
        match self.version.load(Ordering::Relaxed) {
            1 => Some(Version::V0_3),
            2 => Some(Version::V1_0),
            _ => None,
        }
    }

    /// Sets the confirmed version; `None` means unknown.
    pub(super) fn set_version(&self, version: Option<Version>) {
        let value = match version {
            None => 0,
            Some(Version::V0_3) => 1,
            Some(Version::V1_0) => 2,
        };
        self.version.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod interface_cache_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn learned_capabilities_stay_with_their_interface() {
        let memory = InterfaceCache::new();
        let key = InterfaceKey {
            configured: true,
            transport: Transport::JsonRpc,
            url: Url::parse("http://a.example/rpc").unwrap(),
            tenant: Some("acme".into()),
        };
        let learned = memory.get_or_insert(key.clone());
        assert_eq!(learned.version(), None);
        learned.set_version(Some(Version::V0_3));
        learned.subscribes_by_get.set(true);
        let again = memory.get_or_insert(key.clone());
        assert_eq!(again.version(), Some(Version::V0_3));
        assert!(again.subscribes_by_get.is_set() && !again.no_tenant_path.is_set());
        let others = [
            InterfaceKey {
                configured: false,
                ..key.clone()
            },
            InterfaceKey {
                transport: Transport::HttpJson,
                ..key.clone()
            },
            InterfaceKey {
                tenant: Some("other".into()),
                ..key
            },
        ];
        for other in others {
            assert_eq!(
                memory.get_or_insert(other.clone()).version(),
                None,
                "{other:?}"
            );
        }
        learned.set_version(None);
        assert_eq!(again.version(), None);
    }
}

#[cfg(test)]
mod tests;
