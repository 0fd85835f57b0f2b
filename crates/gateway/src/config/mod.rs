//! The gateway's configuration.
//!
//! The schema is `schema/gateway.schema.json`; `check.rs` validates what the schema cannot express. Errors have a JSON
//! Pointer.

mod check;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use base::config::{ConfigError, Secret};
use base::files::Fsync;
use base::jws::KeySet;
use base::key_source::KeySource;
use base::{config, named, settings};
use collective::{MAX_FRAME_BYTES, TriadConfig};
use http_server::tls::TlsFiles;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The schema of the gateway's configuration, as shipped.
pub const SCHEMA: &str = include_str!("../../../../schema/gateway.schema.json");

/// The name of the audit log in the state directory.
const AUDIT: &str = "audit.jsonl";

/// The default port of a gateway (Heretek A2A §3.1).
pub const PORT: u16 = 18789;

settings! {
    /// The configuration of a gateway.
    #[derive(Debug, Clone, Deserialize)]
    pub struct ServerConfig {
        /// The listen address. Port 0 selects a free port.
        pub listen: SocketAddr = (Ipv4Addr::LOCALHOST, PORT).into(),
        /// The accepted values of the `Host` header, besides loopback addresses and the listen address.
        pub hosts: Vec<String>,
        /// The accepted origins of web pages, besides the gateway's own.
        pub origins: Vec<String>,
        /// The state directory. Sessions are in `agents/<name>/`.
        pub state_dir: PathBuf = default_state_dir(|name| std::env::var_os(name)),
        /// When the gateway acknowledges a session entry.
        pub fsync: Fsync = Fsync::Always,
        /// The maximum time between a write and its sync with `fsync: interval`, in milliseconds.
        pub fsync_interval_ms: u64 = 100,
        /// The time to live of a session after its last entry, in milliseconds; `None` means unlimited.
        pub session_ttl_ms: Option<u64>,
        /// How the gateway stores sessions.
        pub sessions: SessionsConfig,
        /// The agents that the gateway lists even before they connect.
        pub agents: Vec<AgentConfig> = collective(),
        /// The services that discovery lists and that clients may call with `request`.
        pub services: Vec<ServiceConfig>,
        /// The links to other gateways.
        pub links: Vec<LinkConfig>,
        /// The members and rules of the triad.
        pub triad: TriadConfig,
        /// Whether the gateway is strict. If so, clients must create a session before they use it (otherwise 4001), and the
        /// gateway rejects a message with another sender's name (5004) instead of correcting the name.
        pub strict: bool,
        /// Whether the proposer receives each vote.
        pub vote_visibility: bool = true,
        /// The accepted credentials; `None` accepts every client that can reach the port.
        pub auth: Option<AuthConfig>,
        /// The permissions of each role. Without roles, every client has all permissions.
        pub roles: BTreeMap<String, Permissions>,
        /// The limits of clients.
        pub limits: Limits,
        /// The interval of pings to a silent client, in milliseconds (Heretek A2A §3.2).
        pub heartbeat_ms: u64 = 30_000,
        /// TLS (`wss`); `None` means plain text.
        pub tls: Option<TlsFiles>,
        /// The audit log.
        pub audit: AuditConfig,
        /// Signatures of messages.
        pub signing: SigningConfig,
    }
}

named! {
    /// What the gateway does with signatures of messages.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SigningMode {
        /// Forwards them unread.
        #[default]
        Off = "off",
        /// Verifies them, and says in each message what it found.
        Verify = "verify",
        /// Refuses messages without a valid one.
        Require = "require",
    }
}

settings! {
    /// Signatures of messages (Heretek A2A §13.3).
    #[derive(Debug, Clone, Deserialize)]
    pub struct SigningConfig {
        /// What the gateway does with signatures of senders that have no mode of their own.
        pub mode: SigningMode,
        /// Whether votes need a valid signature in any mode.
        pub require_votes: bool,
        /// Whether the first key that a configured agent advertises becomes its key.
        pub pin_first_use: bool,
        /// Where the private key is with which the gateway signs decisions; `None` leaves them unsigned.
        #[serde(flatten, deserialize_with = "base::key_source::optional")]
        pub key: Option<KeySource>,
    }
}

/// The maximum number of keys of an agent.
pub(crate) const MAX_AGENT_KEYS: usize = 8;

/// Returns the keys of the agent at an index of the configuration.
///
/// # Errors
/// The first unusable key, with its JSON Pointer.
pub(crate) fn message_keys(index: usize, agent: &AgentConfig) -> Result<KeySet, ConfigError> {
    let keys: Vec<Value> = agent.keys.iter().cloned().map(Value::Object).collect();
    KeySet::of_messages(&keys).map_err(|(i, fault)| {
        ConfigError::at(
            format!("/agents/{index}/keys/{i}"),
            format!("the key {fault}"),
        )
    })
}

settings! {
    /// How the gateway stores sessions.
    #[derive(Debug, Clone, Deserialize)]
    pub struct SessionsConfig {
        /// The encryption of session files; `None` means plain text.
        pub encryption: Option<EncryptionConfig>,
    }
}

/// The encryption of session files ("Encryption at rest for session data", Heretek A2A §13.3).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EncryptionConfig {
    /// The keys: 32 random bytes in base64url. The first one encrypts, all of them decrypt.
    pub keys: Vec<KeySource>,
    /// Whether the gateway refuses sessions that are not encrypted.
    #[serde(default)]
    pub refuse_plain: bool,
}

settings! {
    /// The audit log: sender, recipient, type and outcome of each message, without its content.
    #[derive(Debug, Clone, Deserialize)]
    pub struct AuditConfig {
        /// Whether the gateway writes the audit log.
        pub enabled: bool = true,
        /// The path of the file; `None` means `audit.jsonl` in the state directory.
        pub path: Option<PathBuf>,
        /// The size at which the file is rotated, in bytes.
        pub max_bytes: u64 = 10 << 20,
    }
}

impl ServerConfig {
    /// Reads a configuration file. Resolves relative paths in it from the directory of the file.
    ///
    /// # Errors
    /// The file cannot be read or is invalid. The error has the JSON Pointer of the first problem.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|e| {
            let message = format!("cannot read the configuration `{}`: {e}", path.display());
            ConfigError::at("", message)
        })?;
        let mut config = Self::parse(&text)?;
        resolve_paths(&mut config, path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// Parses a configuration without reading files. Missing settings have the values of [`Default`].
    ///
    /// # Errors
    /// The first problem, with its JSON Pointer.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        let value = config::parse_json(json)?;
        let config = config::parse(value, SCHEMA, None, check::check_raw)?;
        check::check(config)
    }

    /// Returns the names of the environment variables with the keys of sessions and of signatures.
    pub fn key_variables(&self) -> impl Iterator<Item = &str> {
        let sessions = self.sessions.encryption.iter().flat_map(|one| &one.keys);
        let keys = sessions.chain(&self.signing.key);
        keys.filter_map(|key| key.secret()?.variable())
    }

    /// Returns the greatest of all modes of signatures.
    pub(crate) fn greatest_signing_mode(&self) -> SigningMode {
        let votes = match self.signing.require_votes {
            true => SigningMode::Require,
            false => SigningMode::Off,
        };
        let agents = self.agents.iter().filter_map(|agent| agent.signing);
        agents.fold(self.signing.mode.max(votes), SigningMode::max)
    }

    /// Returns the path of the audit log.
    pub fn audit_path(&self) -> PathBuf {
        let own = || self.state_dir.join(AUDIT);
        self.audit.path.clone().unwrap_or_else(own)
    }
}

settings! {
    /// Limits of clients.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct Limits {
        /// The maximum number of connections.
        pub connections: usize = 2048,
        /// The sustained message rate of a client, per second.
        pub messages_per_second: u64 = 200,
        /// The maximum burst of messages of a client.
        pub burst: u64 = 400,
        /// The maximum size of the outbox of a client, in bytes.
        pub queue_bytes: usize = 4 << 20,
        /// The maximum total size of all outboxes, in bytes.
        pub total_queue_bytes: usize = 128 << 20,
        /// The maximum size of a frame, in bytes.
        pub frame_bytes: usize = MAX_FRAME_BYTES,
        /// The maximum size of the session entries that one client adds within a day, in bytes.
        pub daily_session_bytes_per_client: u64 = 1 << 30,
        /// The silence after which the gateway closes a connection, in milliseconds.
        pub idle_ms: u64 = 90_000,
    }
}

/// Returns the default state directory: `openclaw-remote-agent/gateway` in `$XDG_STATE_HOME`, or else in `~/.local/state`.
/// `variable` returns the value of an environment variable.
pub fn default_state_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    config::default_state_dir("gateway", variable)
}

/// Resolves relative paths from `folder`, and `~/` from the home directory of the process.
fn resolve_paths(config: &mut ServerConfig, folder: &Path) {
    let mut all = vec![&mut config.state_dir];
    if let Some(tls) = &mut config.tls {
        all.extend([&mut tls.cert_file, &mut tls.key_file]);
        all.extend(&mut tls.client_ca_file);
    }
    if let Some(jwt) = config.auth.as_mut().and_then(|auth| auth.jwt.as_mut()) {
        all.extend(&mut jwt.key_file);
        all.extend(&mut jwt.jwks_file);
    }
    all.extend(&mut config.audit.path);
    for link in &mut config.links {
        let files = [&mut link.cert_file, &mut link.key_file, &mut link.ca_file];
        all.extend(files.into_iter().flatten());
    }
    let keys = config.sessions.encryption.iter_mut();
    let keys = keys.flat_map(|one| &mut one.keys);
    let keys = keys.chain(&mut config.signing.key);
    all.extend(keys.filter_map(KeySource::file_mut));
    let backends = config
        .agents
        .iter_mut()
        .filter_map(|agent| agent.backend.as_mut());
    all.extend(backends.flat_map(|backend| backend.files()));
    for path in all {
        *path = config::resolved(path, folder);
    }
}

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
    #[serde(default)]
    pub leeway_ms: u64,
}

named! {
    /// A signature algorithm of tokens, with its name in their header `alg`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    pub enum JwtAlgorithm {
        /// HMAC with SHA-256 and a shared key.
        Hs256 = "HS256",
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        Rs256 = "RS256",
        /// ECDSA with P-256 and SHA-256.
        Es256 = "ES256",
        /// Ed25519.
        #[serde(rename = "EdDSA")]
        EdDsa = "EdDSA",
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

base::debug_fields!(self: KeyConfig { name, roles, agent, expires_at });

/// A configured agent. The gateway lists it even before it connects.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentConfig {
    /// Its name, which is also the name of its workspace.
    pub name: String,
    /// Its role, such as `Triad member`.
    pub role: String,
    /// Its purpose.
    pub description: Option<String>,
    /// The maximum permissions of clients that act as this agent. `None` does not restrict their roles.
    pub permissions: Option<Permissions>,
    /// The backend of an agent that the gateway itself runs. `None` means that a client serves the agent.
    pub backend: Option<BackendConfig>,
    /// What the gateway does with signatures of this agent; `None` for the mode of all.
    pub signing: Option<SigningMode>,
    /// The public keys with which the agent signs, as JSON Web Keys.
    #[serde(default)]
    pub keys: Vec<Map<String, Value>>,
}

/// A service that is not an agent (Heretek A2A §6.4).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceConfig {
    /// Its name.
    pub service_id: String,
    /// The URL for requests, `http` or `https`.
    pub endpoint: String,
    /// Its capabilities.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The URL of its health check, `http` or `https`.
    pub health_endpoint: Option<String>,
}

/// A link to another gateway. One side dials, and the other side knows it by its certificate.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkConfig {
    /// Its name. This gateway calls the agents of the other one `AGENT@NAME`.
    pub name: String,
    /// The URL of the other gateway, `wss`; `None` if the other gateway dials.
    pub url: Option<String>,
    /// The certificate chain with which this gateway dials.
    pub cert_file: Option<PathBuf>,
    /// The private key of that certificate.
    pub key_file: Option<PathBuf>,
    /// The authorities of the other gateway's certificate; `None` means those of the system.
    pub ca_file: Option<PathBuf>,
    /// The name in `auth.certificates` of the gateway that dials.
    pub certificate: Option<String>,
    /// The agents of the other gateway that this one lists and sends to. `*` ends a beginning of names.
    #[serde(default)]
    pub agents: Vec<String>,
    /// The agents of this gateway that the other one may list and send to.
    #[serde(default)]
    pub export: Vec<String>,
    /// Whether broadcasts pass, in both directions.
    #[serde(default)]
    pub broadcasts: bool,
}

// `Debug` omits the URLs, because path and query may contain a key.
base::debug_fields!(self: ServiceConfig { service_id, capabilities });

/// Returns the twelve agents of the collective (Heretek A2A §8.1).
fn collective() -> Vec<AgentConfig> {
    let agents = [
        ("main", "Default agent"),
        ("steward", "Orchestrator"),
        ("alpha", "Triad member"),
        ("beta", "Triad member"),
        ("charlie", "Triad member"),
        ("examiner", "Evaluator"),
        ("explorer", "Researcher"),
        ("sentinel", "Safety"),
        ("coder", "Developer"),
        ("dreamer", "Creative"),
        ("empath", "Emotional"),
        ("historian", "Historical"),
    ];
    let agent = |(name, role): (&str, &str)| AgentConfig {
        name: name.into(),
        role: role.into(),
        description: None,
        permissions: None,
        backend: None,
        signing: None,
        keys: Vec::new(),
    };
    agents.map(agent).to_vec()
}

settings! {
    /// The backend of an agent that the gateway runs. Exactly one of `run`, `model`, `target` and `openclaw` is set. Neither
    /// `Debug` nor the serialized form contains a secret.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct BackendConfig {
        /// A shell command that runs for each message and each proposal.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub run: Option<String>,
        /// The endpoint of a model.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model: Option<ModelConfig>,
        /// A target of a configuration of the plugin.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub target: Option<TargetConfig>,
        /// An agent of a local OpenClaw.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub openclaw: Option<OpenClawConfig>,
        /// The timeout of a reply or a vote, in milliseconds.
        pub timeout_ms: u64 = Self::TIMEOUT_MS,
        /// The maximum number of messages and proposals that the agent answers concurrently.
        pub concurrency: NonZeroUsize = Self::CONCURRENCY,
    }
}

/// The endpoint of a model with OpenAI's Chat Completions API.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelConfig {
    /// The URL of the endpoint.
    pub url: String,
    /// The model, as the endpoint names it.
    pub name: String,
    /// The file with the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_file: Option<PathBuf>,
    /// The API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Whether the host name may resolve to an address that is not public.
    #[serde(default)]
    pub allow_private_network: bool,
}

/// A target of the plugin.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetConfig {
    /// Its alias.
    pub alias: String,
    /// The configuration of the plugin with the target.
    pub config_file: PathBuf,
}

/// An agent of a local OpenClaw.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenClawConfig {
    /// Its name.
    pub agent: String,
    /// The URL of OpenClaw's gateway; `None` for the gateway of the OpenClaw on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The token of OpenClaw's gateway; `None` for that of the OpenClaw on this machine if no URL is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
}

impl BackendConfig {
    /// The default of [`timeout_ms`](Self::timeout_ms).
    pub const TIMEOUT_MS: u64 = 120_000;
    /// The default of [`concurrency`](Self::concurrency).
    pub const CONCURRENCY: NonZeroUsize = NonZeroUsize::new(4).unwrap();

    /// Returns the kinds of backends that are set; a valid configuration has one.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let named = [
            ("run", self.run.is_some()),
            ("model", self.model.is_some()),
            ("target", self.target.is_some()),
            ("openclaw", self.openclaw.is_some()),
        ];
        named
            .into_iter()
            .filter_map(|(kind, is_named)| is_named.then_some(kind))
    }

    /// Returns the files that the backend needs.
    fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let system = self
            .model
            .as_mut()
            .and_then(|model| model.system_file.as_mut());
        let target = self.target.as_mut().map(|target| &mut target.config_file);
        system.into_iter().chain(target)
    }
}

#[cfg(test)]
mod tests;
