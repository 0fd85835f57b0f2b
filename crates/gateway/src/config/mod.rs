//! The gateway's configuration.
//!
//! The schema is `schema/gateway.schema.json`; `check.rs` validates what the schema cannot express. Errors have a JSON
//! Pointer.

mod access;
mod agents;
mod backend;
mod check;
mod limits;
mod paths;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use http_server::tls::TlsFiles;
use serde::Deserialize;
use serde_json::Value;

pub use access::{AuthConfig, CertificateConfig, JwtAlgorithm, JwtConfig, KeyConfig, Permissions};
pub use agents::{AgentConfig, ServiceConfig, TriadConfig};
pub use backend::{BackendConfig, ModelConfig, OpenClawConfig, TargetConfig};
pub use limits::Limits;
pub use paths::default_state_dir;

use std::collections::BTreeMap;

use base::config::ConfigError;
use base::files::Fsync;
use base::json::{self, Limits as JsonLimits};
use base::validation;

/// The schema of the gateway's configuration, as shipped.
pub const SCHEMA: &str = include_str!("../../../../schema/gateway.schema.json");

/// The name of the audit log in the state directory.
const AUDIT: &str = "audit.jsonl";

/// The default port of a gateway (Heretek A2A §3.1).
pub const PORT: u16 = 18789;

/// The configuration of a gateway.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerConfig {
    /// The listen address. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The accepted values of the `Host` header, besides loopback addresses and the listen address.
    pub hosts: Vec<String>,
    /// The accepted origins of web pages, besides the gateway's own.
    pub origins: Vec<String>,
    /// The state directory. Sessions are in `agents/<name>/`.
    pub state_dir: PathBuf,
    /// When the gateway acknowledges a session entry.
    pub fsync: Fsync,
    /// The maximum time between a write and its sync with `fsync: interval`, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub fsync_interval_ms: u64,
    /// The time to live of a session after its last entry, in milliseconds; `None` means unlimited.
    #[serde(deserialize_with = "validation::optional_integer")]
    pub session_ttl_ms: Option<u64>,
    /// The agents that the gateway lists even before they connect.
    pub agents: Vec<AgentConfig>,
    /// The services that discovery lists and that clients may call with `request`.
    pub services: Vec<ServiceConfig>,
    /// The members and rules of the triad.
    pub triad: TriadConfig,
    /// Whether the gateway is strict. If so, clients must create a session before they use it (otherwise 4001), and the
    /// gateway rejects a message with another sender's name (5004) instead of correcting the name.
    pub strict: bool,
    /// Whether the proposer receives each vote.
    pub vote_visibility: bool,
    /// The accepted credentials; `None` accepts every client that can reach the port.
    pub auth: Option<AuthConfig>,
    /// The permissions of each role. Without roles, every client has all permissions.
    pub roles: BTreeMap<String, Permissions>,
    /// The limits of clients.
    pub limits: Limits,
    /// The interval of pings to a silent client, in milliseconds (Heretek A2A §3.2).
    #[serde(deserialize_with = "validation::integer")]
    pub heartbeat_ms: u64,
    /// TLS (`wss`); `None` means plain text.
    pub tls: Option<TlsFiles>,
    /// The audit log.
    pub audit: AuditConfig,
}

/// The audit log: sender, recipient, type and outcome of each message, without its content.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditConfig {
    /// Whether the gateway writes the audit log.
    pub enabled: bool,
    /// The path of the file; `None` means `audit.jsonl` in the state directory.
    pub path: Option<PathBuf>,
    /// The size at which the file is rotated, in bytes.
    #[serde(deserialize_with = "validation::integer")]
    pub max_bytes: u64,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            path: None,
            max_bytes: 10 << 20,
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, PORT).into(),
            hosts: Vec::new(),
            origins: Vec::new(),
            state_dir: default_state_dir(|name| std::env::var_os(name)),
            fsync: Fsync::Always,
            fsync_interval_ms: 100,
            session_ttl_ms: None,
            agents: agents::collective(),
            services: Vec::new(),
            triad: TriadConfig::default(),
            strict: false,
            vote_visibility: true,
            auth: None,
            roles: BTreeMap::new(),
            limits: Limits::default(),
            heartbeat_ms: 30_000,
            tls: None,
            audit: AuditConfig::default(),
        }
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
        paths::resolve(&mut config, path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// Parses a configuration without reading files. Missing settings have the values of [`Default`].
    ///
    /// # Errors
    /// The first problem, with its JSON Pointer.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        let value: Value = json::from_str(json, JsonLimits::NONE)
            .map_err(|e| ConfigError::at("", format!("the configuration is not JSON: {e}")))?;
        let validator = validation::compile(SCHEMA).map_err(|e| ConfigError::at("", e))?;
        if let Some(error) = validator.iter_errors(&value).next() {
            let (place, message) = validation::sentence(&error);
            return Err(ConfigError::at(place, message));
        }
        check::check_raw(&value)?;
        let config = serde_json::from_value(value)
            .map_err(|e| ConfigError::at("", format!("cannot read the configuration: {e}")))?;
        check::check(config)
    }

    /// Returns the path of the audit log.
    pub fn audit_path(&self) -> PathBuf {
        let own = || self.state_dir.join(AUDIT);
        self.audit.path.clone().unwrap_or_else(own)
    }
}

#[cfg(test)]
mod tests;
