//! The configuration of a peer.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value};
use url::{Host, Url};

use a2a::http::{CARD_PATH, OLD_CARD_PATH};
use a2a::{Card, Transport, Version};
use base::json::{self, Limits};
use base::jws::KeySet;
use egress::credential::{Credential, Trust};

/// The protocol of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NegotiatedProtocol {
    /// The version or dialect (`summary.protocol_version`).
    #[serde(rename = "protocol_version")]
    pub version: &'static str,
    /// The transport (`summary.transport`).
    #[serde(serialize_with = "as_text")]
    pub transport: Transport,
}

fn as_text<S: serde::Serializer>(
    value: &impl fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The maximum size of an agent card, wherever it is read.
pub const MAX_CARD_BYTES: usize = 4 << 20;

/// The limits of the JSON of a card, wherever it comes from.
pub const CARD_LIMITS: Limits = Limits {
    memory: MAX_CARD_BYTES * json::MAX_MEMORY_RATIO,
    ..Limits::NONE
};

/// The location of an agent card.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CardLocation {
    /// A path: below the base URL if it begins with `/`, else a relative reference to it.
    Path(String),
    /// Any other URL.
    Url(Url),
    /// The card itself, which is then not fetched.
    Given(Arc<Value>),
}

/// The keys that may sign a peer's agent card (A2A 1.0 §8.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CardKeys {
    /// The keys that the operator configured.
    Configured(Arc<KeySet>),
    /// The key that a signature references (`jku`), on the peer's own origin and over https.
    OfOwnOrigin,
}

/// An extension of the protocol that the operator activates (A2A 1.0 §4.6).
#[derive(Debug, Clone, PartialEq)]
pub struct Extension {
    /// Its URI.
    pub uri: String,
    /// The parameters that the card must declare for it; others leave it inactive.
    pub params: Map<String, Value>,
    /// The members that it adds to the metadata of every message.
    pub metadata: Map<String, Value>,
}

impl Extension {
    fn fits(&self, params: Option<&Value>) -> bool {
        let param = |name: &str| params.and_then(|params| params.get(name));
        self.params
            .iter()
            .all(|(name, value)| param(name) == Some(value))
    }
}

/// The configuration of a peer. `Debug` shows no credential.
#[derive(Clone)]
pub struct PeerConfig {
    /// Whether the operator configured these addresses. False if a request names the peer: then no address is trusted.
    pub configured: bool,
    /// The peer's base URL.
    pub base_url: Url,
    /// The location of its card.
    pub card: CardLocation,
    /// The URL that replaces those of the card.
    pub endpoint: Option<Url>,
    /// Transports in order of preference.
    pub preferred: Vec<Transport>,
    /// Headers for every request to the peer's own origins. They count as credentials.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The headers among them whose values are secrets, whatever their names.
    pub secret_headers: Vec<HeaderName>,
    /// The credential for the peer's own origins.
    pub credential: Option<Arc<Credential>>,
    /// The TLS trust for the peer's own origins, if it differs from that of the system.
    pub trust: Option<Arc<Trust>>,
    /// The TLS trust for other origins that the card leads to, and for the authorization server. Contains no
    /// certificate.
    pub trust_elsewhere: Option<Arc<Trust>>,
    /// The version to use, whatever the card offers.
    pub version: Option<Version>,
    /// The tenant of every request, in place of the card's.
    pub tenant: Option<String>,
    /// The extensions to activate where the card offers them.
    pub extensions: Arc<[Extension]>,
    /// The keys that may sign the card; `None` allows an unsigned card.
    pub card_keys: Option<CardKeys>,
    /// Whether addresses that are not public may be connected.
    pub allow_private: bool,
}

impl PeerConfig {
    /// Creates the configuration of a peer at `base_url` with its card at `card`, and defaults for the rest. A base URL that
    /// is the URL of a card, such as `https://agent.example/.well-known/agent-card.json`, is read as such.
    pub fn new(base_url: Url, card: CardLocation) -> Self {
        let (base_url, card) = split_card(base_url, card);
        Self {
            configured: false,
            base_url,
            card,
            endpoint: None,
            preferred: Vec::new(),
            headers: Vec::new(),
            secret_headers: Vec::new(),
            credential: None,
            trust: None,
            trust_elsewhere: None,
            version: None,
            tenant: None,
            extensions: Arc::default(),
            card_keys: None,
            allow_private: false,
        }
    }

    /// Returns whether the peer is behind the local gateway.
    pub fn is_local(&self) -> bool {
        self.preferred == [Transport::Gateway]
    }

    /// Returns the URLs that the operator configured.
    fn configured_urls(&self) -> impl Iterator<Item = &Url> {
        let card = match &self.card {
            CardLocation::Url(url) => Some(url),
            CardLocation::Path(_) | CardLocation::Given(_) => None,
        };
        [Some(&self.base_url), card, self.endpoint.as_ref()]
            .into_iter()
            .flatten()
            .filter(|_| self.configured)
    }

    /// Returns whether `url` has one of the origins that receive the configured credentials.
    pub fn is_own_origin(&self, url: &Url) -> bool {
        self.configured_urls()
            .any(|own| own.scheme() == url.scheme() && same_host_and_port(own, url))
    }

    /// Returns the extensions to activate that the card offers with the expected parameters.
    pub fn active_extensions<'a>(&'a self, card: &'a Card) -> impl Iterator<Item = &'a Extension> {
        self.extensions.iter().filter(|extension| {
            let mut offered = card.extensions.iter();
            offered.any(|one| one.uri == extension.uri && extension.fits(one.params.as_ref()))
        })
    }

    /// Returns the TLS trust for `url`, if it differs from that of the system.
    pub fn trust_for(&self, url: &Url) -> Option<&Arc<Trust>> {
        if self.is_own_origin(url) {
            self.trust.as_ref()
        } else {
            self.trust_elsewhere.as_ref()
        }
    }

    /// Returns whether the operator configured the host and port of `url`.
    pub fn is_configured_host(&self, url: &Url) -> bool {
        self.configured_urls()
            .any(|own| same_host_and_port(own, url))
    }
}

/// Separates a base URL that is the URL of a card, unless the operator set another location of the card.
fn split_card(base_url: Url, card: CardLocation) -> (Url, CardLocation) {
    let is_default = matches!(&card, CardLocation::Path(path) if path == CARD_PATH);
    let paths = [CARD_PATH, OLD_CARD_PATH];
    let path = base_url.path().trim_end_matches('/');
    let below = paths.iter().find_map(|card| path.strip_suffix(card));
    match below.filter(|_| is_default).map(str::to_owned) {
        Some(below) => {
            let mut card = base_url.clone();
            card.set_path(path);
            let mut base = base_url.clone();
            base.set_path(&below);
            base.set_query(None);
            (base, CardLocation::Url(card))
        }
        None => (base_url, card),
    }
}

/// Returns whether two URLs have the same host and port. `localhost`, 127.0.0.1, [::1] and the addresses that servers listen on
/// (0.0.0.0, [::]) count as one host, because servers and operators mix them.
fn same_host_and_port(a: &Url, b: &Url) -> bool {
    let loopback = |url: &Url| match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => ip == Ipv4Addr::LOCALHOST || ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip == Ipv6Addr::LOCALHOST || ip.is_unspecified(),
        None => false,
    };
    a.port_or_known_default() == b.port_or_known_default()
        && (a.host() == b.host() || (loopback(a) && loopback(b)))
}

base::debug_fields!(self: PeerConfig {
    configured, base_url = self.base_url.as_str(), card,
    endpoint = self.endpoint.as_ref().map(Url::as_str), preferred,
    headers = self.headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
    credential, trust, version, tenant, card_keys, allow_private,
});

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn config(base_url: &str) -> PeerConfig {
        PeerConfig {
            configured: true,
            ..PeerConfig::new(
                Url::parse(base_url).unwrap(),
                CardLocation::Path("/card".into()),
            )
        }
    }

    fn own(base_url: &str, url: &str) -> (bool, bool) {
        let (config, url) = (config(base_url), Url::parse(url).unwrap());
        (config.is_own_origin(&url), config.is_configured_host(&url))
    }

    #[test]
    fn names_of_this_machine_are_one_host_on_one_port() {
        for base in [
            "http://localhost:7801",
            "http://127.0.0.1:7801",
            "http://[::1]:7801",
            "http://0.0.0.0:7801",
            "http://[::]:7801",
        ] {
            assert_eq!(
                own(base, "http://127.0.0.1:7801/rpc"),
                (true, true),
                "{base}"
            );
            assert_eq!(
                own(base, "http://localhost:7801/rpc"),
                (true, true),
                "{base}"
            );
            assert_eq!(
                own(base, "http://127.0.0.1:7802/rpc"),
                (false, false),
                "{base}"
            );
            assert_eq!(
                own(base, "http://127.0.0.2:7801/rpc"),
                (false, false),
                "{base}"
            );
        }
    }

    #[test]
    fn another_scheme_is_another_origin() {
        assert_eq!(
            own("https://a.example:8443", "http://a.example:8443/"),
            (false, true)
        );
    }

    #[test]
    fn peer_named_by_request_has_no_configured_host() {
        let mut named = config("http://127.0.0.1:7801");
        named.configured = false;
        let url = named.base_url.clone();
        assert!(!named.is_configured_host(&url) && !named.is_own_origin(&url));
    }
}
