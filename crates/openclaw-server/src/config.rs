//! The configuration of the server: type, schema, defaults, and errors with a JSON Pointer.
//!
//! `schema/serve.schema.json` is the schema; `check.rs` checks the rules that a schema cannot express.

mod check;
mod openclaw;

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::check::{default_state_dir, names_directory};
pub use self::openclaw::local_gateway;
use a2a_server::http::DEFAULT_KEEP_ALIVE;
use a2a_server::http::clients::{Proof, TokenDigest};
use a2a_server::settings::{ServiceLimits, WhileWorking};
use a2a_server::store::Retention;
use base::config::{ConfigError, Secret, SecretMap, millis};
use base::files::Fsync;
use base::{config, named, settings};
use http_server::request_limit::HttpLimits;
use http_server::serve::ConnectionConfig;
use http_server::tls::TlsFiles;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use super::executor::{RunMode, Thinking};

/// The JSON Schema of the configuration.
pub const SCHEMA: &str = include_str!("../../../schema/serve.schema.json");

/// The default port of the server.
pub const PORT: u16 = 9000;

settings! {
    /// The configuration of a server.
    #[derive(Debug, Clone, Deserialize)]
    pub struct ServeConfig {
        /// The listen address. With port 0, the operating system selects a free port.
        pub listen: SocketAddr = (Ipv4Addr::LOCALHOST, PORT).into(),
        /// The public URL, if clients use another one than the listen address.
        pub public_url: Option<Url>,
        /// The accepted host names, in addition to loopback, the listen address and the host of `public_url`.
        pub hosts: Vec<String>,
        /// The name in agent cards.
        pub name: String = "OpenClaw".into(),
        /// The description in agent cards.
        pub description: String = "Agents of an OpenClaw, over A2A.".into(),
        /// The documentation URL in agent cards.
        pub documentation_url: Option<Url>,
        /// The TLS files; `None` for plain HTTP.
        pub tls: Option<TlsFiles>,
        /// The files with the private keys that sign agent cards, the present one first.
        pub signing_keys: Vec<PathBuf>,
        /// Whether the server is behind a proxy.
        pub behind_proxy: bool,
        /// The addresses of trusted proxies, in addition to loopback.
        pub trusted_proxies: Vec<String>,
        /// The clients, in addition to those in `clients.json` of the state directory.
        pub clients: Vec<ClientConfig>,
        /// The state directory.
        pub state_dir: PathBuf = default_state_dir(|name| std::env::var_os(name)),
        /// The executor.
        pub executor: ExecutorKind,
        /// The gateway that the executor uses.
        pub gateway: GatewayConfig,
        /// The agents that clients may call. An empty list allows all agents.
        pub agents: Vec<String>,
        /// The session of messages without a context.
        pub session_id: Option<String>,
        /// The agent of messages that name none.
        pub agent_id: Option<String>,
        /// The thinking level of a turn. The default with the command is `low` if the model supports it; otherwise OpenClaw
        /// selects the level.
        pub thinking: Option<Thinking>,
        /// The timeout of a turn, in seconds.
        pub timeout: u64 = 300,
        /// How long running tasks may take to end when the server stops, in seconds.
        pub drain: u64 = 5,
        /// The path or the name of the command `openclaw`.
        pub openclaw_path: PathBuf = "openclaw".into(),
        /// The working directory of the command.
        pub working_directory: Option<PathBuf>,
        /// Additional environment variables of the command.
        pub env_vars: SecretMap,
        /// The names of additional variables of the server's environment that the command receives.
        pub pass_env: Vec<String>,
        /// Whether the command runs turns in its own process.
        pub local: RunMode,
        /// Whether a 0.3 request without `blocking` receives the task at once.
        pub async_mode: bool = true,
        /// What the server does with a message for a task that is working.
        pub while_working: WhileWorking = WhileWorking::Refuse,
        /// The task store in the configuration's format, see [`TaskStoreKind`].
        pub task_store: Option<Secret>,
        /// When the store writes a change of a task to the disk.
        pub fsync: Fsync = Fsync::Interval,
        /// How long the server keeps terminal tasks.
        pub retention: RetentionConfig,
        /// The webhooks that clients may register.
        pub push: PushConfig,
        /// The limits of clients.
        pub limits: ServeLimits,
    }
}

/// A client, with one way to prove who it is. The configuration contains only the digest of a token.
#[derive(Clone, Default, Deserialize, serde::Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// The name of the client.
    pub name: String,
    /// The SHA-256 of the client's token, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The SHA-256 of the client's certificate in DER, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_sha256: Option<String>,
    /// The issuer of the client's JSON Web Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Url>,
    /// The audience of these tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Claims that these tokens have.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub claims: Map<String, Value>,
    /// Whether the client may see and cancel the tasks of all clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operator: bool,
}

impl ClientConfig {
    /// Returns the proof; `None` unless there is exactly one that is valid.
    pub fn proof(&self) -> Option<Proof> {
        let token = self.sha256.as_deref().and_then(TokenDigest::parse);
        let certificate = self.certificate_sha256.as_deref();
        let certificate = certificate.and_then(TokenDigest::parse);
        match (token, certificate, &self.issuer, &self.audience) {
            (Some(token), None, None, None) => Some(Proof::Token(token)),
            (None, Some(certificate), None, None) => Some(Proof::Certificate(certificate)),
            (None, None, Some(issuer), Some(audience)) => Some(Proof::Issued {
                issuer: issuer.as_str().trim_end_matches('/').to_owned(),
                audience: audience.clone(),
                claims: self.claims.clone(),
            }),
            _ => None,
        }
    }
}

base::debug_fields!(self: ClientConfig { name, operator });

named! {
    /// The kind of an executor.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ExecutorKind {
        /// The agents behind OpenClaw's gateway.
        #[default]
        Gateway = "gateway",
        /// The command `openclaw agent`.
        Command = "command",
        /// A scripted executor.
        Scripted = "scripted",
    }
}

settings! {
    /// The address and the credentials of the gateway.
    #[derive(Debug, Clone, Deserialize)]
    pub struct GatewayConfig {
        /// The URL with the scheme ws or wss; `None` for the gateway of the OpenClaw on this machine.
        pub url: Option<String>,
        /// The shared token of the gateway.
        pub token: Option<Secret>,
        /// Whether the gateway may be on another machine.
        pub allow_remote: bool,
        /// The file with the certificate authority of the gateway's certificate.
        pub ca_file: Option<PathBuf>,
        /// The timeout of a connection attempt, in milliseconds.
        pub timeout_ms: u64 = 30_000,
    }
}

impl GatewayConfig {
    /// Returns the URL, or the default URL of an OpenClaw gateway.
    pub fn url(&self) -> Cow<'_, str> {
        let configured = self.url.as_deref().map(Cow::from);
        configured.unwrap_or_else(|| openclaw::default_url().into())
    }
}

settings! {
    /// How long the server keeps terminal tasks.
    #[derive(Debug, Clone, Deserialize)]
    pub struct RetentionConfig {
        /// The maximum time since their last change, in seconds.
        pub age: u64 = 7 * 24 * 3600,
        /// The maximum number of terminal tasks of one client.
        pub count: usize = 10_000,
        /// How long an interrupted task waits for its client, in seconds.
        pub unanswered: u64 = 7 * 24 * 3600,
    }
}

/// The webhooks that clients may register.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// The allowed URLs, including all URLs below them. An empty list allows all public HTTPS URLs.
    pub allowed_urls: Vec<Url>,
    /// Whether all addresses are allowed.
    pub allow_any_address: bool,
}

/// The kind of a task store.
#[derive(Debug, Clone)]
pub enum TaskStoreKind {
    /// A store in memory.
    Memory,
    /// An SQLite database in this directory.
    Directory(PathBuf),
    /// A store in Redis at this address, which may contain a password.
    Redis(SecretString),
}

impl ServeConfig {
    /// Reads the optional configuration file at `path`. Members of `over` replace those of the file. Relative paths in
    /// the file are relative to its directory.
    ///
    /// # Errors
    /// The file cannot be read or is invalid. The error contains the location.
    pub fn read(path: Option<&Path>, over: Value) -> Result<Self, ConfigError> {
        let mut config = match path {
            None => Value::Object(serde_json::Map::new()),
            Some(path) => {
                // It may be a pipe, as a shell passes for `<(…)`.
                let text = fs::read_to_string(path).map_err(|e| {
                    let message = format!("cannot read the file: {e}");
                    ConfigError::at("", message)
                })?;
                config::parse_json(&text)?
            }
        };
        // Parse the file alone first, so that its errors precede those of the combination.
        let folder = path.and_then(Path::parent).unwrap_or(Path::new(""));
        Self::from_value(config.clone(), folder)?;
        check::merge(&mut config, over);
        Self::from_value(config, folder)
    }

    /// Parses a configuration. Missing settings have the values of [`Default`]. [`check`](Self::check) checks
    /// combinations of settings.
    ///
    /// # Errors
    /// The first invalid setting, with its location.
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        Self::from_value(config::parse_json(json)?, Path::new(""))
    }

    fn from_value(value: Value, folder: &Path) -> Result<Self, ConfigError> {
        let form = "must be a string that is not empty, or a SecretRef `{\"source\": \"env\", \"id\": VARIABLE}`";
        let mut config: Self = config::parse(value, SCHEMA, Some(form), check::check_raw)?;
        check::resolve_paths(&mut config, folder)?;
        Ok(config)
    }

    /// Sets the URL and the token of the gateway from OpenClaw's configuration, if the executor needs a gateway and no
    /// URL is configured. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// OpenClaw's configuration cannot be read, or its gateway accepts no token that this process knows.
    pub fn complete_gateway(
        &mut self,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), ConfigError> {
        match self.executor {
            ExecutorKind::Gateway => openclaw::complete(&mut self.gateway, variable),
            ExecutorKind::Command | ExecutorKind::Scripted => Ok(()),
        }
    }

    /// Checks combinations of settings. `clients` are the clients of the configuration and of the client file.
    ///
    /// # Errors
    /// The first invalid combination, with its location.
    pub fn check(&self, clients: &[ClientConfig]) -> Result<(), ConfigError> {
        check::check(self, clients)
    }

    /// Returns the task store. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// The variable of a SecretRef is not set.
    pub fn store(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<TaskStoreKind, ConfigError> {
        let Some(task_store) = &self.task_store else {
            return Ok(TaskStoreKind::Directory(self.state_dir.join("tasks")));
        };
        check::resolve_task_store(task_store, variable)
    }

    /// Returns the token of the gateway. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// The variable of a SecretRef is not set.
    pub fn gateway_token(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<SecretString>, ConfigError> {
        let token = self.gateway.token.as_ref();
        token
            .map(|token| check::secret(token, "/gateway/token", variable))
            .transpose()
    }

    /// Returns how long the server keeps terminal tasks.
    pub fn retention(&self) -> Retention {
        Retention {
            age: Duration::from_secs(self.retention.age),
            count: self.retention.count,
        }
    }
}

/// By default, one client or address may use this fraction of a limit: a quarter.
const DEFAULT_SHARE_DIVISOR: usize = 4;

settings! {
    /// The limits of the server and its clients.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct ServeLimits {
        /// The limits of requests and responses, without the share of one client in the bodies.
        #[serde(flatten)]
        http: HttpLimits,
        /// The limits of connections, without the share of one address.
        #[serde(flatten)]
        connections: ConnectionConfig,
        /// The limits of tasks.
        #[serde(flatten)]
        pub tasks: ServiceLimits,
        /// The maximum number of connections of one address. The default is a quarter of `connections`.
        connections_per_address: Option<usize>,
        /// The share of one client in `total_body_bytes`. The default is a quarter of it, and at least `body_bytes`.
        body_bytes_per_client: Option<usize>,
        /// How long a stream is silent before the server sends a comment.
        #[serde(rename = "keepAliveMs", deserialize_with = "millis")]
        pub keep_alive: Duration = DEFAULT_KEEP_ALIVE,
    }
}

impl ServeLimits {
    /// Returns the limits of requests and responses.
    pub fn http(&self) -> HttpLimits {
        let quarter = self.http.total_body_bytes / DEFAULT_SHARE_DIVISOR;
        let share = self.body_bytes_per_client;
        // Each open request has a connection. Clients behind one address leave each other a quarter.
        let connections = self.connections().per_address;
        let open_requests = (connections - connections / DEFAULT_SHARE_DIVISOR).max(1);
        HttpLimits {
            open_requests: self.http.open_requests.min(open_requests),
            body_bytes_per_client: share.unwrap_or_else(|| quarter.max(self.http.body_bytes)),
            ..self.http
        }
    }

    /// Returns the limits of connections.
    pub fn connections(&self) -> ConnectionConfig {
        let quarter = self.connections.total.div_ceil(DEFAULT_SHARE_DIVISOR);
        ConnectionConfig {
            per_address: self.connections_per_address.unwrap_or(quarter),
            ..self.connections.clone()
        }
    }
}

#[cfg(test)]
mod tests;
