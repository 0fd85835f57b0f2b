//! The flags of a server. They override the configuration file: the serialized name of a flag is the path of its setting,
//! such as `retention.age`.

use std::ops::Not;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::possible_values;
use base::config::{ConfigError, resolved};
use openclaw_server::config::{ExecutorKind, ServeConfig, default_state_dir, names_directory};

/// The default name of the configuration file, in the state directory.
const CONFIG: &str = "serve.json";

/// The files of a server.
#[derive(Clone, Debug, Default, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
#[command(next_help_heading = "Files")]
pub(super) struct FileArgs {
    /// Read the configuration from this file [default: serve.json in the state directory, where there is one]
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,

    /// Keep tasks, clients and other state in this directory [default: that of the configuration, else openclaw-remote-agent/serve in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "serialize_path")]
    state_dir: Option<PathBuf>,
}

impl FileArgs {
    /// Reads the configuration file, without other flags.
    ///
    /// # Errors
    /// The named file cannot be read, or the configuration is invalid.
    pub(super) fn read(&self) -> Result<ServeConfig, Failure> {
        self.read_with(self)
    }

    fn read_with(&self, flags: &impl Serialize) -> Result<ServeConfig, Failure> {
        let config = ServeConfig::read(self.file().as_deref(), overrides(flags)?);
        let config = config.map_err(|error| self.unusable(flags, &error))?;
        if self.state_dir.is_none() {
            let variable = |name: &str| std::env::var_os(name);
            base::config::check_state_dir(&config.state_dir, "serve", variable)
                .map_err(Failure::usage)?;
        }
        Ok(config)
    }

    /// Returns the configuration file, if there is one.
    fn file(&self) -> Option<PathBuf> {
        let default_file = || match &self.state_dir {
            Some(folder) => folder.join(CONFIG),
            None => default_state_dir(|name| std::env::var_os(name)).join(CONFIG),
        };
        let named = self.config.clone();
        named.or_else(|| Some(default_file()).filter(|file| file.exists()))
    }

    fn unusable(&self, flags: &impl Serialize, error: &ConfigError) -> Failure {
        let has_flags = overrides(flags).is_ok_and(|set| set != json!({}));
        let file = self
            .file()
            .map(|file| format!("the configuration `{}`", file.display()));
        let what = match file {
            Some(file) if has_flags => format!("{file} with these flags"),
            Some(file) => file,
            None => "the flags".to_owned(),
        };
        Failure::usage(format!(
            "cannot use {what}: {error} (docs/reference/serve.md lists all settings)"
        ))
    }
}

/// The addresses and clients of the server.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
#[command(next_help_heading = "Access")]
struct AccessArgs {
    /// Listen on this port, of 127.0.0.1 unless the configuration names another address; 0 selects a free one [default: that of the configuration, else 9000]
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    #[serde(skip)]
    port: Option<u16>,

    /// Listen on this address and port; an address that is not loopback requires clients, and TLS or --behind-proxy
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,

    /// The URL of the server for other machines; agent cards name it
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,

    /// Accept this additional name in `Host`, besides loopback, the listen address and the public URL; may be given several times
    #[arg(long, value_name = "NAME")]
    #[serde(rename = "hosts")]
    host: Vec<String>,

    /// Secure connections with the certificate chain in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    #[serde(rename = "tls.certFile", serialize_with = "serialize_path")]
    tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    #[serde(rename = "tls.keyFile", serialize_with = "serialize_path")]
    tls_key: Option<PathBuf>,

    /// Sign agent cards with the private key in this file (PEM: Ed25519, ECDSA on P-256 or RSA); give a second, older key while clients still know that one
    #[arg(long, value_name = "FILE")]
    #[serde(rename = "signingKeys", serialize_with = "serialize_paths")]
    signing_key: Vec<PathBuf>,

    /// Trust the headers of a proxy that terminates TLS and forwards requests
    #[arg(long)]
    #[serde(skip_serializing_if = "Not::not")]
    behind_proxy: bool,

    /// Trust this proxy besides loopback: an address, or a network such as 10.0.0.0/24; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    #[serde(rename = "trustedProxies")]
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
const WHILE_WORKING: [(&str, &str); 2] = [
    ("refuse", "Refuse it"),
    (
        "next-turn",
        "Start a turn of the same task with it when the running turn has ended",
    ),
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

/// The executor and its options.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
#[command(next_help_heading = "Executor")]
struct ExecutorArgs {
    /// The executor [default: that of the configuration, else gateway]
    #[arg(long, value_name = "WHO", value_parser = possible_values(EXECUTORS))]
    executor: Option<String>,

    /// Connect to the gateway at this address [default: that of the configuration, else the port in OpenClaw's openclaw.json, else ws://127.0.0.1:18789]
    #[arg(long, value_name = "URL")]
    #[serde(serialize_with = "serialize_gateway")]
    gateway: Option<String>,

    /// Send the token in this environment variable to the gateway [default: that of the configuration, else OPENCLAW_GATEWAY_TOKEN, else without --gateway the token in openclaw.json]
    #[arg(long, value_name = "VAR")]
    #[serde(rename = "gateway.token", serialize_with = "serialize_env_reference")]
    gateway_token_env: Option<String>,

    /// Offer only this agent of the gateway, and show it in agent cards; `triad` is the triad of a collective; may be given several times
    #[arg(long, value_name = "NAME")]
    #[serde(rename = "agents")]
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
    #[serde(serialize_with = "serialize_command")]
    openclaw_path: Option<PathBuf>,

    /// Run the command in this directory [default: the working directory of the server]
    #[arg(long, value_name = "DIR")]
    #[serde(serialize_with = "serialize_path")]
    working_directory: Option<PathBuf>,

    /// Pass this environment variable of the server to the command, besides the common ones; `AWS_*` means all
    /// names with this prefix; may be given several times
    #[arg(long, value_name = "NAME")]
    pass_env: Vec<String>,

    /// Run turns in the command itself, with `--local` [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = possible_values(LOCAL_MODES))]
    local: Option<String>,

    /// Set this environment variable for the command; may be given several times; the configuration file hides the value from other users of the machine, the command line does not
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    #[serde(rename = "envVars", serialize_with = "serialize_pairs")]
    env_var: Vec<(String, String)>,

    /// Answer a 0.3 request without `blocking` with its task at once; with `false`, answer with a message at the end [default: true]
    #[arg(long, value_name = "BOOL")]
    async_mode: Option<bool>,

    /// What to do with a message for a task that is working [default: refuse]
    #[arg(long, value_name = "WHAT", value_parser = possible_values(WHILE_WORKING))]
    while_working: Option<String>,
}

/// The task store.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
#[command(next_help_heading = "Task store")]
struct StoreArgs {
    /// Store tasks in `memory`, a directory, or redis://HOST:PORT/DB for several servers [default: tasks in the state directory]
    #[arg(long, value_name = "STORE")]
    #[serde(serialize_with = "serialize_store_location")]
    task_store: Option<String>,

    /// Read the value of --task-store from this environment variable, for a URL with a password
    #[arg(long, value_name = "VAR", conflicts_with = "task_store")]
    #[serde(
        rename = "taskStore",
        skip_serializing_if = "Option::is_none",
        serialize_with = "serialize_env_reference"
    )]
    task_store_env: Option<String>,

    /// When a task store in a directory acknowledges a change; every value survives a killed server [default: interval]
    #[arg(long, value_name = "WHEN", value_parser = possible_values(FSYNC_MODES))]
    fsync: Option<String>,

    /// Delete finished tasks this long after their last change [default: 604800, a week]
    #[arg(long, value_name = "SECONDS")]
    #[serde(rename = "retention.age")]
    retention_age: Option<u64>,

    /// The maximum number of finished tasks of each client [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    #[serde(rename = "retention.count")]
    retention_count: Option<u64>,

    /// End a task that has waited this long for its client's answer [default: 604800, a week]
    #[arg(long, value_name = "SECONDS")]
    #[serde(rename = "retention.unanswered")]
    retention_unanswered: Option<u64>,
}

/// Further options.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
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
    #[serde(rename = "push.allowedUrls")]
    allow_webhook: Vec<String>,

    /// Allow any webhook, including those on this machine and its network
    #[arg(long)]
    #[serde(rename = "push.allowAnyAddress", skip_serializing_if = "Not::not")]
    allow_any_webhook: bool,

    /// Set this limit by its name in the configuration, such as runs=4 or requestsPerSecond=20; may be given several times
    #[arg(long, value_name = "NAME=NUMBER", value_parser = limit)]
    #[serde(rename = "limits", serialize_with = "serialize_pairs")]
    limit: Vec<(String, u64)>,
}

/// The options of `serve`.
#[derive(Clone, Debug, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    #[serde(flatten)]
    access: AccessArgs,

    #[command(flatten)]
    #[serde(flatten)]
    executor: ExecutorArgs,

    #[command(flatten)]
    #[serde(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    #[serde(flatten)]
    more: OtherArgs,

    #[command(flatten)]
    #[serde(flatten)]
    files: FileArgs,
}

impl ServeArgs {
    /// Reads the configuration and applies the flags.
    ///
    /// # Errors
    /// The file or a flag is invalid.
    pub(super) fn read(&self) -> Result<ServeConfig, Failure> {
        let mut config = self.files.read_with(self)?;
        if let Some(port) = self.access.port {
            config.listen.set_port(port);
        }
        Ok(config)
    }

    /// Returns the failure for a setting that the server cannot use.
    pub(super) fn unusable(&self, error: &ConfigError) -> Failure {
        self.files.unusable(self, error)
    }

    /// Returns the flags that `executor` ignores.
    pub(super) fn ignored_flags(&self, executor: ExecutorKind) -> Vec<&'static str> {
        let ignored = match executor {
            ExecutorKind::Gateway => COMMAND_FLAGS.to_vec(),
            ExecutorKind::Command => GATEWAY_FLAGS.to_vec(),
            ExecutorKind::Scripted => [
                &GATEWAY_FLAGS[..],
                &COMMAND_FLAGS,
                &[("/thinking", "--thinking")],
            ]
            .concat(),
        };
        let set = overrides(self).unwrap_or_default();
        let ignored = ignored
            .iter()
            .filter(|(setting, _)| set.pointer(setting).is_some());
        ignored.map(|(_, flag)| *flag).collect()
    }
}

/// The settings of one executor as JSON Pointers, with their flags.
const GATEWAY_FLAGS: [(&str, &str); 3] = [
    ("/gateway/url", "--gateway"),
    ("/gateway/token", "--gateway-token-env"),
    ("/agents", "--agent"),
];
const COMMAND_FLAGS: [(&str, &str); 5] = [
    ("/openclawPath", "--openclaw-path"),
    ("/workingDirectory", "--working-directory"),
    ("/passEnv", "--pass-env"),
    ("/local", "--local"),
    ("/envVars", "--env-var"),
];

/// Converts flags to the JSON of the configuration file, without those that are not set.
///
/// # Errors
/// JSON cannot express a flag. Without the error, a server would start without it.
fn overrides(flags: &impl Serialize) -> Result<Value, Failure> {
    let mut overrides = json!({});
    let flags = serde_json::to_value(flags)
        .map_err(|error| Failure::usage(format!("cannot use the flags: {error}")))?;
    for (setting, value) in flags.as_object().into_iter().flatten() {
        let is_unset = [&Value::Null, &json!([]), &json!({})].contains(&value);
        if !is_unset {
            let groups = setting.split('.');
            *groups.fold(&mut overrides, |group, name| &mut group[name]) = value.clone();
        }
    }
    Ok(overrides)
}

fn serialize_gateway<S: Serializer>(
    url: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let gateway = url.as_ref().map(|url| match url.starts_with("wss:") {
        // A remote `wss` address on the command line is intended by the user.
        true => json!({"url": url, "allowRemote": true}),
        false => json!({"url": url}),
    });
    gateway.serialize(serializer)
}

fn serialize_env_reference<S: Serializer>(
    name: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let reference = name.as_ref();
    let reference = reference.map(|name| json!({"source": "env", "id": name}));
    reference.serialize(serializer)
}

fn serialize_pairs<S: Serializer>(
    pairs: &[(String, impl Serialize)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Serializes an absolute path, resolved from the current directory.
fn serialize_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(absolute).serialize(serializer)
}

/// Serializes absolute paths, resolved from the current directory.
fn serialize_paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| absolute(path)))
}

/// Serializes a command: an absolute path, or a name to look up in `PATH`.
fn serialize_command<S: Serializer>(
    file: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match file
        .as_deref()
        .filter(|file| file.components().count() == 1)
    {
        Some(name) => name.to_string_lossy().serialize(serializer),
        None => serialize_path(file, serializer),
    }
}

fn serialize_store_location<S: Serializer>(
    store: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let location = store
        .as_deref()
        .map(|store| match names_directory(store, Path::new("")) {
            true => absolute(&resolved(Path::new(store), Path::new(""))),
            false => store.to_owned(),
        });
    location.serialize(serializer)
}

fn absolute(path: &Path) -> String {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole.to_string_lossy().into_owned()
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
