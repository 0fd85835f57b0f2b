//! One target, and what identifies it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use url::Url;

use peer::{CardLocation, PeerConfig};

/// A target: a peer that work can be handed to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its configured name; `None` for one that a request named by URL.
    pub alias: Option<String>,
    /// Its base URL, as results show it.
    pub url: String,
    /// Where its card is, as results show it.
    pub card_path: String,
    /// How to reach it.
    pub reach: PeerConfig,
    /// What the operator says it is for.
    pub description: Option<String>,
    /// Key words.
    pub tags: Vec<String>,
    /// What to ask, for example.
    pub examples: Vec<String>,
    /// Used by a request that names no target.
    pub default: bool,
    /// How long a call may take.
    pub timeout: Duration,
    /// The host's agents that may use it; all where there are none.
    pub allowed_agents: Vec<String>,
    /// The reference of a credential that the host has not resolved.
    pub unresolved: Option<String>,
    /// Headers that carry what the operator set for this target alone; no request may set them.
    pub closed_headers: Vec<HeaderName>,
    /// What tells this target's card and tasks from those of all others: base URL, card location, credentials.
    pub key: Arc<str>,
}

impl Target {
    /// A target that nobody configured by a name: there is nothing to it but how to reach it.
    pub(super) fn unnamed(
        url: String,
        card_path: String,
        reach: PeerConfig,
        timeout: Duration,
    ) -> Self {
        Self {
            alias: None,
            url,
            card_path,
            key: key(&reach),
            reach,
            description: None,
            tags: Vec::new(),
            examples: Vec::new(),
            default: false,
            timeout,
            allowed_agents: Vec::new(),
            unresolved: None,
            closed_headers: Vec::new(),
        }
    }
}

/// The identity of a target. Credentials go in by a hash; the key is never shown.
pub(super) fn key(reach: &PeerConfig) -> Arc<str> {
    let mut credentials = DefaultHasher::new();
    reach.credential.hash(&mut credentials);
    reach.trust.hash(&mut credentials);
    for (name, value) in &reach.headers {
        (name.as_str(), value.as_bytes()).hash(&mut credentials);
    }
    // A card that one target takes as it comes must not pass for another's that has to be signed.
    reach.card_keys.hash(&mut credentials);
    let card = match &reach.card {
        CardLocation::Path(path) => path.as_str(),
        CardLocation::Url(url) => url.as_str(),
    };
    format!(
        "{} {card} {:?} {:?} {:?} {} {:x}",
        reach.base_url,
        reach.endpoint.as_ref().map(Url::as_str),
        reach.version,
        reach.tenant,
        reach.allow_private,
        credentials.finish()
    )
    .into()
}

/// Two base URLs mean the same place: alike but for a slash at the end.
pub fn same_place(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin() && a.path().trim_end_matches('/') == b.path().trim_end_matches('/')
}
