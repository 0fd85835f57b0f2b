//! Credentials and permissions.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use base::validation;

/// The accepted credentials. A client needs one of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthConfig {
    /// API keys.
    pub keys: Vec<KeyConfig>,
    /// JSON Web Tokens.
    pub jwt: Option<JwtConfig>,
    /// Client certificates; they need TLS.
    pub certificates: Vec<CertificateConfig>,
}

/// An API key. The configuration contains only its digest.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyConfig {
    /// The name of its holder.
    pub name: String,
    /// The SHA-256 of the key, in hexadecimal digits.
    pub sha256: String,
    /// The roles of its holder.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The agent that its holder acts as.
    pub agent: Option<String>,
    /// Its expiry time (RFC 3339, in UTC).
    pub expires_at: Option<String>,
}

/// A client certificate.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateConfig {
    /// The name of its holder.
    pub name: String,
    /// The SHA-256 of the certificate in DER, in hexadecimal digits; colons are ignored.
    pub sha256: String,
    /// The roles of its holder.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The agent that its holder acts as.
    pub agent: Option<String>,
}

/// JSON Web Tokens (RFC 7519). `sub` is the name of the holder, `roles` is a list or a space-separated string, `agent` is
/// the agent that the holder acts as.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtConfig {
    /// The signature algorithm. The gateway ignores the `alg` header of a token.
    pub alg: JwtAlgorithm,
    /// The file with the shared key for `HS256`.
    pub key_file: Option<PathBuf>,
    /// The file with the public keys for the other algorithms, as a JSON Web Key Set.
    pub jwks_file: Option<PathBuf>,
    /// The required issuer (`iss`).
    pub issuer: Option<String>,
    /// The required audience (`aud`).
    pub audience: Option<String>,
    /// The tolerated clock skew, in milliseconds.
    #[serde(default, deserialize_with = "validation::integer")]
    pub leeway_ms: u64,
}

/// A signature algorithm of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256 and a shared key.
    #[serde(rename = "HS256")]
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// ECDSA with P-256 and SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl JwtAlgorithm {
    /// Returns its name in the `alg` header of a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// Permissions. Lists contain names of agents, services or workspaces; `*` means all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    /// The agents that the client may send messages to.
    pub send: Vec<String>,
    /// Whether the client may send proposals to the triad.
    pub propose: bool,
    /// Whether the client may vote, as a member of the triad.
    pub vote: bool,
    /// Whether the client may subscribe.
    pub subscribe: bool,
    /// Whether the client may broadcast.
    pub broadcast: bool,
    /// The services that the client may call. `*` does not include `gateway`, the service that manages the gateway.
    pub request: Vec<String>,
    /// The workspaces whose sessions the client may read. An agent may always read its own.
    pub workspaces: Vec<String>,
    /// The agents that the client may act as, besides the one of its credential.
    pub serve: Vec<String>,
}

impl fmt::Debug for KeyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyConfig")
            .field("name", &self.name)
            .field("sha256", &"[redacted]")
            .field("roles", &self.roles)
            .field("agent", &self.agent)
            .field("expires_at", &self.expires_at)
            .finish()
    }
}
