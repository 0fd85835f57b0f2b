//! The server's configuration: type, schema, defaults, and errors that contain a JSON Pointer.
//!
//! `schema/serve.schema.json` describes it; `check.rs` checks what a schema cannot express.

mod check;
mod limits;
mod openclaw;
mod place;

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use a2a_server::store::{Fsync, Retention};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

pub use limits::ServeLimits;
pub use place::default_state_dir;

use super::executor::{Local, Thinking};
use common::config::{ConfigError, Secret, SecretMap};
use common::validation;

/// The schema of the server's configuration, as shipped.
pub const SCHEMA: &str = include_str!("../../../schema/serve.schema.json");

/// The port of a server.
pub const PORT: u16 = 9000;

/// The configuration of a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServeConfig {
    /// The listen address. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The public URL.
    #[serde(deserialize_with = "url")]
    pub public_url: Option<Url>,
    /// Accepted host names besides loopback, the listen address and that of `public_url`.
    pub hosts: Vec<String>,
    /// The name in agent cards.
    pub name: String,
    /// The description in agent cards.
    pub description: String,
    /// The documentation URL in agent cards.
    #[serde(deserialize_with = "url")]
    pub documentation_url: Option<Url>,
    /// TLS; `None` means plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Whether a proxy forwards requests.
    pub behind_proxy: bool,
    /// The proxies, besides loopback.
    pub trusted_proxies: Vec<String>,
    /// The clients, besides those of the state directory's `clients.json`.
    pub clients: Vec<ClientConfig>,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The executor.
    pub executor: ExecutorKind,
    /// The gateway of the executor.
    pub gateway: GatewayConfig,
    /// The agents that clients may call. Empty allows all.
    pub agents: Vec<String>,
    /// The session of messages without a context.
    pub session_id: Option<String>,
    /// The agent of messages that name none.
    pub agent_id: Option<String>,
    /// The thinking level of a turn. The default is `low` with OpenClaw's command if the model supports it, else
    /// OpenClaw's own.
    #[serde(deserialize_with = "thinking")]
    pub thinking: Option<Thinking>,
    /// The timeout of a turn, in seconds.
    #[serde(deserialize_with = "validation::whole")]
    pub timeout: u64,
    /// The command `openclaw`.
    pub openclaw_path: PathBuf,
    /// The working directory of the command.
    pub working_directory: Option<PathBuf>,
    /// Additional environment variables of the command.
    pub env_vars: SecretMap,
    /// Names of the server's variables that the command also receives.
    pub pass_env: Vec<String>,
    /// Whether the command runs turns itself.
    pub local: Local,
    /// Whether a request of 0.3 without `blocking` returns the task at once.
    pub async_mode: bool,
    /// The task store, in the form of [`TaskStoreKind`].
    pub task_store: Option<Secret>,
    /// When the store acknowledges a change of a task.
    pub fsync: FsyncMode,
    /// The retention of finished tasks.
    pub retention: RetentionConfig,
    /// The webhooks that clients may register.
    pub push: PushConfig,
    /// The limits of clients.
    pub limits: ServeLimits,
}

/// The TLS files, both PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// A client. The configuration contains only the digest of its token.
#[derive(Clone, Deserialize, serde::Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// Its name.
    pub name: String,
    /// The SHA-256 of its token, in hexadecimal digits.
    pub sha256: String,
    /// Whether it may see and cancel the tasks of all clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operator: bool,
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConfig")
            .field("name", &self.name)
            .field("sha256", &"[redacted]")
            .field("operator", &self.operator)
            .finish()
    }
}

/// An executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorKind {
    /// The agents behind OpenClaw's gateway.
    #[default]
    Gateway,
    /// The command `openclaw agent`.
    Command,
    /// A scripted executor.
    Scripted,
}

impl ExecutorKind {
    /// Returns its name in a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Command => "command",
            Self::Scripted => "scripted",
        }
    }
}

/// The address of the gateway and the credential for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayConfig {
    /// Its URL, ws or wss; `None` is the gateway of this machine's OpenClaw.
    pub url: Option<String>,
    /// Its shared token.
    pub token: Option<Secret>,
    /// Whether it may be on another machine.
    pub allow_remote: bool,
    /// The certificate authority of its certificate.
    pub ca_file: Option<PathBuf>,
    /// The timeout of connecting, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub timeout_ms: u64,
}

impl GatewayConfig {
    /// Returns the URL, or OpenClaw's default.
    pub fn url(&self) -> &str {
        self.url.as_deref().unwrap_or(openclaw::DEFAULT_URL)
    }
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            url: None,
            token: None,
            allow_remote: false,
            ca_file: None,
            timeout_ms: 30_000,
        }
    }
}

/// When a change is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsyncMode {
    /// After a sync to disk.
    Always,
    /// Within a second.
    #[default]
    Interval,
    /// When the operating system writes it.
    Never,
}

/// The retention of finished tasks.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct RetentionConfig {
    /// How long they are kept, in seconds.
    #[serde(deserialize_with = "validation::whole")]
    pub age: u64,
    /// The maximum number per client.
    #[serde(deserialize_with = "validation::whole_size")]
    pub count: usize,
    /// How long a task waits for an answer of its client, in seconds.
    #[serde(deserialize_with = "validation::whole")]
    pub unanswered: u64,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            age: 7 * 24 * 3600,
            count: 10_000,
            unanswered: 7 * 24 * 3600,
        }
    }
}

/// The webhooks that clients may register.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// The allowed URLs and everything below them. Empty allows all public HTTPS URLs.
    #[serde(deserialize_with = "urls")]
    pub allowed_urls: Vec<Url>,
    /// Whether any address is allowed.
    pub allow_any_address: bool,
}

/// A kind of task store.
#[derive(Debug, Clone)]
pub enum TaskStoreKind {
    /// In memory.
    Memory,
    /// In a directory.
    Directory(PathBuf),
    /// In Redis. The address may contain a password.
    Redis(SecretString),
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, PORT).into(),
            public_url: None,
            hosts: Vec::new(),
            name: "OpenClaw".into(),
            description: "Agents of an OpenClaw, over A2A.".into(),
            documentation_url: None,
            tls: None,
            behind_proxy: false,
            trusted_proxies: Vec::new(),
            clients: Vec::new(),
            state_dir: default_state_dir(|name| std::env::var_os(name)),
            executor: ExecutorKind::default(),
            gateway: GatewayConfig::default(),
            agents: Vec::new(),
            session_id: None,
            agent_id: None,
            thinking: None,
            timeout: 300,
            openclaw_path: "openclaw".into(),
            working_directory: None,
            env_vars: SecretMap::default(),
            pass_env: Vec::new(),
            local: Local::default(),
            async_mode: true,
            task_store: None,
            fsync: FsyncMode::default(),
            retention: RetentionConfig::default(),
            push: PushConfig::default(),
            limits: ServeLimits::default(),
        }
    }
}

impl ServeConfig {
    /// Reads the configuration in the optional file at `path`, overridden by `over` key by key. Relative paths in the
    /// file are relative to its directory.
    ///
    /// # Errors
    /// The file cannot be read, or contains a fault. The error contains its place.
    pub fn read(path: Option<&Path>, over: Value) -> Result<Self, ConfigError> {
        let mut config = match path {
            None => Value::Object(serde_json::Map::new()),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|e| {
                    let message = format!("cannot read the file: {e}");
                    ConfigError::at("", message)
                })?;
                value(&text)?
            }
        };
        // Faults of the file are reported before those of the combination.
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        Self::from_value(config.clone(), folder)?;
        place::put_over(&mut config, over);
        Self::from_value(config, folder)
    }

    /// Parses a configuration. Missing settings are those of [`Default`]. [`check`](Self::check) checks combinations.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        Self::from_value(value(json)?, Path::new(""))
    }

    fn from_value(value: Value, folder: &Path) -> Result<Self, ConfigError> {
        let validator = validation::compile(SCHEMA).map_err(|e| ConfigError::at("", e))?;
        if let Some(wrong) = validator.iter_errors(&value).next() {
            return Err(check::from_schema(&wrong));
        }
        check::written(&value)?;
        let mut config: Self = serde_json::from_value(value)
            .map_err(|e| ConfigError::at("", format!("the configuration cannot be read: {e}")))?;
        place::resolve(&mut config, folder);
        Ok(config)
    }

    /// Completes the gateway with the port and the token of OpenClaw's configuration, if the executor needs a gateway and
    /// no URL is set. `variable` looks up the environment.
    ///
    /// # Errors
    /// OpenClaw's configuration cannot be read.
    pub fn complete_gateway(
        &mut self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), ConfigError> {
        match self.executor {
            ExecutorKind::Gateway => openclaw::complete(&mut self.gateway, variable),
            ExecutorKind::Command | ExecutorKind::Scripted => Ok(()),
        }
    }

    /// Checks combinations of settings. `clients` are all clients.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn check(&self, clients: &[ClientConfig]) -> Result<(), ConfigError> {
        check::check(self, clients)
    }

    /// Returns the task store. `variable` looks up an environment variable.
    ///
    /// # Errors
    /// The variable of a SecretRef is not set.
    pub fn store(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<TaskStoreKind, ConfigError> {
        let Some(word) = &self.task_store else {
            return Ok(TaskStoreKind::Directory(self.state_dir.join("tasks")));
        };
        place::store(word, variable)
    }

    /// Returns the gateway's token. `variable` looks up the environment.
    ///
    /// # Errors
    /// The variable of a SecretRef is not set.
    pub fn gateway_token(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SecretString>, ConfigError> {
        let token = self.gateway.token.as_ref();
        token
            .map(|token| place::secret(token, "/gateway/token", variable))
            .transpose()
    }

    /// Returns when the store acknowledges a change of a task.
    pub fn fsync(&self) -> Fsync {
        match self.fsync {
            FsyncMode::Always => Fsync::Always,
            FsyncMode::Interval => Fsync::Interval,
            FsyncMode::Never => Fsync::Never,
        }
    }

    /// Returns the retention of finished tasks.
    pub fn retention(&self) -> Retention {
        Retention {
            age: Duration::from_secs(self.retention.age),
            count: self.retention.count,
        }
    }
}

fn url<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| Url::parse(&text).map_err(serde::de::Error::custom))
        .transpose()
}

fn urls<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Url>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let all = texts.iter().map(|text| Url::parse(text));
    all.collect::<Result<_, _>>()
        .map_err(serde::de::Error::custom)
}

fn value(json: &str) -> Result<Value, ConfigError> {
    serde_json::from_str(json)
        .map_err(|e| ConfigError::at("", format!("the configuration is not JSON: {e}")))
}

fn thinking<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Thinking>, D::Error> {
    let word = String::deserialize(deserializer)?;
    word.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests;
