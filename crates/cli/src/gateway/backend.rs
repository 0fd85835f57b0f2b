//! Backends of agents, from options or from the configuration of a gateway.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use gateway_agent::{
    AgentBackend, AgentSettings, CommandBackend, ModelBackend, ModelSettings, ToolBackend,
};
use gateway_server::config::{BackendConfig, ModelConfig, OpenClawConfig, TargetConfig};
use openclaw_remote_agent::remote_agent::Reason;
use openclaw_server::config::{GatewayConfig, local_gateway};
use openclaw_server::executor::state_dir;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

use crate::config::{ConfigArgs, VARIABLE, resolve, unset_reason};
use crate::credentials::check_variable;
use crate::exit::Failure;
use crate::instance::{Instance, Library};
use crate::text::{field, line};
use crate::traces::SECRET_VARIABLES;
use base::config::{Secret, gateway_url};
use base::variable_name::variable_fault;
use egress::address::is_this_machine;

/// The maximum size of the instructions for a model, in bytes.
const MAX_SYSTEM_BYTES: u64 = 1 << 20;

/// How long a check of a backend waits for a server.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The alias prefix of agents behind a local gateway.
const GATEWAY_ALIAS: &str = "gateway:";

/// The backend of an agent.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Backend")]
#[group(skip)]
pub(super) struct BackendArgs {
    /// Run this shell command for each message and each proposal
    #[arg(long, value_name = "COMMAND", group = "backend", conflicts_with_all = ["vote", "reason", "confidence", "delay_ms", "reply"])]
    run: Option<String>,

    /// Answer with the model at this endpoint of OpenAI's Chat Completions API, such as http://127.0.0.1:4000
    #[arg(long, value_name = "URL", group = "backend", requires = "model_name", conflicts_with_all = ["vote", "reason", "confidence", "delay_ms", "reply"])]
    model: Option<String>,

    /// The name of the model at its endpoint
    #[arg(long, value_name = "NAME", requires = "model")]
    model_name: Option<String>,

    /// Read the instructions for the model from this file
    #[arg(long, value_name = "FILE", requires = "model")]
    system: Option<PathBuf>,

    /// Send the API key in this environment variable to the endpoint of the model
    #[arg(long, value_name = "VAR", requires = "model")]
    model_key_env: Option<String>,

    /// Allow a host name of the model that resolves to an address that is not public
    #[arg(long, requires = "model")]
    model_allow_private: bool,

    /// Send messages to the A2A agent with this alias
    #[arg(long, value_name = "ALIAS", group = "backend", conflicts_with_all = ["vote", "reason", "confidence", "delay_ms", "reply"])]
    target: Option<String>,

    /// The plugin's configuration with the agent of --target [default: the file that REMOTE_AGENT_CONFIG names]
    #[arg(long, value_name = "FILE", requires = "target")]
    target_config: Option<PathBuf>,

    /// Send messages to this agent of a local OpenClaw
    #[arg(long, value_name = "AGENT", group = "backend", conflicts_with_all = ["vote", "reason", "confidence", "delay_ms", "reply"])]
    openclaw: Option<String>,

    /// The URL of OpenClaw's gateway [default: the port in OpenClaw's openclaw.json, else ws://127.0.0.1:18789]
    #[arg(long, value_name = "URL", requires = "openclaw")]
    openclaw_url: Option<String>,

    /// Send the token in this environment variable to OpenClaw's gateway [default: OPENCLAW_GATEWAY_TOKEN, else the token in openclaw.json; with --openclaw-url none]
    #[arg(long, value_name = "VAR", requires = "openclaw")]
    openclaw_token_env: Option<String>,

    /// The timeout of an answer or a vote, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = BackendConfig::TIMEOUT_MS, value_parser = clap::value_parser!(u64).range(1..))]
    answer_timeout_ms: u64,

    /// The maximum number of concurrent messages and proposals; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = BackendConfig::CONCURRENCY)]
    concurrency: NonZeroUsize,
}

impl BackendArgs {
    /// Returns the backend that the options name; `None` for a scripted agent.
    ///
    /// # Errors
    /// `--target` has no configuration.
    pub(super) fn config(&self) -> Result<Option<BackendConfig>, Failure> {
        for (option, variable) in [
            ("--model-key-env", &self.model_key_env),
            ("--openclaw-token-env", &self.openclaw_token_env),
        ] {
            let checked = variable.as_ref().map(|name| check_variable(option, name));
            checked.transpose()?;
        }
        let secret = |variable: &Option<String>| {
            variable.clone().map(|id| Secret::Unresolved {
                source: "env".to_owned(),
                id,
            })
        };
        let target = match &self.target {
            None => None,
            Some(alias) => {
                let file = self.target_config.clone();
                let file = file.or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
                let file = file.ok_or_else(|| {
                    Failure::usage("`--target` needs the configuration with the agent; name it with `--target-config FILE`")
                })?;
                Some(TargetConfig {
                    alias: alias.clone(),
                    config_file: file,
                })
            }
        };
        let config = BackendConfig {
            run: self.run.clone(),
            model: self.model.clone().map(|url| ModelConfig {
                url,
                name: self.model_name.clone().unwrap_or_default(),
                system_file: self.system.clone(),
                api_key: secret(&self.model_key_env),
                allow_private_network: self.model_allow_private,
            }),
            target,
            openclaw: self.openclaw.clone().map(|agent| OpenClawConfig {
                agent,
                url: self.openclaw_url.clone(),
                token: secret(&self.openclaw_token_env),
            }),
            timeout_ms: self.answer_timeout_ms,
            concurrency: self.concurrency,
        };
        let is_set = config.kinds().next().is_some();
        Ok(is_set.then_some(config))
    }
}

/// An initialized backend, with the library instance that it uses.
pub(super) struct OpenedBackend {
    pub(super) backend: Arc<dyn AgentBackend>,
    _instance: Option<Instance>,
}

impl From<Arc<dyn AgentBackend>> for OpenedBackend {
    fn from(backend: Arc<dyn AgentBackend>) -> Self {
        Self {
            backend,
            _instance: None,
        }
    }
}

/// Returns the settings of the agent `name` with this backend.
pub(super) fn settings(name: &str, config: &BackendConfig) -> AgentSettings {
    AgentSettings {
        concurrency: config.concurrency,
        timeout: Duration::from_millis(config.timeout_ms),
        ..AgentSettings::new(name)
    }
}

/// Returns the environment variables with secrets of a backend. Commands of agents do not inherit them.
pub(super) fn secret_variables(config: &BackendConfig) -> impl Iterator<Item = String> + use<> {
    let key = config
        .model
        .as_ref()
        .and_then(|model| model.api_key.clone());
    let token = config
        .openclaw
        .as_ref()
        .and_then(|openclaw| openclaw.token.clone());
    let target = config.target.as_ref().map(|target| {
        let args = ConfigArgs {
            config: Some(target.config_file.clone()),
            ..ConfigArgs::default()
        };
        // `open` reports a file that cannot be read or used.
        let plugin = args.read().unwrap_or_default();
        let (_, variables) = resolve(&plugin, |_| None).unwrap_or_default();
        let names = variables.iter().map(|variable| variable.name().to_owned());
        names.collect::<Vec<_>>()
    });
    let is_found = config
        .openclaw
        .as_ref()
        .is_some_and(|openclaw| openclaw.url.is_none() && openclaw.token.is_none());
    let usual = is_found.then(|| Secret::Unresolved {
        source: "env".to_owned(),
        id: "OPENCLAW_GATEWAY_TOKEN".to_owned(),
    });
    let own = key.into_iter().chain(token).chain(usual);
    let own = own.filter_map(|secret| secret.variable().map(str::to_owned));
    own.chain(target.into_iter().flatten())
}

/// Opens a backend. Commands do not inherit the variables in `hidden`, nor [`SECRET_VARIABLES`].
///
/// # Errors
/// A file cannot be read, a variable is not set, or a URL is unusable.
pub(super) fn open(config: &BackendConfig, hidden: &[String]) -> Result<OpenedBackend, Failure> {
    if let Some(command) = &config.run {
        let hidden = hidden.iter().cloned();
        let hidden = hidden.chain(SECRET_VARIABLES.map(str::to_owned));
        let backend = CommandBackend::new(command).without_variables(hidden);
        let backend: Arc<dyn AgentBackend> = Arc::new(backend);
        return Ok(backend.into());
    }
    if let Some(model) = &config.model {
        let backend: Arc<dyn AgentBackend> = Arc::new(self::model(model)?);
        return Ok(backend.into());
    }
    let (plugin, alias) = plugin(config)?;
    let instance = instance(config, &plugin)?;
    let openclaw_url = openclaw_url(&plugin, &alias);
    let mut backend = ToolBackend::new(instance.tool(), alias);
    if let Some(url) = openclaw_url {
        let is_here = gateway_url(&url).is_ok_and(|url| is_this_machine(&url));
        let state_dir = is_here.then(|| state_dir(|name| env::var_os(name)));
        backend = backend.for_openclaw(state_dir.flatten());
    }
    let backend: Arc<dyn AgentBackend> = Arc::new(backend);
    Ok(OpenedBackend {
        backend,
        _instance: Some(instance),
    })
}

/// Returns the plugin's configuration with the agent behind a backend, and its alias.
///
/// # Errors
/// A file cannot be read or used, or the backend has no such agent.
fn plugin(config: &BackendConfig) -> Result<(String, String), Failure> {
    if let Some(target) = &config.target {
        let args = ConfigArgs {
            config: Some(target.config_file.clone()),
            ..ConfigArgs::default()
        };
        Ok((args.read()?, target.alias.clone()))
    } else if let Some(openclaw) = &config.openclaw {
        let alias = format!("{GATEWAY_ALIAS}{}", openclaw.agent);
        Ok((self::openclaw(openclaw)?, alias))
    } else {
        Err(Failure::usage("the agent has no backend"))
    }
}

fn instance(config: &BackendConfig, plugin: &str) -> Result<Instance, Failure> {
    let file = config.target.as_ref().map(|target| &*target.config_file);
    Library::open(false)?.interactive_instance(plugin, file)
}

/// A fault that the check of a backend found.
pub(super) struct BackendFault {
    pub(super) message: String,
    pub(super) repair: &'static str,
    /// Whether the gateway may work nevertheless, because its environment or directory is another one.
    pub(super) is_only_here: bool,
}

impl BackendFault {
    fn new(message: impl Into<String>, repair: &'static str) -> Self {
        Self {
            message: message.into(),
            repair,
            is_only_here: false,
        }
    }

    fn unusable(failure: Failure) -> Self {
        let repair = "Correct the `backend` of this agent in the configuration of the gateway.";
        Self::new(failure.message, repair)
    }

    fn unset(variable: &str) -> Self {
        Self {
            message: format!(
                "not checked: the environment variable `{variable}` with its secret {} for this command",
                unset_reason(variable)
            ),
            repair: "Check that the environment of the gateway has it; to check the backend, set it for this command too.",
            is_only_here: true,
        }
    }
}

/// Checks whether the backend of the agent `name` can be reached: the program of a command, the server of a model, or the agent.
/// Starts no agent and sends no message. Returns what was found.
///
/// # Errors
/// What is missing, and the repair.
pub(super) async fn probe(name: &str, config: &BackendConfig) -> Result<String, BackendFault> {
    if let Some(command) = &config.run {
        return match CommandBackend::new(command).probe().await {
            Ok(true) => Ok("the shell finds its command".to_owned()),
            Ok(false) => Ok(
                "its command is not checked: only the shell that runs it knows its program"
                    .to_owned(),
            ),
            Err(program) => Err(BackendFault {
                message: format!(
                    "the shell does not find `{program}`, with which its command begins"
                ),
                repair: "Install it, or correct `run`. The gateway may have another PATH and directory than this command.",
                is_only_here: !program.starts_with('/'),
            }),
        };
    }
    if let Some(model) = &config.model {
        // Only the gateway needs to know the key.
        let keyless = ModelConfig {
            api_key: None,
            ..model.clone()
        };
        let backend = self::model(&keyless).map_err(BackendFault::unusable)?;
        let answer = timeout(PROBE_TIMEOUT, backend.probe()).await;
        let late = |_| Err(format!("no answer within {} s", PROBE_TIMEOUT.as_secs()));
        return match answer.unwrap_or_else(late) {
            Ok(()) => Ok("the server of its model answers".to_owned()),
            Err(error) => Err(BackendFault::new(
                format!("its model: {error}"),
                "Start the server of the model, or correct `model.url`.",
            )),
        };
    }
    if let Some(openclaw) = &config.openclaw
        && let Ok((_, Some(token))) = openclaw_gateway(openclaw)
        && let Some(variable) = token.variable()
        && variable_fault(variable).is_none()
        && secret(&token).is_err()
    {
        return Err(BackendFault::unset(variable));
    }
    let (plugin, alias) = plugin(config).map_err(BackendFault::unusable)?;
    let instance = instance(config, &plugin).map_err(BackendFault::unusable)?;
    let caller = json!({"agent_id": name}).to_string();
    let (_, listing) = instance.list_targets(Some(caller)).await;
    let summary = &listing["summary"];
    let mut targets = summary["targets"].as_array().into_iter().flatten();
    let alias_shown = line(&alias);
    match targets.find(|target| target["target_alias"] == *alias) {
        Some(target) if target["last_refresh_error"].is_object() => {
            let error = &target["last_refresh_error"];
            let message = field(error, "message");
            if Reason::in_error(error) == Some(Reason::CredentialUnresolved) {
                let mut unset = instance.unset_variables().named_in(&message);
                if let Some(unset) = unset.find(|one| variable_fault(one.name()).is_none()) {
                    return Err(BackendFault::unset(unset.name()));
                }
            }
            Err(BackendFault::new(
                format!("its agent `{alias_shown}`: {message}"),
                "Start the agent, or correct its address.",
            ))
        }
        Some(target) if target["status"] == "offline" => Err(BackendFault::new(
            format!("its agent `{alias_shown}` is offline"),
            "Start the agent.",
        )),
        Some(_) => Ok(format!("its agent `{alias_shown}` answers")),
        None => {
            let [refused, closed] = [
                field(&listing["error"], "message"),
                field(&summary["gateway"], "last_error"),
            ];
            let message = format!("no agent is called `{alias_shown}` {refused}{closed}");
            Err(BackendFault::new(
                message.trim_end(),
                "Start the gateway of the agent, or correct the name.",
            ))
        }
    }
}

/// Returns the URL of the OpenClaw gateway behind the agent; `None` if the target is not an agent of OpenClaw. A gateway
/// with the dialect `auto` counts as OpenClaw, because it may be one.
fn openclaw_url(plugin: &str, alias: &str) -> Option<String> {
    let config: Value = serde_json::from_str(plugin).unwrap_or_default();
    let gateway = &config["gateway"];
    let dialect = gateway["dialect"].as_str().unwrap_or("auto");
    let may_be_openclaw = matches!(dialect, "openclaw" | "auto");
    let is_openclaw = alias.starts_with(GATEWAY_ALIAS) && may_be_openclaw;
    let url = gateway["url"].as_str().map(str::to_owned);
    is_openclaw.then(|| url.unwrap_or_else(|| GatewayConfig::default().url().into_owned()))
}

fn model(config: &ModelConfig) -> Result<ModelBackend, Failure> {
    let url: Url = config.url.parse().map_err(|error| {
        Failure::usage(format!(
            "cannot use the URL of the model: {error}; write it as `http://127.0.0.1:4000`"
        ))
    })?;
    let settings = ModelSettings {
        url,
        model: config.name.clone(),
        system: config.system_file.as_ref().map(system).transpose()?,
        key: config.api_key.as_ref().map(secret).transpose()?,
        allow_private: config.allow_private_network,
    };
    ModelBackend::new(settings).map_err(Failure::usage)
}

fn system(file: &PathBuf) -> Result<String, Failure> {
    let name = file.display();
    let failed = |error: std::io::Error| {
        Failure::usage(format!(
            "cannot read the instructions for the model in `{name}`: {error}"
        ))
    };
    if fs::metadata(file).map_err(failed)?.len() > MAX_SYSTEM_BYTES {
        return Err(Failure::usage(format!(
            "the instructions for the model in `{name}` have more than {MAX_SYSTEM_BYTES} bytes; shorten them"
        )));
    }
    fs::read_to_string(file).map_err(failed)
}

/// Returns the URL and the token of the OpenClaw that a backend uses.
///
/// # Errors
/// OpenClaw's configuration cannot be used.
fn openclaw_gateway(config: &OpenClawConfig) -> Result<(String, Option<Secret>), Failure> {
    match &config.url {
        Some(url) => Ok((url.clone(), config.token.clone())),
        None => local_gateway(config.token.clone(), |name| env::var_os(name))
            .map_err(|error| Failure::usage(error.message)),
    }
}

/// Checks that a backend does not use the gateway at `address` itself as its OpenClaw.
///
/// # Errors
/// The backend would connect to its own gateway.
pub(super) fn check_not_own(config: &BackendConfig, address: SocketAddr) -> Result<(), Failure> {
    let Some(openclaw) = &config.openclaw else {
        return Ok(());
    };
    let (url, _) = openclaw_gateway(openclaw)?;
    let ip = address.ip();
    let is_own = gateway_url(&url).is_ok_and(|url| {
        (ip.is_loopback() || ip.is_unspecified())
            && is_this_machine(&url)
            && url.port_or_known_default() == Some(address.port())
    });
    match is_own {
        false => Ok(()),
        true => Err(Failure::usage(format!(
            "its OpenClaw gateway `{url}` is the address of this gateway; let this gateway listen on another port (`--port`), or name OpenClaw's gateway with `url`"
        ))),
    }
}

/// Returns a plugin configuration for OpenClaw's gateway.
fn openclaw(config: &OpenClawConfig) -> Result<String, Failure> {
    let (url, token) = openclaw_gateway(config)?;
    let url = gateway_url(&url)
        .map_err(|error| Failure::usage(format!("the URL of OpenClaw's gateway {error}")))?;
    let mut gateway = json!({
        "enabled": true, "url": url.as_str(), "dialect": "openclaw", "allowRemote": !is_this_machine(&url),
    });
    if let Some(token) = &token {
        use secrecy::ExposeSecret as _;
        gateway["token"] = secret(token)?.expose_secret().into();
    }
    Ok(json!({ "gateway": gateway }).to_string())
}

/// Reads the value of a secret.
fn secret(secret: &Secret) -> Result<SecretString, Failure> {
    secret
        .resolve(|id| env::var(id).ok())
        .map_err(Failure::usage)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn variables_of_a_target_are_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugin.json");
        let plugin = json!({"targets": [{"alias": "desk", "auth": {"token": {"source": "env", "id": "DESK_TOKEN"}}}]});
        fs::write(&file, plugin.to_string()).unwrap();
        let config = json!({"target": {"alias": "desk", "configFile": file}});
        let config: BackendConfig = serde_json::from_value(config).unwrap();
        let names: Vec<_> = secret_variables(&config).collect();
        assert_eq!(names, ["DESK_TOKEN"]);
    }
}
