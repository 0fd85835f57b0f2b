//! The gateway's configuration: its type, its schema, its defaults, and errors that name their place.
//!
//! `schema/gateway.schema.json` is the one description; what it cannot say is in `check.rs`.

mod access;
mod agents;
mod check;
mod limits;
mod paths;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

pub use access::{AuthConfig, CertificateConfig, JwtAlgorithm, JwtConfig, KeyConfig, Permissions};
pub use agents::{AgentConfig, ServiceConfig, TriadConfig};
pub use limits::Limits;
pub use paths::default_state_dir;

use std::collections::BTreeMap;

use common::config::ConfigError;
use common::validation;

/// The schema of the gateway's configuration, as shipped.
pub const SCHEMA: &str = include_str!("../../../../schema/gateway.schema.json");

/// The file of the audit log in the state directory.
const AUDIT: &str = "audit.jsonl";

/// The port of a gateway (000 §3.1).
pub const PORT: u16 = 18789;

/// How a gateway is set up.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerConfig {
    /// Where it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names that it answers to, beside loopback and the address it listens on.
    pub hosts: Vec<String>,
    /// Origins of web pages that may connect, beside its own.
    pub origins: Vec<String>,
    /// Where its state is kept: sessions, in `agents/<name>/`.
    pub state_dir: PathBuf,
    /// When a session entry counts as kept.
    pub fsync: Fsync,
    /// How long an entry may wait for the disk with `fsync: interval`, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub fsync_interval_ms: u64,
    /// How long after its last entry a session expires, in milliseconds. Without it, none does.
    #[serde(deserialize_with = "validation::optional_whole")]
    pub session_ttl_ms: Option<u64>,
    /// The agents that are known before they connect.
    pub agents: Vec<AgentConfig>,
    /// The services that discovery lists and `request` reaches.
    pub services: Vec<ServiceConfig>,
    /// Who votes.
    pub triad: TriadConfig,
    /// Sessions have to be made before they are used (else 4001), and a message that says it is from somebody else is
    /// refused (5004) instead of corrected.
    pub strict: bool,
    /// Each vote is passed on to who asked.
    pub vote_visibility: bool,
    /// Who may connect. Without it, everybody who can reach the port.
    pub auth: Option<AuthConfig>,
    /// What each role may do. Without any, whoever may connect may do everything.
    pub roles: BTreeMap<String, Permissions>,
    /// How much clients can make the gateway hold and do.
    pub limits: Limits,
    /// How often a silent client is asked whether it is there, in milliseconds (000 §3.2).
    #[serde(deserialize_with = "validation::whole")]
    pub heartbeat_ms: u64,
    /// Connections are TLS (`wss`).
    pub tls: Option<TlsConfig>,
    /// The audit log.
    pub audit: AuditConfig,
}

/// When the gateway acknowledges a session entry. It always writes the entry first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// After a sync to disk: the entry survives a power failure.
    #[default]
    Always,
    /// After the write; a sync follows within `fsyncIntervalMs`.
    Interval,
    /// After the write.
    Never,
}

/// The files that secure connections, all PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsConfig {
    /// The gateway's certificate chain.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// The authorities of clients' certificates. With it, clients must show one.
    pub client_ca_file: Option<PathBuf>,
}

/// The audit log: who sent what type of message to whom, and what came of it; never what was said.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditConfig {
    /// Whether it is written.
    pub enabled: bool,
    /// The file it is written to. Without it, one in the state directory.
    pub path: Option<PathBuf>,
    /// How large the file may grow before it is put aside and a new one begun, in bytes.
    #[serde(deserialize_with = "validation::whole")]
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
            fsync: Fsync::default(),
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
    /// Reads the configuration in the file at `path`. Relative paths in it begin at its folder.
    ///
    /// # Errors
    /// The file cannot be read, or the first thing that is wrong in it, with its place.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|e| {
            let message = format!("the configuration `{}` cannot be read: {e}", path.display());
            ConfigError::at("", message)
        })?;
        let mut config = Self::parse(&text)?;
        paths::resolve(&mut config, path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// Reads a configuration. What it leaves out is as in [`Default`]; the files it names are not looked at.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        let value: Value = serde_json::from_str(json)
            .map_err(|e| ConfigError::at("", format!("the configuration is not JSON: {e}")))?;
        let validator = validation::compile(SCHEMA).map_err(|e| ConfigError::at("", e))?;
        if let Some(wrong) = validator.iter_errors(&value).next() {
            let (place, message) = validation::sentence(&wrong);
            return Err(ConfigError::at(place, message));
        }
        check::written(&value)?;
        let config = serde_json::from_value(value)
            .map_err(|e| ConfigError::at("", format!("the configuration cannot be read: {e}")))?;
        check::check(config)
    }

    /// The file of the audit log.
    pub fn audit_path(&self) -> PathBuf {
        let own = || self.state_dir.join(AUDIT);
        self.audit.path.clone().unwrap_or_else(own)
    }
}

#[cfg(test)]
mod tests;
