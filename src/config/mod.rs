//! The configuration: its type, its schema, its defaults, and errors that name their place.
//!
//! `schema/config.schema.json` is the source; `check.rs` has the rules that a schema cannot express.

mod check;
mod oauth2;

use std::path::PathBuf;
use std::time::Duration;

use base::budget::{Budget, Budgets};
pub use base::config::{
    ConfigError, Secret, SecretMap, card_url, gateway_url, normal_card_url, normal_url,
};
use base::key_source::KeySource;
use base::settings;
use collective::TriadConfig;
use gateway_bridge::DialectChoice;
pub use oauth2::{ClientAuth, Grant, OAuth2, Per};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    /// When calls to a target that does not answer fail at once.
    pub breaker: Breaker,
    /// The local gateway, whose agents are targets too.
    pub gateway: Gateway,
    /// The audit log.
    pub audit: Audit,
    /// The budgets of a day, and the file of what was used.
    pub budget: Budgets,
    /// The directory of the tokens of people who signed in and, where it is set, of the record of budgets; by default one of
    /// the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<PathBuf>,
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

settings! {
    /// Defaults for every target.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Defaults {
        /// How long a call may take, in milliseconds.
        pub timeout_ms: u64 = 120_000,
        /// The location of a target's agent card.
        pub card_path: String = "/.well-known/agent-card.json".into(),
        /// Transports in order of preference.
        pub preferred_transports: Vec<String> = vec!["JSONRPC".into(), "HTTP+JSON".into()],
        /// Who answers the questions of tasks.
        pub answers: Answers = Answers::Model,
        /// What a changed card of a target does; [`Pins::Report`], and [`Pins::Off`] for targets on this machine, if absent.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pins: Option<Pins>,
        /// Headers for every request to a target's own origins.
        pub service_parameters: SecretMap<Secret>,
    }
}

settings! {
    /// Tasks that OpenClaw's gateway follows beyond the turn. Its JavaScript reads these settings.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Notify {
        /// How many tasks are followed at a time.
        pub max_tasks: usize = 32,
        /// How long a task is followed, in milliseconds.
        pub max_age_ms: u64 = 86_400_000,
    }
}

settings! {
    /// The store of task handles.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct TaskHandles {
        /// How long an unused handle stays valid, in milliseconds.
        pub ttl_ms: u64 = 86_400_000,
        /// How many handles are kept.
        pub max_entries: usize = 1000,
    }
}

settings! {
    /// The cache of agent cards.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Cards {
        /// How long a card is fresh when the peer sets no lifetime, in milliseconds.
        pub ttl_ms: u64 = 300_000,
    }
}

impl Config {
    /// Parses a configuration. A value that is not an object counts as empty.
    ///
    /// # Errors
    /// Returns the first error, with its place.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let value = base::config::parse_json(text)?;
        if !value.is_object() {
            return Ok(Self::default());
        }
        let form = "must be a string that is not empty, or a SecretRef `{source, provider, id}`";
        let config = base::config::parse(value, SCHEMA, Some(form), check::check_raw);
        let config = config.map_err(oauth2::with_alternative)?;
        check::check(config)
    }
}

settings! {
    /// The audit log: caller, time, target and outcome of each call, never its content.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Audit {
        /// Whether the log is written.
        pub enabled: bool,
        /// The file that the log is written to. Required where the log is enabled.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub path: Option<PathBuf>,
        /// The size at which the file is rotated, in bytes.
        pub max_bytes: u64 = 10 << 20,
    }
}

settings! {
    /// Limits on a peer's answers, on concurrent calls and on waiting.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Limits {
        /// The largest reply, in bytes.
        pub response_bytes: usize = 32 << 20,
        /// The largest event of a stream, in bytes.
        pub event_bytes: usize = 10 << 20,
        /// How many events of a stream are kept.
        pub stream_events: usize = 1000,
        /// How many artifacts one task may have.
        pub artifacts: usize = 1000,
        /// How many calls run at a time; the others wait until their own deadline.
        pub concurrency: usize = 64,
        /// How many of them may call one target.
        pub concurrency_per_target: usize = 16,
        /// How many targets one message may have.
        pub group_targets: usize = 10,
        /// The longest text that a model reads of one result, in characters.
        pub model_text_chars: usize = 12_000,
        /// How long a call that follows a task waits by default, in milliseconds.
        pub wait_ms: u64 = 25_000,
    }
}

settings! {
    /// When calls to a target that does not answer fail at once.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Breaker {
        /// Whether they do.
        pub enabled: bool = true,
        /// After how many failures in a row.
        pub failures: u32 = 5,
        /// For how long at first, in milliseconds; each further failure doubles it.
        pub open_ms: u64 = 30_000,
    }
}

settings! {
    /// Limits on what requests may set.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Policy {
        /// The output media types to request by default.
        pub accepted_output_modes: Vec<String>,
        /// Compares URLs after normalization, not byte by byte.
        pub normalize_base_url: bool = true,
        /// Refuses a configuration that prefers an unsupported transport.
        pub enforce_supported_transports: bool = true,
        /// Allows a request to name a URL that is not configured.
        pub allow_target_url_override: bool,
        /// Allows such a URL to lead to an address that is not public.
        pub allow_private_target_urls: bool,
        /// How many delegations may lie between the first caller and a peer.
        pub max_delegation_depth: u64 = 4,
        /// Connects through the proxy that the environment names.
        pub use_system_proxy: bool,
        /// The callback URLs that requests may name; any public one if empty.
        pub push_callback_urls: Vec<String>,
    }
}

settings! {
    /// The local gateway: its address, its credential, and which agents may call which of its agents.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct Gateway {
        /// Whether its agents are targets.
        pub enabled: bool,
        /// Its address, ws or wss.
        pub url: String = "ws://127.0.0.1:18789".into(),
        /// Its protocol.
        pub dialect: DialectChoice,
        /// The WebSocket subprotocol that is offered.
        pub protocol: String = "a2a-v1".into(),
        /// The shared token, API key or JWT.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub token: Option<Secret>,
        /// How long connecting may take, in milliseconds.
        pub timeout_ms: u64 = 30_000,
        /// How long the connection may be idle before the client sends a ping, in milliseconds.
        pub heartbeat_ms: u64 = 30_000,
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
        pub triad: TriadConfig,
        /// Signs messages to a gateway of `a2a-v1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub signing: Option<GatewaySigning>,
    }
}

/// The key that signs messages to the gateway.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySigning {
    /// The agent that the gateway's credential names. The schema requires it.
    #[serde(default)]
    pub agent: String,
    /// Where its private key is.
    #[serde(flatten)]
    pub key: KeySource,
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

/// One agent that can be called.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetConfig {
    /// The name agents use for it.
    pub alias: String,
    /// Its base URL.
    pub base_url: String,
    /// The operator's description of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Key words for the catalog.
    pub tags: Vec<String>,
    /// Example requests for the catalog.
    pub examples: Vec<String>,
    /// Receives requests that name no target.
    pub default: bool,
    /// The card's path below the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_path: Option<String>,
    /// The card's URL, when it is not below the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_url: Option<String>,
    /// The card itself, or the path of a JSON file with it. It is not fetched then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<Value>,
    /// The URL to call instead of the one in the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Transports in order of preference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_transports: Option<Vec<String>>,
    /// How long a call may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The protocol version to use.
    pub protocol_version: ProtocolVersion,
    /// The tenant to send in every request, instead of the one in the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The extensions of the protocol to activate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ExtensionConfig>,
    /// Headers for every request to the target's own origins. They are handled as credentials.
    pub headers: SecretMap<Secret>,
    /// The credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Allows an address that is not public.
    pub allow_private_network: bool,
    /// The TLS settings.
    pub tls: TlsFiles,
    /// Wakes the calling session when a task of it ends, unless a request decides.
    pub notify: bool,
    /// Whether a person approves messages. OpenClaw's part of the plugin applies it.
    pub approval: Approval,
    /// Who answers the questions of its tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answers>,
    /// Lets the model read the words that a person answered.
    pub show_answers: bool,
    /// The host's agents that may call it; all if empty.
    pub allowed_agents: Vec<String>,
    /// Its budget for a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TargetBudget>,
    /// Refuses the card unless one of its signatures verifies.
    pub require_signed_card: bool,
    /// A file with the keys that may sign the card: a JSON Web Key Set (RFC 7517 §5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
    /// What a changed card does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pins: Option<Pins>,
}

/// An extension of the protocol.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct ExtensionConfig {
    /// Its URI.
    pub uri: String,
    /// The parameters that the card must declare for it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The members that it adds to the metadata of every message.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The budget of a target for a day.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetBudget {
    /// Its limits.
    #[serde(flatten)]
    pub budget: Budget,
    /// Tells the target in the metadata of each message what is left.
    pub send_remainder: bool,
}

/// Whether a person approves the messages to a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// No approval.
    #[default]
    Auto,
    /// Approval until a lasting decision.
    First,
    /// Approval of each message.
    Always,
    /// No messages.
    Deny,
}

/// What a card does that is not the accepted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pins {
    /// Nothing; no card is remembered.
    Off,
    /// Its changes are reported.
    Report,
    /// Changes of identity, addresses and credentials stop calls; others are reported.
    Enforce,
}

/// Who answers when a task asks for input. A sign-in or a permission goes to a person wherever the host can reach one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// The model.
    #[default]
    Model,
    /// A person only.
    Person,
    /// A person, and the model where no person answers.
    PersonThenModel,
}

/// The version of A2A to use with a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ProtocolVersion {
    /// The newest version that the card offers.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// A2A 0.3 only.
    #[serde(rename = "0.3")]
    V0_3,
    /// A2A 1.0 only.
    #[serde(rename = "1.0")]
    V1_0,
}

/// The TLS settings of a target.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsFiles {
    /// A file of certificate authorities (PEM) to trust instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// The credential for a target.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Auth {
    /// `Authorization: Bearer` (RFC 6750).
    #[serde(rename = "bearer")]
    Bearer {
        /// The token.
        token: Secret,
    },
    /// `Authorization: Basic` (RFC 7617).
    #[serde(rename = "basic")]
    Basic {
        /// The user's name.
        username: String,
        /// The user's password.
        password: Secret,
    },
    /// A key in a header, a query parameter or a cookie.
    #[serde(rename = "apiKey")]
    ApiKey {
        /// Where the key goes.
        #[serde(rename = "in")]
        place: KeyPlace,
        /// The header's, parameter's or cookie's name.
        name: String,
        /// The key.
        value: Secret,
    },
    /// A bearer token from an authorization server (RFC 6749).
    #[serde(rename = "oauth2")]
    OAuth2(Box<OAuth2>),
    /// A client certificate.
    #[serde(rename = "mtls")]
    MutualTls {
        /// The certificate chain (PEM).
        cert_file: PathBuf,
        /// Its private key (PEM).
        key_file: PathBuf,
    },
    /// A bearer token that a program prints.
    #[serde(rename = "command")]
    Command {
        /// The program.
        #[serde(flatten)]
        program: Program,
    },
    /// A signature of each request (AWS Signature Version 4).
    #[serde(rename = "awsSigV4")]
    AwsSigV4 {
        /// The region.
        region: String,
        /// The service.
        #[serde(default = "agent_core")]
        service: String,
        /// The id of the key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access_key_id: Option<Secret>,
        /// The key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret_access_key: Option<Secret>,
        /// The token of a temporary key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_token: Option<Secret>,
        /// The program that prints keys instead.
        #[serde(flatten)]
        program: Program,
    },
}

/// The service of AWS that runs agents.
fn agent_core() -> String {
    "bedrock-agentcore".to_owned()
}

settings! {
    /// A program that prints a credential. `Debug` omits its arguments, which may contain secrets.
    #[derive(Clone, Deserialize, Serialize)]
    pub struct Program {
        /// The program and its arguments; empty for none.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub command: Vec<String>,
        /// The names of the environment variables that it gets.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub env: Vec<String>,
        /// The limit of its time, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_ms: Option<u64>,
    }
}

base::debug_fields!(self: Program { program = self.command.first() });

/// The place of an API key in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyPlace {
    /// A header.
    Header,
    /// A parameter of the URL's query.
    Query,
    /// A cookie.
    Cookie,
}

#[cfg(test)]
mod tests;
