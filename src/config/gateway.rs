//! The local gateway.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use common::validation;

use super::Secret;

/// The local gateway: how it is reached, and which of its agents may be called by whom.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Gateway {
    /// Whether its agents are targets.
    pub enabled: bool,
    /// Its address, ws or wss.
    pub url: String,
    /// What it speaks.
    pub dialect: Dialect,
    /// The WebSocket subprotocol that is offered.
    pub protocol: String,
    /// The shared token, API key or JWT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// How long connecting may take, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub timeout_ms: u64,
    /// How long the connection may be silent before the gateway is asked whether it is there, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub heartbeat_ms: u64,
    /// An address that is not loopback will do, with wss.
    pub allow_remote: bool,
    /// The token goes into the URL, as the dialect heretek-js wants it.
    pub token_in_query: bool,
    /// How wss is secured.
    pub tls: GatewayTls,
    /// The agents that may be called; all where there are none. The triad may be called whatever is here.
    pub agents: Vec<String>,
    /// The host's agents that may call them; all where there are none.
    pub allowed_agents: Vec<String>,
    /// The triad.
    pub triad: Triad,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            enabled: false,
            url: "ws://127.0.0.1:18789".into(),
            dialect: Dialect::default(),
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

/// How a connection with wss is secured, beside what the system trusts.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayTls {
    /// A file of certificates (PEM) that are trusted, instead of those that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The file with the certificate chain that is shown (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// The file with that certificate's private key (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

/// What a gateway speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Whatever its first frame shows.
    #[default]
    Auto,
    /// The OpenClaw gateway's protocol.
    #[serde(rename = "openclaw")]
    OpenClaw,
    /// `a2a-v1`.
    A2aV1,
    /// The JavaScript gateway's own.
    HeretekJs,
}

/// Three agents that vote.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Triad {
    /// Who they are.
    pub members: Vec<String>,
    /// How long a proposal waits for their votes, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
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

/// When a proposal is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quorum {
    /// As soon as no missing vote can change the outcome.
    #[default]
    Majority,
    /// When all have voted.
    All,
}
