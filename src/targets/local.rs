//! The agents of the local gateway, as targets.

use std::sync::Arc;

use url::Url;

use crate::config::{Config, Gateway, Secret, gateway_url};
use a2a::Transport;
use peer::{CardLocation, PeerConfig};

use super::configured::millis;
use super::target::{Target, key, same_place};

/// What the alias of such a target begins with.
const ALIAS: &str = "gateway:";

/// What its card path begins with.
const CARD: &str = "/agents/";

/// The name that stands for the triad.
const TRIAD: &str = "triad";

/// What a name may be, as requests write it behind the prefix.
pub const NAME_PATTERN: &str = "[A-Za-z0-9_-]{1,64}";

/// The longest name, in characters.
const LONGEST_NAME: usize = 64;

/// The agents of the local gateway. Which there are only the gateway knows, so a target is made of any name that may be
/// called.
#[derive(Debug)]
pub struct Local {
    /// A target of no name.
    of_all: Target,
    /// The names that may be called; all where there are none.
    agents: Vec<String>,
    /// The members of the triad.
    triad: Vec<String>,
}

impl Local {
    /// The agents of the gateway that is configured, where one is.
    ///
    /// # Errors
    /// What is wrong with its address, as the end of a sentence.
    pub(super) fn new(config: &Config) -> Result<Option<Self>, String> {
        let gateway = &config.gateway;
        if !gateway.enabled {
            return Ok(None);
        }
        let address = gateway_url(&gateway.url)?;
        let base_url = web_form(&address).ok_or("has no form that results could show")?;
        let reach = PeerConfig {
            configured: true,
            // The card path stands in for the name, and the address is that of the one connection.
            endpoint: Some(address),
            preferred: vec![Transport::Gateway],
            allow_private: true,
            ..PeerConfig::new(base_url, CardLocation::Path(CARD.to_owned()))
        };
        Ok(Some(Self {
            of_all: Target {
                allowed_agents: gateway.allowed_agents.clone(),
                unresolved: unresolved(gateway),
                ..Target::unnamed(
                    reach.base_url.to_string(),
                    CARD.to_owned(),
                    reach,
                    millis(config.defaults.timeout_ms),
                )
            },
            agents: gateway.agents.clone(),
            triad: gateway.triad.members.clone(),
        }))
    }

    /// What all its targets have in common: a target of no name.
    pub fn of_all(&self) -> &Target {
        &self.of_all
    }

    /// The names that the operator wrote, the triad last.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.agents().chain([TRIAD])
    }

    /// The agents that the operator wrote.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.iter().map(String::as_str)
    }

    /// The members of the triad.
    pub fn triad(&self) -> &[String] {
        &self.triad
    }

    /// The name means the triad.
    pub fn is_triad(&self, name: &str) -> bool {
        name == TRIAD
    }

    /// The operator named the agents that may be called, and there are no others.
    pub fn is_closed(&self) -> bool {
        !self.agents.is_empty()
    }

    /// The agent of this name; `None` where it may not be called.
    pub fn target(&self, name: &str) -> Option<Arc<Target>> {
        if !self.admits(name) {
            return None;
        }
        let mut target = self.of_all.clone();
        target.alias = Some(format!("{ALIAS}{name}"));
        target.card_path.push_str(name);
        target.reach.card = CardLocation::Path(target.card_path.clone());
        target.key = key(&target.reach);
        Some(Arc::new(target))
    }

    /// The agent at this card path of the gateway at `url`; `None` where that is another gateway, or the agent may not be
    /// called.
    pub(super) fn at(&self, url: &Url, card_path: &str) -> Option<Arc<Target>> {
        let name = card_path.strip_prefix(CARD)?;
        same_place(&self.of_all.reach.base_url, url)
            .then(|| self.target(name))
            .flatten()
    }

    fn admits(&self, name: &str) -> bool {
        is_name(name)
            && (name == TRIAD
                || self.agents.is_empty()
                || self.agents.iter().any(|agent| agent == name))
    }
}

/// The name of an agent of the gateway that an alias stands for.
pub fn local_name(alias: &str) -> Option<&str> {
    alias.strip_prefix(ALIAS).filter(|name| is_name(name))
}

/// The alias of the agent of that name.
pub fn local_alias(name: &str) -> String {
    format!("{ALIAS}{name}")
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(letter)
}

/// A gateway's address as results and continuations have it.
fn web_form(address: &Url) -> Option<Url> {
    let mut url = address.clone();
    let scheme = if url.scheme() == "wss" {
        "https"
    } else {
        "http"
    };
    url.set_scheme(scheme).ok()?;
    Some(url)
}

/// The reference of a token that the host has not resolved.
fn unresolved(gateway: &Gateway) -> Option<String> {
    match gateway.token.as_ref()? {
        Secret::Known(_) => None,
        Secret::Unresolved { source, id } => Some(format!("{source}:{id}")),
    }
}

#[cfg(test)]
mod tests;
