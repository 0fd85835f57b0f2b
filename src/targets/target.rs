//! A target and its identity, and how it is built from its settings.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Transport, Version};
use base::files::read_bounded;
use base::json;
use egress::address::is_this_machine;
use http::{HeaderName, HeaderValue};
use peer::{CARD_LIMITS, CardKeys, CardLocation, Extension, MAX_CARD_BYTES, PeerConfig};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use url::Url;

use super::credentials::{self, CredentialError, TargetTrust};
use super::pins::PinFile;
use crate::config::{
    Answers, Config, MAX_CALL_TIMEOUT, Pins, ProtocolVersion, Secret, SecretMap, TargetBudget,
    TargetConfig, card_url, normal_card_url, normal_url,
};

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
    /// Who answers the questions of its tasks.
    pub answers: Answers,
    /// Lets the model read the words that a person answered.
    pub show_answers: bool,
    /// The host's agents that may call it; all if empty.
    pub allowed_agents: Vec<String>,
    /// Its own budget for a day.
    pub budget: Option<TargetBudget>,
    /// What was accepted of its cards; `None` if they may change.
    pub pins: Option<PinFile>,
    /// The reference of a secret that the host has not resolved.
    pub unresolved: Option<String>,
    /// Headers that the operator set for this target; no request may set them.
    pub closed_headers: Vec<HeaderName>,
    /// Identifies this target's card and tasks: base URL, card location and credentials.
    pub key: Arc<str>,
    /// The same, for its card alone: where pins allow a card to one target, another at the address may not use it.
    pub card_key: Arc<str>,
}

impl Target {
    /// Returns the names of its preferred transports.
    pub fn transport_names(&self) -> Vec<&'static str> {
        let preferred = self.peer_config.preferred.iter();
        preferred.map(|transport| transport.as_str()).collect()
    }

    /// Builds a target that the configuration does not name.
    pub(super) fn unnamed(
        url: String,
        card_path: String,
        peer_config: PeerConfig,
        timeout: Duration,
        answers: Answers,
    ) -> Self {
        let target = Self {
            alias: None,
            url,
            card_path,
            key: Arc::default(),
            card_key: Arc::default(),
            peer_config,
            description: None,
            tags: Vec::new(),
            examples: Vec::new(),
            default: false,
            timeout,
            notify: false,
            answers,
            show_answers: false,
            allowed_agents: Vec::new(),
            budget: None,
            pins: None,
            unresolved: None,
            closed_headers: Vec::new(),
        };
        target.identified()
    }

    /// Returns the target with the keys of its present settings.
    pub(super) fn identified(mut self) -> Self {
        self.key = key(&self.peer_config);
        self.card_key = match &self.pins {
            Some(pins) => format!("{} {}", self.key, pins.path().display()).into(),
            None => Arc::clone(&self.key),
        };
        self
    }
}

/// Returns the target with the credential of `user`, if each person has one of their own. The identity stays: the agent is the
/// same.
pub fn for_user(target: &Arc<Target>, user: Option<&str>) -> Arc<Target> {
    let credential = target.peer_config.credential.as_ref();
    let Some(credential) = credential.and_then(|credential| credential.for_user(user)) else {
        return Arc::clone(target);
    };
    let mut own = Target::clone(target);
    own.peer_config.credential = Some(credential);
    own.pins = own.pins.map(|pins| pins.for_user(user));
    Arc::new(own)
}

/// Computes the identity of a target. Credentials enter as a hash; the key is never shown.
fn key(peer_config: &PeerConfig) -> Arc<str> {
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
        CardLocation::Given(card) => {
            card.hash(&mut credentials);
            "given"
        }
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
pub fn same_base_url(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin() && a.path().trim_end_matches('/') == b.path().trim_end_matches('/')
}

/// Builds the target that `target` describes.
///
/// # Errors
/// A value is invalid in a way that the schema cannot detect.
pub(super) fn configured(
    config: &Config,
    target: &TargetConfig,
    trusts: TargetTrust,
    card_keys: Option<CardKeys>,
    given: Option<Arc<Value>>,
) -> Result<Target, String> {
    let base_url = normal_url(&target.base_url)?;
    let card_path = target
        .card_path
        .clone()
        .unwrap_or_else(|| config.defaults.card_path.clone());
    let card_url = target.card_url.clone().or_else(|| card_url(&card_path));
    let (card, card_path) = match &card_url {
        Some(url) => (CardLocation::Url(normal_card_url(url)?), url.clone()),
        None => (CardLocation::Path(card_path.clone()), card_path),
    };
    let card = given.map_or(card, CardLocation::Given);
    let credential = credentials::credential(target, &trusts, config.state_dir.as_deref());
    let (credential, mut unresolved) = match credential {
        Ok(credential) => (credential.map(Arc::new), None),
        Err(CredentialError::Secret(reference)) => (None, Some(reference)),
        Err(CredentialError::Use(error)) => return Err(error),
    };
    let own = headers(&target.headers, &mut unresolved)?;
    let mut closed_headers: Vec<_> = own.iter().map(|(name, _)| name.clone()).collect();
    closed_headers.extend(credential.as_ref().and_then(|c| c.header()));
    let mut headers = headers(&config.defaults.service_parameters, &mut unresolved)?;
    headers.retain(|(name, _)| own.iter().all(|(closer, _)| closer != name));
    headers.extend(own);
    let all = config.defaults.service_parameters.iter();
    let all = all.chain(target.headers.iter());
    let secret_headers = all
        .filter(|(_, value)| matches!(value, Secret::Resolved(_)))
        .filter_map(|(name, _)| HeaderName::try_from(name).ok())
        .collect();
    let peer_config = PeerConfig {
        configured: true,
        endpoint: target.endpoint.as_deref().map(normal_url).transpose()?,
        preferred: transports(
            target
                .preferred_transports
                .as_ref()
                .unwrap_or(&config.defaults.preferred_transports),
        ),
        secret_headers,
        headers,
        credential,
        trust: trusts.own,
        trust_elsewhere: trusts.elsewhere,
        version: match target.protocol_version {
            ProtocolVersion::Auto => None,
            ProtocolVersion::V0_3 => Some(Version::V0_3),
            ProtocolVersion::V1_0 => Some(Version::V1_0),
        },
        tenant: target.tenant.clone(),
        extensions: target
            .extensions
            .iter()
            .map(|extension| Extension {
                uri: extension.uri.clone(),
                params: extension.params.clone(),
                metadata: extension.metadata.clone(),
            })
            .collect(),
        card_keys,
        allow_private: target.allow_private_network,
        ..PeerConfig::new(base_url, card)
    };
    let pins = pin_file(config, target, &peer_config)?;
    let target = Target {
        alias: Some(target.alias.clone()),
        url: target.base_url.clone(),
        card_path,
        key: Arc::default(),
        card_key: Arc::default(),
        peer_config,
        description: target
            .description
            .as_deref()
            .map(str::trim)
            .filter(|d| !d.is_empty())
            .map(str::to_owned),
        tags: target.tags.clone(),
        examples: target.examples.clone(),
        default: target.default,
        timeout: millis(target.timeout_ms.unwrap_or(config.defaults.timeout_ms)),
        notify: target.notify,
        answers: target.answers.unwrap_or(config.defaults.answers),
        show_answers: target.show_answers,
        allowed_agents: target.allowed_agents.clone(),
        budget: target.budget.clone(),
        pins,
        unresolved,
        closed_headers,
    };
    Ok(target.identified())
}

/// Returns the card in the settings of a target, or in the file that they name.
///
/// # Errors
/// The file cannot be read, or is not JSON; a sentence.
pub(super) fn given_card(target: &TargetConfig) -> Result<Option<Arc<Value>>, String> {
    let Some(Value::String(file)) = &target.card else {
        return Ok(target.card.clone().map(Arc::new));
    };
    let text = read_bounded(Path::new(file), MAX_CARD_BYTES as u64)
        .map_err(|e| format!("the file `{file}` cannot be read: {e}"))?;
    let card = json::from_str(text.trim_start_matches('\u{feff}'), CARD_LIMITS)
        .map_err(|e| format!("the file `{file}` cannot be read as JSON: {e}"))?;
    Ok(Some(Arc::new(card)))
}

/// Returns the file with the pins of a target; `None` if its cards may change. The card of an agent on this machine changes with
/// the work of its developer, so only a setting pins it.
///
/// # Errors
/// They have to be enforced, and no directory is known.
fn pin_file(
    config: &Config,
    target: &TargetConfig,
    peer_config: &PeerConfig,
) -> Result<Option<PinFile>, String> {
    let mode = target.pins.or(config.defaults.pins).unwrap_or_else(|| {
        match is_this_machine(&peer_config.base_url) {
            true => Pins::Off,
            false => Pins::Report,
        }
    });
    let variable = |name: &str| std::env::var_os(name);
    let dir = base::config::plugin_state_dir(config.state_dir.as_deref(), variable);
    match (mode, dir.is_relative()) {
        (Pins::Off, _) | (Pins::Report, true) => return Ok(None),
        (Pins::Enforce, true) => {
            return Err("pins need a directory: set `stateDir` to an absolute path".to_owned());
        }
        _ => {}
    }
    let card = match &peer_config.card {
        CardLocation::Path(path) => path,
        CardLocation::Url(url) => url.as_str(),
        // The operator writes the card in the settings.
        CardLocation::Given(_) => return Ok(None),
    };
    let endpoint = peer_config.endpoint.as_ref().map_or("", Url::as_str);
    let identity = [peer_config.base_url.as_str(), card, endpoint];
    let (dir, alias) = (dir.join("pins"), target.alias.clone());
    Ok(Some(PinFile::new(dir, alias, &identity, mode)))
}

/// Returns headers. Sets `unresolved` to the first reference that the host has not resolved, unless it is set.
fn headers(
    values: &SecretMap<Secret>,
    unresolved: &mut Option<String>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for (name, value) in values.iter() {
        let name = HeaderName::try_from(name).map_err(|e| e.to_string())?;
        match value.value() {
            Ok(value) => {
                let mut value =
                    HeaderValue::try_from(value.expose_secret()).map_err(|e| e.to_string())?;
                value.set_sensitive(true);
                headers.push((name, value));
            }
            Err(reference) => {
                unresolved.get_or_insert(reference);
            }
        }
    }
    Ok(headers)
}

/// Parses transport names and skips unknown ones.
pub fn transports(names: &[String]) -> Vec<Transport> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns a timeout, at most [`MAX_CALL_TIMEOUT`].
pub(super) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms).min(MAX_CALL_TIMEOUT)
}
