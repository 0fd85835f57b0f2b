//! The configuration: its type, its schema, its defaults, and errors that name their place.
//!
//! `schema/config.schema.json` is the source; `check.rs` has the rules that a schema cannot express. The limits of
//! answers, calls and waits, the policy for requests, and the local gateway have types of their own.

mod check;
mod target;

use std::path::PathBuf;
use std::time::Duration;

pub use base::config::{ConfigError, Secret, SecretMap, card_url, gateway_url, normal_url};
use base::{json, validation};
use collective::Quorum;
use gateway_bridge::DialectChoice;
use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use target::{Approval, ProtocolVersion, TargetConfig, TlsFiles};
pub use target::{Auth, ClientAuth, KeyPlace};

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

/// The audit log: caller, time, target and outcome of each call, never its content.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Audit {
    /// Whether the log is written.
    pub enabled: bool,
    /// The file that the log is written to. Required where the log is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The size at which the file is rotated, in bytes.
    #[serde(deserialize_with = "validation::integer")]
    pub max_bytes: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: false,
            path: None,
            max_bytes: 10 << 20,
        }
    }
}

/// Limits on a peer's answers, on concurrent calls and on waiting.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// The largest reply, in bytes.
    #[serde(deserialize_with = "validation::integer_size")]
    pub response_bytes: usize,
    /// The largest event of a stream, in bytes.
    #[serde(deserialize_with = "validation::integer_size")]
    pub event_bytes: usize,
    /// How many events of a stream are kept.
    #[serde(deserialize_with = "validation::integer_size")]
    pub stream_events: usize,
    /// How many artifacts one task may have.
    #[serde(deserialize_with = "validation::integer_size")]
    pub artifacts: usize,
    /// How many calls run at a time; the others wait until their own deadline.
    #[serde(deserialize_with = "validation::integer_size")]
    pub concurrency: usize,
    /// How many of them may call one target.
    #[serde(deserialize_with = "validation::integer_size")]
    pub concurrency_per_target: usize,
    /// The longest text that a model reads of one result, in characters.
    #[serde(deserialize_with = "validation::integer_size")]
    pub model_text_chars: usize,
    /// How long a call that follows a task waits by default, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub wait_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 32 << 20,
            event_bytes: 10 << 20,
            stream_events: 1000,
            artifacts: 1000,
            concurrency: 64,
            concurrency_per_target: 16,
            model_text_chars: 12_000,
            wait_ms: 25_000,
        }
    }
}

/// Limits on what requests may set.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// The output media types to request by default.
    pub accepted_output_modes: Vec<String>,
    /// Compares URLs after normalization, not byte by byte.
    pub normalize_base_url: bool,
    /// Refuses a configuration that prefers an unsupported transport.
    pub enforce_supported_transports: bool,
    /// Allows a request to name a URL that is not configured.
    pub allow_target_url_override: bool,
    /// Allows such a URL to lead to an address that is not public.
    pub allow_private_target_urls: bool,
    /// How many delegations may lie between the first caller and a peer.
    #[serde(deserialize_with = "validation::integer")]
    pub max_delegation_depth: u64,
    /// Connects through the proxy that the environment names.
    pub use_system_proxy: bool,
    /// The callback URLs that requests may name; any public one if empty.
    pub push_callback_urls: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            accepted_output_modes: Vec::new(),
            normalize_base_url: true,
            enforce_supported_transports: true,
            allow_target_url_override: false,
            allow_private_target_urls: false,
            max_delegation_depth: 4,
            use_system_proxy: false,
            push_callback_urls: Vec::new(),
        }
    }
}

/// The local gateway: its address, its credential, and which agents may call which of its agents.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gateway {
    /// Whether its agents are targets.
    pub enabled: bool,
    /// Its address, ws or wss.
    pub url: String,
    /// Its protocol.
    pub dialect: DialectChoice,
    /// The WebSocket subprotocol that is offered.
    pub protocol: String,
    /// The shared token, API key or JWT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// How long connecting may take, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub timeout_ms: u64,
    /// How long the connection may be idle before the client sends a ping, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub heartbeat_ms: u64,
    /// Allows an address that is not loopback, with wss.
    pub allow_remote: bool,
    /// Sends the token in the URL, as the dialect heretek-js requires.
    pub token_in_query: bool,
    /// The TLS settings of wss.
    pub tls: GatewayTls,
    /// The agents that may be called; all if empty. The triad may always be called.
    pub agents: Vec<String>,
    /// The host's agents that may call them; all if empty.
    pub allowed_agents: Vec<String>,
    /// The triad.
    pub triad: Triad,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            enabled: false,
            url: "ws://127.0.0.1:18789".into(),
            dialect: DialectChoice::default(),
            protocol: "a2a-v1".into(),
            token: None,
            timeout_ms: 30_000,
            heartbeat_ms: 30_000,
            allow_remote: false,
            token_in_query: false,
            tls: GatewayTls::default(),
            agents: Vec::new(),
            allowed_agents: Vec::new(),
            triad: Triad::default(),
        }
    }
}

/// The TLS settings of wss.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayTls {
    /// A file of certificate authorities (PEM) to trust instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The file with the client's certificate chain (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// The file with that certificate's private key (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

/// Three agents that vote.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Triad {
    /// Their names.
    pub members: Vec<String>,
    /// How long a proposal waits for their votes, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub deadline_ms: u64,
    /// When a proposal is decided.
    pub quorum: Quorum,
}

impl Default for Triad {
    fn default() -> Self {
        Self {
            members: ["alpha", "beta", "charlie"].map(str::to_owned).into(),
            deadline_ms: 300_000,
            quorum: Quorum::default(),
        }
    }
}

#[cfg(test)]
mod tests;
