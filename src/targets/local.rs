//! The agents of the local gateway, as targets.

use std::sync::Arc;

use url::Url;

use crate::config::{Config, Gateway, gateway_url};
use a2a::Transport;
use base::key_source::KeySource;
use peer::{CardLocation, PeerConfig};

use super::target::{Target, millis, same_base_url};

/// The prefix of the alias of such a target.
const ALIAS: &str = "gateway:";

/// The prefix of its card path.
const CARD: &str = "/agents/";

/// The name of the triad.
const TRIAD: &str = "triad";

/// The characters of a name behind the prefix.
pub const NAME_PATTERN: &str = "[A-Za-z0-9_-]{1,64}";

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The agents of the local gateway. Only the gateway knows which exist, so every name that may be called has a target.
#[derive(Debug)]
pub struct Local {
    /// The target without a name.
    gateway_target: Target,
    /// The names that may be called; all if empty.
    agents: Vec<String>,
    triad: Vec<String>,
}

impl Local {
    /// Reads the agents of the configured gateway, where one is enabled.
    ///
    /// # Errors
    /// The gateway's address is invalid; the reason is the end of a sentence.
    pub(super) fn new(config: &Config) -> Result<Option<Self>, String> {
        let gateway = &config.gateway;
        if !gateway.enabled {
            return Ok(None);
        }
        let address = gateway_url(&gateway.url)?;
        let base_url = to_http_url(&address).ok_or("has no form that results could show")?;
        let peer_config = PeerConfig {
            configured: true,
            // The card path carries the name; the base URL is that of the gateway.
            endpoint: Some(address),
            preferred: vec![Transport::Gateway],
            allow_private: true,
            ..PeerConfig::new(base_url, CardLocation::Path(CARD.to_owned()))
        };
        Ok(Some(Self {
            gateway_target: Target {
                allowed_agents: gateway.allowed_agents.clone(),
                unresolved: unresolved(gateway),
                ..Target::unnamed(
                    peer_config.base_url.to_string(),
                    CARD.to_owned(),
                    peer_config,
                    millis(config.defaults.timeout_ms),
                    config.defaults.answers,
                )
            },
            agents: gateway.agents.clone(),
            triad: gateway.triad.members.clone(),
        }))
    }

    /// Returns the target without a name, which holds what all targets share.
    pub fn gateway_target(&self) -> &Target {
        &self.gateway_target
    }

    /// Returns the names in the configuration, the triad last.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.agents().chain([TRIAD])
    }

    /// Returns the agents in the configuration.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(String::as_str)
    }

    pub fn triad(&self) -> &[String] {
        &self.triad
    }

    pub fn is_triad(&self, name: &str) -> bool {
        name == TRIAD
    }

    /// Returns whether the operator listed the agents that may be called.
    pub fn is_closed(&self) -> bool {
        !self.agents.is_empty()
    }

    /// Returns the agent of this name; `None` if it may not be called.
    pub fn target(&self, name: &str) -> Option<Arc<Target>> {
        if !self.is_allowed(name) {
            return None;
        }
        let mut target = self.gateway_target.clone();
        target.alias = Some(format!("{ALIAS}{name}"));
        target.card_path.push_str(name);
        target.peer_config.card = CardLocation::Path(target.card_path.clone());
        Some(Arc::new(target.identified()))
    }

    /// Returns the agent at this card path of the gateway at `url`; `None` for another gateway, or where the agent may
    /// not be called.
    pub(super) fn at(&self, url: &Url, card_path: &str) -> Option<Arc<Target>> {
        let name = card_path.strip_prefix(CARD)?;
        same_base_url(&self.gateway_target.peer_config.base_url, url)
            .then(|| self.target(name))
            .flatten()
    }

    fn is_allowed(&self, name: &str) -> bool {
        is_name(name)
            && (name == TRIAD
                || self.agents.is_empty()
                || self.agents.iter().any(|agent| agent == name))
    }
}

/// Returns the agent's name in an alias with the gateway's prefix.
pub fn local_name(alias: &str) -> Option<&str> {
    alias.strip_prefix(ALIAS).filter(|name| is_name(name))
}

/// Returns the alias of the agent of that name.
pub fn local_alias(name: &str) -> String {
    format!("{ALIAS}{name}")
}

fn is_name(name: &str) -> bool {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.chars().all(is_name_char)
}

/// Returns a gateway's address in the form of results and continuations.
fn to_http_url(address: &Url) -> Option<Url> {
    let mut url = address.clone();
    let scheme = if url.scheme() == "wss" {
        "https"
    } else {
        "http"
    };
    url.set_scheme(scheme).ok()?;
    Some(url)
}

/// Returns the reference of a token or a signing key that the host has not resolved.
fn unresolved(gateway: &Gateway) -> Option<String> {
    let key = gateway.signing.as_ref().map(|signing| &signing.key);
    let key = key.and_then(KeySource::secret);
    let mut secrets = gateway.token.iter().chain(key);
    secrets.find_map(|secret| secret.value().err())
}

#[cfg(test)]
mod tests;
