//! Who does the work of a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use remote_agent_server::executor::Executor;
use remote_agent_server::executor::scripted::Scripted;

use super::error::StartError;
use crate::config::{ConfigError, gateway_url};
use crate::credential::Trust;
use crate::gateway;
use crate::serve::config::{ExecutorWord, ServeConfig};
use crate::serve::executor::{
    CommandExecutor, CommandSettings, GatewayExecutor, GatewayRuns, state_dir,
};
use crate::serve::journal::Journal;

/// The executor that the configuration names.
///
/// # Errors
/// It cannot be set up as the configuration says.
pub(super) fn executor(config: &ServeConfig) -> Result<Arc<dyn Executor>, StartError> {
    let timeout = Duration::from_secs(config.timeout);
    let world = Arc::new(crate::world::System);
    let log = Arc::new(Journal);
    Ok(match config.executor {
        ExecutorWord::Scripted => Arc::new(Scripted::default()),
        ExecutorWord::Command => {
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
            };
            Arc::new(CommandExecutor::new(settings, world, log))
        }
        ExecutorWord::Gateway => {
            let runs = GatewayRuns {
                timeout,
                thinking: config.thinking,
                state_dir: match config.gateway.allow_remote {
                    true => None,
                    false => state_dir(|name| std::env::var_os(name)),
                },
            };
            let executor = GatewayExecutor::new(gateway(config)?, runs, world, log);
            Arc::new(executor.map_err(|error| StartError::Executor(error.to_string()))?)
        }
    })
}

fn gateway(config: &ServeConfig) -> Result<gateway::Settings, ConfigError> {
    let url = gateway_url(&config.gateway.url)
        .map_err(|wrong| ConfigError::at("/gateway/url", format!("the URL {wrong}")))?;
    let mut settings = gateway::Settings::new(url);
    let variable = |name: &str| std::env::var(name).ok();
    // What OpenClaw's own clients show.
    let usual = || variable("OPENCLAW_GATEWAY_TOKEN").filter(|token| !token.is_empty());
    settings.token = config
        .gateway_token(variable)?
        .or_else(|| usual().map(Into::into));
    settings.timeout = Duration::from_millis(config.gateway.timeout_ms);
    settings.allow_remote = config.gateway.allow_remote;
    settings.agents.clone_from(&config.agents);
    settings.trust = config.gateway.ca_file.as_ref().map(trust).transpose()?;
    Ok(settings)
}

fn trust(file: &PathBuf) -> Result<Arc<Trust>, ConfigError> {
    let wrong = |why: String| {
        let message = format!("the file `{}` {why}", file.display());
        ConfigError::at("/gateway/caFile", message)
    };
    let bytes = std::fs::read(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let trust = Trust::read(Some(&bytes), None);
    trust
        .map(Arc::new)
        .map_err(|_| wrong("holds no authorities in PEM form".into()))
}
