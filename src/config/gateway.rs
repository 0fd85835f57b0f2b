//! The local gateway.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use base::validation;
use collective::Quorum;
use gateway_bridge::DialectChoice;

use super::Secret;

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
