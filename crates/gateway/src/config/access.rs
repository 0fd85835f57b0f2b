//! Who may connect, and what they may do.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use common::validation;

/// Who may connect. One of the three kinds of credential will do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthConfig {
    /// API keys.
    pub keys: Vec<KeyConfig>,
    /// JSON Web Tokens.
    pub jwt: Option<JwtConfig>,
    /// Clients' certificates, where connections are TLS.
    pub certificates: Vec<CertificateConfig>,
}

/// An API key. The configuration knows its digest alone.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyConfig {
    /// Whose it is.
    pub name: String,
    /// The SHA-256 of the key, in hexadecimal digits.
    pub sha256: String,
    /// The roles of whoever has it.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The agent that whoever has it is.
    pub agent: Option<String>,
    /// When it is no longer good (RFC 3339, in UTC).
    pub expires_at: Option<String>,
}

/// The certificate of a client.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateConfig {
    /// Whose it is.
    pub name: String,
    /// The SHA-256 of the certificate in DER, in hexadecimal digits; colons do not count.
    pub sha256: String,
    /// The roles of whoever shows it.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The agent that whoever shows it is.
    pub agent: Option<String>,
}

/// JSON Web Tokens (RFC 7519): `sub` is the name, `roles` a list or words, `agent` the agent that its bearer is.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtConfig {
    /// How tokens are signed. What a token says of itself does not count.
    pub alg: JwtAlgorithm,
    /// The shared key of `HS256`, as the bytes of a file.
    pub key_file: Option<PathBuf>,
    /// The public keys of the other algorithms, as a JSON Web Key Set.
    pub jwks_file: Option<PathBuf>,
    /// Who must have issued a token (`iss`).
    pub issuer: Option<String>,
    /// Whom a token must be for (`aud`).
    pub audience: Option<String>,
    /// How far clocks may differ, in milliseconds.
    #[serde(default, deserialize_with = "validation::whole")]
    pub leeway_ms: u64,
}

/// How tokens are signed.
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
    /// Its name in a token's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// What is allowed. Lists name agents, services or workspaces; `*` is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    /// The agents that messages may go to.
    pub send: Vec<String>,
    /// Asking the triad.
    pub propose: bool,
    /// Voting. Only members of the triad can.
    pub vote: bool,
    /// Hearing of what happens to others.
    pub subscribe: bool,
    /// Messages to everybody.
    pub broadcast: bool,
    /// The services that may be asked. The gateway's own, `gateway`, by which it is managed, only where it is named.
    pub request: Vec<String>,
    /// The workspaces whose sessions may be seen. An agent may always see its own.
    pub workspaces: Vec<String>,
    /// The agents that whoever has the role may speak as, beside the one its credential names.
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
