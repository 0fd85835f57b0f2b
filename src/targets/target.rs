//! A target and its identity.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use url::Url;

use peer::{CardLocation, PeerConfig};

/// A peer that can be called.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its configured name; `None` for a target that a request named by URL.
    pub alias: Option<String>,
    /// Its base URL, as in results.
    pub url: String,
    /// Its card's path or URL, as in results.
    pub card_path: String,
    /// How to connect to it.
    pub peer_config: PeerConfig,
    /// The operator's description.
    pub description: Option<String>,
    /// Key words.
    pub tags: Vec<String>,
    /// Example requests.
    pub examples: Vec<String>,
    /// Receives requests that name no target.
    pub default: bool,
    /// The default timeout of a call.
    pub timeout: Duration,
    /// Wakes the calling session when a task of it ends, unless a request decides.
    pub notify: bool,
    /// The host's agents that may call it; all if empty.
    pub allowed_agents: Vec<String>,
    /// The reference of a secret that the host has not resolved.
    pub unresolved: Option<String>,
    /// Headers that the operator set for this target; no request may set them.
    pub closed_headers: Vec<HeaderName>,
    /// Identifies this target's card and tasks: base URL, card location and credentials.
    pub key: Arc<str>,
}

impl Target {
    /// Builds a target that the configuration does not name.
    pub(super) fn unnamed(
        url: String,
        card_path: String,
        peer_config: PeerConfig,
        timeout: Duration,
    ) -> Self {
        Self {
            alias: None,
            url,
            card_path,
            key: key(&peer_config),
            peer_config,
            description: None,
            tags: Vec::new(),
            examples: Vec::new(),
            default: false,
            timeout,
            notify: false,
            allowed_agents: Vec::new(),
            unresolved: None,
            closed_headers: Vec::new(),
        }
    }
}

/// Computes the identity of a target. Credentials enter as a hash; the key is never shown.
pub(super) fn key(peer_config: &PeerConfig) -> Arc<str> {
    let mut credentials = DefaultHasher::new();
    peer_config.credential.hash(&mut credentials);
    peer_config.trust.hash(&mut credentials);
    for (name, value) in &peer_config.headers {
        (name.as_str(), value.as_bytes()).hash(&mut credentials);
    }
    // A target that requires a signed card must not share a cached card with one that does not.
    peer_config.card_keys.hash(&mut credentials);
    let card = match &peer_config.card {
        CardLocation::Path(path) => path.as_str(),
        CardLocation::Url(url) => url.as_str(),
    };
    format!(
        "{} {card} {:?} {:?} {:?} {} {:x}",
        peer_config.base_url,
        peer_config.endpoint.as_ref().map(Url::as_str),
        peer_config.version,
        peer_config.tenant,
        peer_config.allow_private,
        credentials.finish()
    )
    .into()
}

/// Returns whether two base URLs are equal but for a trailing slash.
pub fn same_place(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin() && a.path().trim_end_matches('/') == b.path().trim_end_matches('/')
}
