//! Creates the executor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use a2a_server::executor::Executor;
use a2a_server::executor::scripted::ScriptedExecutor;
use secrecy::{ExposeSecret as _, SecretString};

use super::StartError;
use crate::config::{ExecutorKind, ServeConfig, TaskStoreKind};
use crate::executor::{
    CommandExecutor, CommandSettings, GatewayExecutor, GatewayRuns, Redacted, configured_secrets,
    environment_secrets, password, state_dir,
};
use crate::tracing_log::TracingLog;
use base::config::{ConfigError, gateway_url};
use base::redact::Secrets;
use egress::credential::Trust;
use gateway_bridge::TRIAD;

/// Creates the configured executor, which redacts the secrets of the server from its output.
///
/// # Errors
/// The configured executor cannot be used.
pub(super) fn executor(config: &ServeConfig) -> Result<Arc<dyn Executor>, StartError> {
    let inner = unredacted(config)?;
    // The scripted executor has no access to secrets: its output contains only text of the clients.
    if config.executor == ExecutorKind::Scripted {
        return Ok(inner);
    }
    Ok(Arc::new(Redacted::new(inner, secrets(config)?)))
}

/// Returns the values that clients must not receive: the gateway's token, the store's address, and the secret
/// environment variables of the server and the command.
fn secrets(config: &ServeConfig) -> Result<Secrets, ConfigError> {
    let mut all = environment_secrets(std::env::vars_os());
    let configured = config.env_vars.iter();
    all.extend(configured_secrets(
        configured.map(|(name, value)| (name.as_str(), value.as_str())),
    ));
    all.extend(token(config)?);
    if let TaskStoreKind::Redis(address) = config.store(|name| std::env::var(name).ok())? {
        all.extend(password(address.expose_secret()));
        all.push(address);
    }
    Ok(Secrets::in_all_forms(all))
}

fn unredacted(config: &ServeConfig) -> Result<Arc<dyn Executor>, StartError> {
    let timeout = Duration::from_secs(config.timeout);
    let env = Arc::new(base::environment::SystemEnvironment);
    let log = Arc::new(TracingLog);
    Ok(match config.executor {
        ExecutorKind::Scripted => Arc::new(ScriptedExecutor::default()),
        ExecutorKind::Command => {
            let variables = config.env_vars.iter();
            let settings = CommandSettings {
                openclaw_path: config.openclaw_path.clone(),
                agent_id: config.agent_id.clone(),
                thinking: config.thinking,
                timeout,
                working_directory: config.working_directory.clone(),
                env_vars: variables
                    .map(|(name, value)| (name.clone(), value.as_str().into()))
                    .collect(),
                pass_env: config.pass_env.clone(),
                local: config.local,
            };
            Arc::new(CommandExecutor::new(settings, env, log))
        }
        ExecutorKind::Gateway => {
            let runs = GatewayRuns {
                timeout,
                thinking: config.thinking,
                state_dir: match config.gateway.allow_remote {
                    true => None,
                    false => state_dir(|name| std::env::var_os(name)),
                },
                triad: config.agents.is_empty() || config.agents.iter().any(|name| name == TRIAD),
            };
            let executor = GatewayExecutor::new(gateway(config)?, runs, env, log);
            Arc::new(executor.map_err(|error| StartError::Executor(error.to_string()))?)
        }
    })
}

fn gateway(config: &ServeConfig) -> Result<gateway_bridge::Settings, ConfigError> {
    let url = gateway_url(&config.gateway.url())
        .map_err(|problem| ConfigError::at("/gateway/url", format!("the URL {problem}")))?;
    let mut settings = gateway_bridge::Settings::new(url);
    settings.token = token(config)?;
    settings.timeout = Duration::from_millis(config.gateway.timeout_ms);
    settings.allow_remote = config.gateway.allow_remote;
    settings.agents.clone_from(&config.agents);
    settings.trust = config.gateway.ca_file.as_ref().map(trust).transpose()?;
    Ok(settings)
}

/// Returns the token for the gateway: the configured one, or else the one that OpenClaw's own clients use.
fn token(config: &ServeConfig) -> Result<Option<SecretString>, ConfigError> {
    let variable = |name: &str| std::env::var(name).ok();
    let usual = || variable("OPENCLAW_GATEWAY_TOKEN").filter(|token| !token.is_empty());
    let token = config.gateway_token(variable)?;
    Ok(token.or_else(|| usual().map(Into::into)))
}

fn trust(file: &PathBuf) -> Result<Arc<Trust>, ConfigError> {
    let invalid = |problem: String| {
        let message = format!("the file `{}` {problem}", file.display());
        ConfigError::at("/gateway/caFile", message)
    };
    let bytes = std::fs::read(file).map_err(|error| invalid(format!("cannot be read: {error}")))?;
    let trust = Trust::read(Some(&bytes), None);
    trust
        .map(Arc::new)
        .map_err(|_| invalid("contains no certificate authorities in PEM format".into()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn token_of_the_gateway_and_address_of_the_store_are_secrets() {
        let config = json!({
            "taskStore": "rediss://me:st%40re@store.example/0", "gateway": {"token": "gate-token"},
            "envVars": {"GIVEN": "given-value"}
        });
        let config = ServeConfig::parse(&config.to_string()).unwrap();
        let secrets = secrets(&config).unwrap();
        for text in [
            "rediss://me:st%40re@store.example/0",
            "st%40re",
            "st@re",
            "gate-token",
            "Z2F0ZS10b2tlbg==",
            "given-value",
        ] {
            assert_eq!(secrets.redact(text), "[redacted]", "{text}");
        }
    }
}
