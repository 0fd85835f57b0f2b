//! The settings of one target, and its credential.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Secret, SecretMap};

/// One agent that can be called.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetConfig {
    /// The name agents use for it.
    pub alias: String,
    /// Its base URL.
    pub base_url: String,
    /// The operator's description of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Key words for the catalog.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Example requests for the catalog.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Receives requests that name no target.
    #[serde(default)]
    pub default: bool,
    /// The card's path below the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_path: Option<String>,
    /// The card's URL, when it is not below the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card_url: Option<String>,
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
    #[serde(default)]
    pub protocol_version: ProtocolVersion,
    /// The tenant to send in every request, instead of the one in the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Headers for every request to the target's own origins. They are handled as credentials.
    #[serde(default)]
    pub headers: SecretMap<Secret>,
    /// The credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Allows an address that is not public.
    #[serde(default)]
    pub allow_private_network: bool,
    /// The TLS settings.
    #[serde(default)]
    pub tls: TlsFiles,
    /// Wakes the calling session when a task of it ends, unless a request decides.
    #[serde(default)]
    pub notify: bool,
    /// Whether a person approves messages. OpenClaw's part of the plugin applies it.
    #[serde(default)]
    pub approval: Approval,
    /// The host's agents that may call it; all if empty.
    #[serde(default)]
    pub allowed_agents: Vec<String>,
    /// Refuses the card unless one of its signatures verifies.
    #[serde(default)]
    pub require_signed_card: bool,
    /// A file with the keys that may sign the card: a JSON Web Key Set (RFC 7517 §5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwks_file: Option<PathBuf>,
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
    /// A bearer token from an authorization server, by client credentials (RFC 6749 §4.4).
    #[serde(rename = "oauth2")]
    OAuth2 {
        /// The server's token endpoint.
        token_url: String,
        /// The client's id.
        client_id: String,
        /// The client's secret.
        client_secret: Secret,
        /// The scopes to request.
        #[serde(default)]
        scopes: Vec<String>,
        /// How the client authenticates.
        #[serde(default)]
        client_auth: ClientAuth,
        /// The audience to request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        audience: Option<String>,
    },
    /// A client certificate.
    #[serde(rename = "mtls")]
    MutualTls {
        /// The certificate chain (PEM).
        cert_file: PathBuf,
        /// Its private key (PEM).
        key_file: PathBuf,
    },
}

/// How an OAuth 2 client authenticates (RFC 6749 §2.3.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// With HTTP Basic.
    #[default]
    Basic,
    /// In the body of the token request.
    Post,
}

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
