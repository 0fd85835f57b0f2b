//! The configuration: its type, its schema, its defaults, and errors that name their place.
//!
//! `schema/config.schema.json` is the source; `check.rs` has the rules that a schema cannot express.

mod audit;
mod auth;
mod check;
mod gateway;
mod limits;
mod policy;
mod target;

use std::time::Duration;

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use audit::Audit;
pub use auth::{Auth, ClientAuth, KeyPlace};
pub use base::config::{ConfigError, Secret, SecretMap, card_url, gateway_url, normal_url};
pub use gateway::{Gateway, GatewayTls, Triad};
pub use limits::Limits;
pub use policy::Policy;
pub use target::{Approval, ProtocolVersion, TargetConfig, TlsFiles};

use base::{json, validation};

pub const SCHEMA: &str = include_str!("../../schema/config.schema.json");

/// The maximum timeout of a request or the configuration: 24 hours.
pub const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The configuration of one instance.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// Whether OpenClaw offers the tool. Hosts read it; an instance works either way.
    pub enabled: bool,
    /// How much of the contract the tool's definition shows to a model.
    pub tool_schema: ToolSchema,
    /// Defaults for every target.
    pub defaults: Defaults,
    /// The agents that can be called.
    pub targets: Vec<TargetConfig>,
    /// Tasks that are followed beyond the turn.
    pub notify: Notify,
    /// The store of task handles.
    pub task_handles: TaskHandles,
    /// The options that requests may set.
    pub policy: Policy,
    /// The cache of agent cards.
    pub cards: Cards,
    /// Limits on a peer's answers, on concurrent calls and on waiting.
    pub limits: Limits,
    /// The local gateway, whose agents are targets too.
    pub gateway: Gateway,
    /// The audit log.
    pub audit: Audit,
}

/// How much of the contract the tool's definition shows to a model. Requests may use all of it either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolSchema {
    /// The fields that a model needs.
    #[default]
    Compact,
    /// Every field.
    Full,
}

/// Defaults for every target.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defaults {
    /// How long a call may take, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub timeout_ms: u64,
    /// The location of a target's agent card.
    pub card_path: String,
    /// Transports in order of preference.
    pub preferred_transports: Vec<String>,
    /// Headers for every request to a target's own origins.
    pub service_parameters: SecretMap<Secret>,
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

/// Tasks that OpenClaw's gateway follows beyond the turn. Its JavaScript reads these settings.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Notify {
    /// How many tasks are followed at a time.
    #[serde(deserialize_with = "validation::integer_size")]
    pub max_tasks: usize,
    /// How long a task is followed, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub max_age_ms: u64,
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            max_tasks: 32,
            max_age_ms: 86_400_000,
        }
    }
}

/// The store of task handles.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskHandles {
    /// How long an unused handle stays valid, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub ttl_ms: u64,
    /// How many handles are kept.
    #[serde(deserialize_with = "validation::integer_size")]
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

/// The cache of agent cards.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cards {
    /// How long a card is fresh when the peer sets no lifetime, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub ttl_ms: u64,
}

impl Default for Cards {
    fn default() -> Self {
        Self { ttl_ms: 300_000 }
    }
}

impl Config {
    /// Parses a configuration. A value that is not an object counts as empty.
    ///
    /// # Errors
    /// Returns the first error, with its place.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let value: Value = json::from_str(text, json::Limits::NONE)
            .map_err(|e| ConfigError::at("", format!("the configuration is not JSON: {e}")))?;
        if !value.is_object() {
            return Ok(Self::default());
        }
        if let Some(violation) = validator()?.iter_errors(&value).next() {
            return Err(ConfigError::from_schema(&violation));
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
