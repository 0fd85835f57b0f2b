//! The flags of a server. They override the configuration file.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use serde_json::{Map, Value, json};

use super::overrides::{ConfigOverrides, command, env_reference_to, pairs, path, store_location};
use crate::exit::Failure;
use openclaw_server::config::{ExecutorKind, ServeConfig, default_state_dir};

/// The default name of the configuration file, in the state directory.
const CONFIG: &str = "serve.json";

/// The files of a server.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Files")]
pub(super) struct FileArgs {
    /// Read the configuration from this file [default: serve.json in the state directory, where there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Keep tasks, clients and other state in this directory [default: that of the configuration, else openclaw-remote-agent/serve in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

impl FileArgs {
    /// Reads the configuration file, without other flags.
    ///
    /// # Errors
    /// The named file cannot be read, or the configuration is invalid.
    pub(super) fn read(&self) -> Result<ServeConfig, Failure> {
        self.read_with(Map::new())
    }

    fn read_with(&self, mut overrides: Map<String, Value>) -> Result<ServeConfig, Failure> {
        if let Some(folder) = &self.state_dir {
            overrides.insert("stateDir".into(), path(folder));
        }
        let own = match &self.state_dir {
            Some(folder) => folder.clone(),
            None => default_state_dir(|name| std::env::var_os(name)),
        };
        let file = self.config.clone().unwrap_or_else(|| own.join(CONFIG));
        let exists = self.config.is_some() || file.exists();
        let config = ServeConfig::read(exists.then_some(&*file), Value::Object(overrides));
        let config = config.map_err(|error| match exists {
            true => Failure::usage(format!(
                "cannot use the configuration `{}` with these flags: {error}",
                file.display()
            )),
            false => Failure::usage(format!("cannot use the flags: {error}")),
        })?;
        if self.state_dir.is_none() {
            let variable = |name: &str| std::env::var_os(name);
            base::config::check_state_dir(&config.state_dir, "serve", variable)
                .map_err(Failure::usage)?;
        }
        Ok(config)
    }
}

/// The addresses and clients of the server.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Access")]
struct AccessArgs {
    /// Listen on this port, of 127.0.0.1 unless the configuration names another address; 0 selects a free one [default: that of the configuration, else 9000]
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,

    /// Listen on this address and port; an address that is not loopback requires clients, and TLS or --behind-proxy
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,

    /// The URL of the server for other machines; agent cards name it
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Accept this additional name in `Host`, besides loopback, the listen address and the public URL; may be given several times
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// Secure connections with the certificate chain in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Trust the headers of a proxy that terminates TLS and forwards requests
    #[arg(long)]
    behind_proxy: bool,

    /// Trust this proxy besides loopback: an address, or a network such as 10.0.0.0/24; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    trusted_proxy: Vec<String>,
}

/// The values of `--executor`, `--local` and `--fsync` in the configuration, with their help.
const EXECUTORS: [(&str, &str); 3] = [
    (
        "gateway",
        "The agents behind a gateway: OpenClaw's, or the members and the triad behind one of a2a-v1 (`remote-agent gateway`)",
    ),
    (
        "command",
        "The command `openclaw agent`: a process for each message, about half a minute each without a gateway",
    ),
    (
        "scripted",
        "Scripted answers that messages control, for conformance kits and clients under test",
    ),
];
const LOCAL_MODES: [(&str, &str); 3] = [
    ("auto", "Only if no gateway runs on OpenClaw's state"),
    (
        "always",
        "Always; OpenClaw refuses it while a gateway runs on its state",
    ),
    ("never", "Never; requires a running gateway"),
];
const FSYNC_MODES: [(&str, &str); 3] = [
    ("always", "After a sync to disk: survives a power loss"),
    (
        "interval",
        "Up to a second before a sync to disk: a power loss loses at most that second",
    ),
    (
        "never",
        "Without a sync to disk: a power loss may damage the file",
    ),
];

fn values(all: [(&'static str, &'static str); 3]) -> PossibleValuesParser {
    all.map(|(name, help)| PossibleValue::new(name).help(help))
        .into()
}

/// The executor and its options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Executor")]
struct ExecutorArgs {
    /// The executor [default: that of the configuration, else gateway]
    #[arg(long, value_name = "WHO", value_parser = values(EXECUTORS))]
    executor: Option<String>,

    /// Connect to the gateway at this address [default: that of the configuration, else the port in OpenClaw's openclaw.json, else ws://127.0.0.1:18789]
    #[arg(long, value_name = "URL")]
    gateway: Option<String>,

    /// Send the token in this environment variable to the gateway [default: that of the configuration, else OPENCLAW_GATEWAY_TOKEN, else without --gateway the token in openclaw.json]
    #[arg(long, value_name = "VAR")]
    gateway_token_env: Option<String>,

    /// Offer only this agent of the gateway, and show it in agent cards; `triad` is the triad of a collective; may be given several times
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,

    /// The agent for messages that name none [default: OpenClaw's default agent]
    #[arg(long, value_name = "NAME")]
    agent_id: Option<String>,

    /// The session of messages without a context [default: a new session for each]
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,

    /// The thinking level of a turn: off, minimal, low, medium, high, xhigh [default: low with OpenClaw's command if
    /// the model supports it, else OpenClaw's own]
    #[arg(long, value_name = "LEVEL", value_parser = ["off", "minimal", "low", "medium", "high", "xhigh"], hide_possible_values = true)]
    thinking: Option<String>,

    /// The timeout of a turn in seconds, after which its task fails [default: 300]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// How long running tasks may take to end when the server stops, in seconds; the next server on the same task store continues the others [default: 5]
    #[arg(long, value_name = "SECONDS")]
    drain: Option<u64>,

    /// The command of OpenClaw, for the executor command [default: openclaw, in PATH]
    #[arg(long, value_name = "FILE")]
    openclaw_path: Option<PathBuf>,

    /// Run the command in this directory [default: the working directory of the server]
    #[arg(long, value_name = "DIR")]
    working_directory: Option<PathBuf>,

    /// Pass this environment variable of the server to the command, besides the common ones; `AWS_*` means all
    /// names with this prefix; may be given several times
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,

    /// Run turns in the command itself, with `--local` [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = values(LOCAL_MODES))]
    local: Option<String>,

    /// Set this environment variable for the command; may be given several times; the configuration file hides the value from other users of the machine, the command line does not
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env_var: Vec<(String, String)>,

    /// Answer a 0.3 request without `blocking` with its task at once; with `false`, answer with a message at the end [default: true]
    #[arg(long, value_name = "BOOL")]
    async_mode: Option<bool>,
}

/// The task store.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Task store")]
struct StoreArgs {
    /// Store tasks in `memory`, a directory, or redis://HOST:PORT/DB for several servers [default: tasks in the state directory]
    #[arg(long, value_name = "STORE")]
    task_store: Option<String>,

    /// Read the value of --task-store from this environment variable, for a URL with a password
    #[arg(long, value_name = "VAR", conflicts_with = "task_store")]
    task_store_env: Option<String>,

    /// When a task store in a directory acknowledges a change; every value survives a killed server [default: interval]
    #[arg(long, value_name = "WHEN", value_parser = values(FSYNC_MODES))]
    fsync: Option<String>,

    /// Delete finished tasks this long after their last change [default: 604800, a week]
    #[arg(long, value_name = "SECONDS")]
    retention_age: Option<u64>,

    /// The maximum number of finished tasks of each client [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    retention_count: Option<u64>,

    /// End a task that has waited this long for its client's answer [default: 604800, a week]
    #[arg(long, value_name = "SECONDS")]
    retention_unanswered: Option<u64>,
}

/// Further options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "More")]
struct OtherArgs {
    /// The name in agent cards [default: OpenClaw]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The description in agent cards
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Allow webhooks only at this URL and below it; may be given several times [default: any public one over https]
    #[arg(long, value_name = "URL")]
    allow_webhook: Vec<String>,

    /// Allow any webhook, including those on this machine and its network
    #[arg(long)]
    allow_any_webhook: bool,

    /// Set this limit by its name in the configuration, such as runs=4 or requestsPerSecond=20; may be given several times
    #[arg(long, value_name = "NAME=NUMBER", value_parser = limit)]
    limit: Vec<(String, u64)>,
}

/// The options of `serve`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    access: AccessArgs,

    #[command(flatten)]
    executor: ExecutorArgs,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    more: OtherArgs,

    #[command(flatten)]
    files: FileArgs,
}

impl ServeArgs {
    /// Reads the configuration and applies the flags.
    ///
    /// # Errors
    /// The file or a flag is invalid.
    pub(super) fn read(&self) -> Result<ServeConfig, Failure> {
        let mut config = self.files.read_with(self.overrides())?;
        if let Some(port) = self.access.port {
            config.listen.set_port(port);
        }
        Ok(config)
    }

    /// Returns the flags that `executor` ignores.
    pub(super) fn ignored_flags(&self, executor: ExecutorKind) -> Vec<&'static str> {
        let ExecutorArgs {
            gateway,
            gateway_token_env,
            agent,
            thinking,
            openclaw_path,
            working_directory,
            pass_env,
            local,
            env_var,
            ..
        } = &self.executor;
        let gateway = [
            ("--gateway", gateway.is_some()),
            ("--gateway-token-env", gateway_token_env.is_some()),
            ("--agent", !agent.is_empty()),
        ];
        let command = [
            ("--openclaw-path", openclaw_path.is_some()),
            ("--working-directory", working_directory.is_some()),
            ("--pass-env", !pass_env.is_empty()),
            ("--local", local.is_some()),
            ("--env-var", !env_var.is_empty()),
        ];
        let both = [("--thinking", thinking.is_some())];
        let ignored_flags: Vec<(&'static str, bool)> = match executor {
            ExecutorKind::Gateway => command.into(),
            ExecutorKind::Command => gateway.into(),
            ExecutorKind::Scripted => gateway.into_iter().chain(command).chain(both).collect(),
        };
        let is_set = ignored_flags.into_iter().filter(|(_, is_set)| *is_set);
        is_set.map(|(flag, _)| flag).collect()
    }

    /// Converts the flags to the JSON of the configuration file.
    fn overrides(&self) -> Map<String, Value> {
        let mut overrides = ConfigOverrides(Map::new());
        let Self {
            access,
            executor,
            store,
            more,
            ..
        } = self;
        overrides.put("listen", access.listen.as_deref());
        overrides.put("publicUrl", access.public_url.as_deref());
        overrides.list("hosts", &access.host);
        if let (Some(cert), Some(key)) = (&access.tls_cert, &access.tls_key) {
            overrides.put(
                "tls",
                Some(json!({"certFile": path(cert), "keyFile": path(key)})),
            );
        }
        overrides.put("behindProxy", access.behind_proxy.then_some(true));
        overrides.list("trustedProxies", &access.trusted_proxy);
        overrides.put("executor", executor.executor.as_deref());
        overrides.put("agentId", executor.agent_id.as_deref());
        overrides.list("agents", &executor.agent);
        overrides.put("sessionId", executor.session_id.as_deref());
        overrides.put("thinking", executor.thinking.as_deref());
        overrides.put("timeout", executor.timeout);
        overrides.put("drain", executor.drain);
        overrides.put(
            "openclawPath",
            executor.openclaw_path.as_deref().map(command),
        );
        overrides.put(
            "workingDirectory",
            executor.working_directory.as_deref().map(path),
        );
        overrides.put("asyncMode", executor.async_mode);
        let variables: Map<_, _> = pairs(&executor.env_var);
        overrides.list("passEnv", &executor.pass_env);
        overrides.put("local", executor.local.as_deref());
        overrides.put("envVars", (!variables.is_empty()).then_some(variables));
        overrides.put("gateway", executor.gateway());
        overrides.put("taskStore", store.task_store.as_deref().map(store_location));
        overrides.put(
            "taskStore",
            store.task_store_env.as_deref().map(env_reference_to),
        );
        overrides.put("fsync", store.fsync.as_deref());
        let mut retention = ConfigOverrides(Map::new());
        retention.put("age", store.retention_age);
        retention.put("count", store.retention_count);
        retention.put("unanswered", store.retention_unanswered);
        overrides.put("retention", retention.some());
        overrides.put("name", more.name.as_deref());
        overrides.put("description", more.description.as_deref());
        let mut push = ConfigOverrides(Map::new());
        push.list("allowedUrls", &more.allow_webhook);
        push.put("allowAnyAddress", more.allow_any_webhook.then_some(true));
        overrides.put("push", push.some());
        let limits: Map<_, _> = pairs(&more.limit);
        overrides.put("limits", (!limits.is_empty()).then_some(limits));
        overrides.0
    }
}

impl ExecutorArgs {
    fn gateway(&self) -> Option<Map<String, Value>> {
        let mut gateway = ConfigOverrides(Map::new());
        gateway.put("url", self.gateway.as_deref());
        // A remote `wss` address on the command line is intended by the user.
        let is_remote = self
            .gateway
            .as_deref()
            .is_some_and(|url| url.starts_with("wss:"));
        gateway.put("allowRemote", is_remote.then_some(true));
        gateway.put(
            "token",
            self.gateway_token_env.as_deref().map(env_reference_to),
        );
        gateway.some()
    }
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text.split_once('=').ok_or("write it as NAME=NUMBER")?;
    let number = number.parse().map_err(|_| "not a whole number")?;
    Ok((name.to_owned(), number))
}
