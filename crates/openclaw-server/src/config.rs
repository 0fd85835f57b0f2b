//! The server's configuration: its type, its schema, its defaults, and errors that name their place.
//!
//! `schema/serve.schema.json` is the one description; what it cannot say is in `check.rs`.

mod check;
mod limits;
mod place;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use a2a_server::store::{Fsync, Retention};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

pub use limits::Limits;
pub use place::default_state_dir;

use super::executor::{Local, Thinking};
use common::config::{ConfigError, Secret, SecretMap};
use common::validation;

/// The schema of the server's configuration, as shipped.
pub const SCHEMA: &str = include_str!("../../../schema/serve.schema.json");

/// The port of a server.
pub const PORT: u16 = 9000;

/// How a server is set up.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServeConfig {
    /// Where it listens. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where others reach it.
    #[serde(deserialize_with = "url")]
    pub public_url: Option<Url>,
    /// Names it answers to beside loopback, its address and that of `public_url`.
    pub hosts: Vec<String>,
    /// What cards call it.
    pub name: String,
    /// What cards say it is.
    pub description: String,
    /// Where there is more to read.
    #[serde(deserialize_with = "url")]
    pub documentation_url: Option<Url>,
    /// Connections are TLS.
    pub tls: Option<TlsFiles>,
    /// A proxy passes requests on.
    pub behind_proxy: bool,
    /// Where the proxy is, beside loopback.
    pub trusted_proxies: Vec<String>,
    /// Who may ask, beside those of the state directory's `clients.json`.
    pub clients: Vec<ClientConfig>,
    /// Where state is kept.
    pub state_dir: PathBuf,
    /// Who does the work.
    pub executor: ExecutorWord,
    /// How the gateway is reached.
    pub gateway: GatewayConfig,
    /// The agents that may be asked; all where there are none.
    pub agents: Vec<String>,
    /// The session of messages that name no context.
    pub session_id: Option<String>,
    /// The agent that is asked where a message names none.
    pub agent_id: Option<String>,
    /// How hard a turn thinks. Without it, a little where OpenClaw's command is run and the model can, and as OpenClaw is
    /// configured behind its gateway.
    #[serde(deserialize_with = "thinking")]
    pub thinking: Option<Thinking>,
    /// How long a turn may take, in seconds.
    #[serde(deserialize_with = "validation::whole")]
    pub timeout: u64,
    /// The command `openclaw`.
    pub openclaw_path: PathBuf,
    /// Where the command is run.
    pub working_directory: Option<PathBuf>,
    /// Variables of the command beside those that it gets of the server's.
    pub env_vars: SecretMap,
    /// Names of variables of the server's that the command gets too.
    pub pass_env: Vec<String>,
    /// Whether the command runs turns itself.
    pub local: Local,
    /// A request of 0.3 that does not say `blocking` is answered with the task at once.
    pub async_mode: bool,
    /// Where tasks are kept, in words; see [`TaskStoreKind`].
    pub task_store: Option<Secret>,
    /// When a change of a task counts as kept.
    pub fsync: FsyncWord,
    /// How long settled tasks are kept.
    pub retention: RetentionConfig,
    /// Which webhooks clients may register.
    pub push: PushConfig,
    /// How much clients can make the server hold and do.
    pub limits: Limits,
}

/// The files that secure connections, both PEM.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// Who may ask. The configuration knows the digest of a token alone.
#[derive(Clone, Deserialize, serde::Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// Its name.
    pub name: String,
    /// The SHA-256 of its token, in hexadecimal digits.
    pub sha256: String,
    /// It may see and end the tasks of all.
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

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutorWord {
    /// The agents behind OpenClaw's gateway.
    #[default]
    Gateway,
    /// The command `openclaw agent`.
    Command,
    /// A script.
    Scripted,
}

impl ExecutorWord {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Command => "command",
            Self::Scripted => "scripted",
        }
    }
}

/// How the gateway is reached.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayConfig {
    /// Its address, ws or wss.
    pub url: String,
    /// Its shared token.
    pub token: Option<Secret>,
    /// It may be on another machine.
    pub allow_remote: bool,
    /// Whom to trust for it.
    pub ca_file: Option<PathBuf>,
    /// How long connecting may take, in milliseconds.
    #[serde(deserialize_with = "validation::whole")]
    pub timeout_ms: u64,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            url: "ws://127.0.0.1:18789".into(),
            token: None,
            allow_remote: false,
            ca_file: None,
            timeout_ms: 30_000,
        }
    }
}

/// The words of `fsync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FsyncWord {
    /// On the disk before it is acknowledged.
    Always,
    /// On the disk within a second.
    #[default]
    Interval,
    /// With the operating system.
    Never,
}

/// How long settled tasks are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
pub struct RetentionConfig {
    /// For so long, in seconds.
    #[serde(deserialize_with = "validation::whole")]
    pub age: u64,
    /// At most so many of each client.
    #[serde(deserialize_with = "validation::whole_size")]
    pub count: usize,
    /// How long a task waits for its client, in seconds.
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

/// Which webhooks clients may register.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// Only these and what is below them.
    #[serde(deserialize_with = "urls")]
    pub allowed_urls: Vec<Url>,
    /// Any address at all.
    pub allow_any_address: bool,
}

/// Where tasks are kept.
#[derive(Debug, Clone)]
pub enum TaskStoreKind {
    /// In memory.
    Memory,
    /// In a directory.
    Directory(PathBuf),
    /// In a Redis. The address may hold a password.
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
            executor: ExecutorWord::default(),
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
            fsync: FsyncWord::default(),
            retention: RetentionConfig::default(),
            push: PushConfig::default(),
            limits: Limits::default(),
        }
    }
}

impl ServeConfig {
    /// Reads the configuration in the file at `path`, if there is one, with `over` put over it key by key. Relative paths in
    /// the file begin at its folder.
    ///
    /// # Errors
    /// The file cannot be read, or the first thing that is wrong, with its place.
    pub fn read(path: Option<&Path>, over: Value) -> Result<Self, ConfigError> {
        let mut config = match path {
            None => Value::Object(serde_json::Map::new()),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|e| {
                    let message = format!("the file cannot be read: {e}");
                    ConfigError::at("", message)
                })?;
                value(&text)?
            }
        };
        // What is wrong in the file is said of the file.
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        Self::of(config.clone(), folder)?;
        place::put_over(&mut config, over);
        Self::of(config, folder)
    }

    /// Reads a configuration. What it leaves out is as in [`Default`]. Whether its parts go together says
    /// [`check`](Self::check).
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        Self::of(value(json)?, Path::new(""))
    }

    fn of(value: Value, folder: &Path) -> Result<Self, ConfigError> {
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

    /// Checks what goes together, `clients` being all there are.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn check(&self, clients: &[ClientConfig]) -> Result<(), ConfigError> {
        check::check(self, clients)
    }

    /// Where tasks are kept. `variable` looks up the environment.
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

    /// The gateway's token. `variable` looks up the environment.
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

    /// When a change of a task counts as kept.
    pub fn fsync(&self) -> Fsync {
        match self.fsync {
            FsyncWord::Always => Fsync::Always,
            FsyncWord::Interval => Fsync::Interval,
            FsyncWord::Never => Fsync::Never,
        }
    }

    /// How long settled tasks are kept.
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
