//! The configuration: its type, its schema, its defaults, and errors that name their place.
//!
//! `schema/config.schema.json` is the one description; what it cannot say is in `check.rs`.

mod check;
mod error;
mod secret;

use std::time::Duration;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use check::{card_url, normal_url};
pub use error::ConfigError;
pub use secret::{Secret, SecretMap};

use crate::validation;

/// The schema of the configuration, as shipped.
pub const SCHEMA: &str = include_str!("../../schema/config.schema.json");

/// No call may take longer than this, whatever is asked: 24 hours.
pub const LONGEST_CALL: Duration = Duration::from_secs(24 * 60 * 60);

/// The configuration of one instance.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// Whether a host offers the tool. A loaded instance answers whatever this says.
    pub enabled: bool,
    /// What holds for every target that does not say otherwise.
    pub defaults: Defaults,
    /// The agents that work can be handed to.
    pub targets: Vec<TargetConfig>,
    /// The store of task handles.
    pub task_handles: TaskHandles,
    /// What requests may do.
    pub policy: Policy,
    /// The cache of agent cards.
    pub cards: Cards,
    /// How much a peer can make us hold.
    pub limits: Limits,
}

/// What holds for every target that does not say otherwise.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defaults {
    /// How long a call may take, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub timeout_ms: u64,
    /// Where a target's agent card is.
    pub card_path: String,
    /// Transports in order of preference.
    pub preferred_transports: Vec<String>,
    /// Headers for every request to a target's own origins.
    pub service_parameters: SecretMap,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            timeout_ms: 120_000,
            card_path: "/.well-known/agent-card.json".into(),
            preferred_transports: vec!["JSONRPC".into(), "HTTP+JSON".into()],
            service_parameters: SecretMap::default(),
        }
    }
}

/// One agent that work can be handed to.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetConfig {
    /// The name agents use for it.
    pub alias: String,
    /// Its base URL.
    pub base_url: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Key words.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What to ask, for example.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Used by a request that names no target.
    #[serde(default)]
    pub default: bool,
    /// Where the agent card is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_path: Option<String>,
    /// Where the agent card is, when not below the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_url: Option<String>,
    /// Where to call the agent, when its card says something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Transports in order of preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_transports: Option<Vec<String>>,
    /// How long a call may take, in milliseconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "validation::optional_whole"
    )]
    pub timeout_ms: Option<u64>,
    /// The credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// The target may be at an address that is not public.
    #[serde(default)]
    pub allow_private_network: bool,
}

/// The credential for a target.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
#[non_exhaustive]
pub enum Auth {
    /// `Authorization: Bearer` (RFC 6750).
    Bearer {
        /// The token.
        token: Secret,
    },
}

/// The store of task handles.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskHandles {
    /// How long an unused handle stays good, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub ttl_ms: u64,
    /// How many handles are kept.
    #[serde(deserialize_with = "validation::whole_size")]
    pub max_entries: usize,
}

impl Default for TaskHandles {
    fn default() -> Self {
        Self {
            ttl_ms: 86_400_000,
            max_entries: 1000,
        }
    }
}

/// What requests may do.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Media types asked for when a request names none.
    pub accepted_output_modes: Vec<String>,
    /// Compares URLs by their meaning.
    pub normalize_base_url: bool,
    /// Refuses a configuration that prefers a transport that is not spoken.
    pub enforce_supported_transports: bool,
    /// A request may name a target by URL that is not configured.
    pub allow_target_url_override: bool,
    /// Such a target may be at an address that is not public.
    pub allow_private_target_urls: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            accepted_output_modes: Vec::new(),
            normalize_base_url: true,
            enforce_supported_transports: true,
            allow_target_url_override: false,
            allow_private_target_urls: false,
        }
    }
}

/// The cache of agent cards.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cards {
    /// How long a card is used without asking again when the peer does not say, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub ttl_ms: u64,
}

impl Default for Cards {
    fn default() -> Self {
        Self { ttl_ms: 300_000 }
    }
}

/// How much a peer can make us hold.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// The largest reply, in bytes.
    #[serde(deserialize_with = "validation::whole_size")]
    pub response_bytes: usize,
    /// The largest event of a stream, in bytes.
    #[serde(deserialize_with = "validation::whole_size")]
    pub event_bytes: usize,
    /// How many events of a stream are kept.
    #[serde(deserialize_with = "validation::whole_size")]
    pub stream_events: usize,
    /// How many artifacts one answer may have.
    #[serde(deserialize_with = "validation::whole_size")]
    pub artifacts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 32 << 20,
            event_bytes: 10 << 20,
            stream_events: 1000,
            artifacts: 1000,
        }
    }
}

impl Config {
    /// Reads a configuration. Anything that is no object counts as empty, as it always has.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(json)
            .map_err(|e| ConfigError::at("", format!("the configuration is not JSON: {e}")))?;
        if !value.is_object() {
            return Ok(Self::default());
        }
        if let Some(wrong) = validator()?.iter_errors(&value).next() {
            return Err(ConfigError::from_schema(&wrong));
        }
        let config = serde_json::from_value(value)
            .map_err(|e| ConfigError::at("", format!("the configuration cannot be read: {e}")))?;
        check::check(config)
    }
}

fn validator() -> Result<Validator, ConfigError> {
    validation::compile(SCHEMA).map_err(|e| ConfigError::at("", e))
}

#[cfg(test)]
mod tests;
