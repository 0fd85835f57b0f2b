//! The catalog of targets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::config::{Answers, Config, ConfigError, Defaults, card_url, normal_url};
use a2a::Transport;
use peer::{CardLocation, PeerConfig};

use super::credentials::{self, Files};
use super::local::{Local, local_name};
use super::target::{Target, configured, given_card, millis, same_base_url, transports};

/// The reason that a requested target cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetError {
    /// No target is configured there, and policy refuses others.
    NotConfigured,
    /// Several targets are configured there.
    Ambiguous(Vec<String>),
    /// The URL cannot be called; the reason is the end of a sentence.
    BadUrl(String),
    /// The card path is not a path on the target.
    BadCardPath,
    /// It is an agent of a local gateway, and no gateway is configured.
    NoGateway,
    /// It is an agent of another gateway, or one that may not be called.
    NotOfGateway,
}

/// All configured targets, and the rules for URLs in requests.
#[derive(Debug)]
pub struct Catalog {
    targets: Vec<Arc<Target>>,
    by_alias: HashMap<String, usize>,
    local: Option<Local>,
    default: Option<usize>,
    normalize: bool,
    allow_override: bool,
    /// Settings of a target that a request names by URL.
    ad_hoc: AdHoc,
}

#[derive(Debug)]
struct AdHoc {
    card_path: String,
    preferred: Vec<Transport>,
    timeout: Duration,
    answers: Answers,
    allow_private: bool,
}

impl Catalog {
    /// Builds the catalog of a configuration.
    ///
    /// # Errors
    /// A value is invalid in a way that the schema cannot detect.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut targets = Vec::with_capacity(config.targets.len());
        let mut files = Files::default();
        for (i, target) in config.targets.iter().enumerate() {
            let place = format!("/targets/{i}");
            let trusts = files.read(target, &place)?;
            let card_keys = credentials::card_keys(target)
                .map_err(|e| ConfigError::at(format!("{place}/jwksFile"), e))?;
            let card =
                given_card(target).map_err(|e| ConfigError::at(format!("{place}/card"), e))?;
            let target = configured(config, target, trusts, card_keys, card)
                .map_err(|e| ConfigError::at(place, e))?;
            targets.push(Arc::new(target));
        }
        let by_alias = targets
            .iter()
            .enumerate()
            .filter_map(|(i, t)| Some((t.alias.clone()?, i)))
            .collect();
        Ok(Self {
            default: targets.iter().position(|t| t.default),
            by_alias,
            local: Local::new(config)
                .map_err(|e| ConfigError::at("/gateway/url", format!("the URL {e}")))?,
            targets,
            normalize: config.policy.normalize_base_url,
            allow_override: config.policy.allow_target_url_override,
            ad_hoc: AdHoc {
                card_path: match card_url(&config.defaults.card_path) {
                    // A configured card URL belongs to one peer; other peers use the standard path.
                    Some(_) => Defaults::default().card_path,
                    None => config.defaults.card_path.clone(),
                },
                preferred: transports(&config.defaults.preferred_transports),
                timeout: millis(config.defaults.timeout_ms),
                answers: config.defaults.answers,
                allow_private: config.policy.allow_private_target_urls,
            },
        })
    }

    /// Returns all configured targets, in the order of the configuration.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    pub fn aliases(&self) -> Vec<&str> {
        self.targets
            .iter()
            .filter_map(|target| target.alias.as_deref())
            .collect()
    }

    /// Returns the agents of the local gateway, where one is configured.
    pub fn local(&self) -> Option<&Local> {
        self.local.as_ref()
    }

    pub fn by_alias(&self, alias: &str) -> Option<Arc<Target>> {
        let configured = self.by_alias.get(alias).map(|&i| &self.targets[i]);
        configured
            .cloned()
            .or_else(|| self.local.as_ref()?.target(local_name(alias)?))
    }

    /// Returns the target for requests that name none.
    pub fn default_target(&self) -> Option<&Arc<Target>> {
        self.default.map(|i| &self.targets[i])
    }

    /// Returns the target at `url`.
    ///
    /// # Errors
    /// No target matches.
    pub fn by_url(&self, url: &str) -> Result<Arc<Target>, TargetError> {
        let parsed = normal_url(url).map_err(TargetError::BadUrl)?;
        let matches: Vec<&Arc<Target>> = self.at(url, &parsed).collect();
        match matches.as_slice() {
            [one] => Ok(Arc::clone(one)),
            [] => self.ad_hoc_target(url, parsed, None, None),
            many => Err(ambiguous(many)),
        }
    }

    /// Returns the target of a persisted continuation. Among several targets at one URL the alias decides, then the
    /// card path. `preferred` are the transports of the continuation.
    ///
    /// # Errors
    /// No target matches.
    pub fn by_continuation(
        &self,
        url: &str,
        card_path: &str,
        preferred: &[Transport],
        alias: Option<&str>,
    ) -> Result<Arc<Target>, TargetError> {
        let parsed = normal_url(url).map_err(TargetError::BadUrl)?;
        if preferred.contains(&Transport::Gateway) {
            let local = self.local.as_ref().ok_or(TargetError::NoGateway)?;
            return local
                .at(&parsed, card_path)
                .filter(|target| {
                    target.peer_config.preferred == preferred
                        && (alias.is_none() || target.alias.as_deref() == alias)
                })
                .ok_or(TargetError::NotOfGateway);
        }
        if !is_path(card_path)
            && !self
                .at(url, &parsed)
                .any(|target| target.card_path == card_path)
        {
            return Err(TargetError::BadCardPath);
        }
        let matches: Vec<&Arc<Target>> = self.at(url, &parsed).collect();
        let same_path: Vec<&Arc<Target>> = matches
            .iter()
            .copied()
            .filter(|target| target.card_path == card_path)
            .collect();
        let by_alias = matches
            .iter()
            .find(|target| alias.is_some() && target.alias.as_deref() == alias);
        let target = match (by_alias, same_path.as_slice()) {
            (Some(target), _) | (None, [target]) => target,
            (None, []) if matches.len() > 1 && !self.allow_override => {
                return Err(ambiguous(&matches));
            }
            (None, []) => return self.ad_hoc_target(url, parsed, Some(card_path), Some(preferred)),
            (None, many) => return Err(ambiguous(many)),
        };
        if target.peer_config.preferred == preferred {
            return Ok(Arc::clone(target));
        }
        let mut target_copy = Target::clone(target);
        target_copy.peer_config.preferred = preferred.to_vec();
        Ok(Arc::new(target_copy))
    }

    fn at(&self, url: &str, parsed: &Url) -> impl Iterator<Item = &Arc<Target>> {
        self.targets.iter().filter(move |target| {
            if self.normalize {
                target.url == url || same_base_url(&target.peer_config.base_url, parsed)
            } else {
                target.url == url
            }
        })
    }

    fn ad_hoc_target(
        &self,
        url: &str,
        parsed: Url,
        card_path: Option<&str>,
        preferred: Option<&[Transport]>,
    ) -> Result<Arc<Target>, TargetError> {
        if !self.allow_override {
            return Err(TargetError::NotConfigured);
        }
        let card_path = card_path.unwrap_or(&self.ad_hoc.card_path).to_owned();
        let peer_config = PeerConfig {
            preferred: preferred.unwrap_or(&self.ad_hoc.preferred).to_vec(),
            allow_private: self.ad_hoc.allow_private,
            ..PeerConfig::new(parsed, CardLocation::Path(card_path.clone()))
        };
        let url = if self.normalize {
            peer_config.base_url.to_string()
        } else {
            url.to_owned()
        };
        Ok(Arc::new(Target::unnamed(
            url,
            card_path,
            peer_config,
            self.ad_hoc.timeout,
            self.ad_hoc.answers,
        )))
    }
}

/// Returns whether `card_path` is a path on the target. Requests cannot name a card on another origin.
fn is_path(card_path: &str) -> bool {
    !card_path.contains("://") && !card_path.starts_with("//") && !card_path.contains('\\')
}

fn ambiguous(targets: &[&Arc<Target>]) -> TargetError {
    TargetError::Ambiguous(
        targets
            .iter()
            .filter_map(|target| target.alias.clone())
            .collect(),
    )
}

#[cfg(test)]
mod tests;
