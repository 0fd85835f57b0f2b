//! The settings of one target.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use common::validation;

use super::{Auth, SecretMap};

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
    /// The protocol version to speak.
    #[serde(default)]
    pub protocol_version: ProtocolVersion,
    /// The tenant to name in every request, instead of the one in its card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Headers for every request to the target's own origins. Treated as credentials.
    #[serde(default)]
    pub headers: SecretMap,
    /// The credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// The target may be at an address that is not public.
    #[serde(default)]
    pub allow_private_network: bool,
    /// How its connections are secured.
    #[serde(default)]
    pub tls: TlsFiles,
    /// The host's agents that may call it; all where the list is empty.
    #[serde(default)]
    pub allowed_agents: Vec<String>,
    /// Its card counts only with a signature that verifies.
    #[serde(default)]
    pub require_signed_card: bool,
    /// The keys its card may be signed with: a file with a JSON Web Key Set (RFC 7517 §5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
}

/// Which version of A2A to speak with a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum ProtocolVersion {
    /// What its card says, the newest first.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// A2A 0.3 and nothing else.
    #[serde(rename = "0.3")]
    V0_3,
    /// A2A 1.0 and nothing else.
    #[serde(rename = "1.0")]
    V1_0,
}

/// How connections to a target are secured, beside what the system trusts.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsFiles {
    /// A file of certificates (PEM) that are trusted for this target, instead of those that the system trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}
