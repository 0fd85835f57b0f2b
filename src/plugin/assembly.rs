//! Builds the tool and connects it with the protocols.

use std::sync::Arc;

use crate::config::{Config, ConfigError};
use crate::remote_agent::{PollIntervals, RemoteAgent};
use a2a_client::A2aPeerProvider;
use base::environment::{Environment, SystemEnvironment};
use base::log::Log;
use egress::{
    HttpClient, ReqwestClient,
    proxy::{Proxies, ProxySettings},
    retry::RetryContext,
    sse::SseLimits,
};
use gateway_bridge::BridgedGateway;

use super::{peer_providers::PeerProviders, settings::settings};

/// Builds the tool for a configuration, with peers over the real network and polls at `poll_intervals`.
///
/// # Errors
/// The configuration is invalid; the error names the place.
pub fn assemble(
    config_json: &str,
    poll_intervals: PollIntervals,
    log: Arc<dyn Log>,
) -> Result<RemoteAgent, ConfigError> {
    let config = Config::parse(config_json)?;
    let mut http = ReqwestClient::new().map_err(|e| ConfigError::at("", e.to_string()))?;
    if config.policy.use_system_proxy {
        let settings = ProxySettings::read(|name| std::env::var(name).ok());
        let proxies = Proxies::new(&settings)
            .map_err(|reason| ConfigError::at("/policy/useSystemProxy", reason))?;
        http = http.with_proxies(proxies);
    }
    let env = Arc::new(SystemEnvironment);
    let http = http.with_retries(retry_context(env.clone()));
    assemble_with_network(&config, Arc::new(http), env, poll_intervals, log)
}

/// Builds the tool for a configuration, with peers over `net`, times and ids from `env`, and polls at `poll_intervals`.
///
/// # Errors
/// The configuration is invalid; the error names the place.
pub fn assemble_with_network(
    config: &Config,
    net: Arc<dyn HttpClient>,
    env: Arc<dyn Environment>,
    poll_intervals: PollIntervals,
    log: Arc<dyn Log>,
) -> Result<RemoteAgent, ConfigError> {
    let limits = SseLimits {
        event_bytes: config.limits.event_bytes,
        answer_bytes: config.limits.response_bytes,
    };
    let a2a = Arc::new(A2aPeerProvider::new(Arc::clone(&net), limits));
    let Some(settings) = settings(config)? else {
        return RemoteAgent::new(config, a2a, None, env, poll_intervals, log);
    };
    let gateway = Arc::new(BridgedGateway::new(
        net,
        settings,
        Arc::clone(&env),
        Arc::clone(&log),
    ));
    let directory = Arc::new(PeerProviders {
        local: gateway.clone(),
        elsewhere: a2a,
    });
    RemoteAgent::new(config, directory, Some(gateway), env, poll_intervals, log)
}

fn retry_context(env: Arc<dyn Environment>) -> RetryContext {
    let random = Arc::clone(&env);
    RetryContext {
        wall: Arc::new(move || env.system_time()),
        random: Arc::new(move || random.random()),
    }
}
