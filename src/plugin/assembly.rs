//! Builds the tool and connects it with the protocols: peers over A2A, and the bridge to the local gateway with the
//! settings of its configuration.

use std::sync::Arc;
use std::time::Duration;

use a2a::Card;
use a2a_client::A2aPeerProvider;
use async_trait::async_trait;
use base::environment::{Environment, SystemEnvironment};
use base::log::Log;
use egress::proxy::{Proxies, ProxySettings};
use egress::retry::RetryContext;
use egress::sse::SseLimits;
use egress::{HttpClient, ReqwestClient};
use gateway_bridge::{BridgedGateway, Settings, Signer};
use peer::{CallOptions, CardEtag, Discovered, Peer, PeerConfig, PeerError, PeerProvider};

use crate::config::{Config, ConfigError, Gateway, gateway_url};
use crate::remote_agent::{PollIntervals, RemoteAgent};
use crate::targets::local_trust;

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
    let env = Arc::new(SystemEnvironment);
    let http = network(&config)?.with_retries(retry_context(env.clone()));
    assemble_with_network(&config, Arc::new(http), env, poll_intervals, log)
}

/// Returns the real network, with the proxies that the configuration allows.
///
/// # Errors
/// A proxy of the environment is invalid.
pub fn network(config: &Config) -> Result<ReqwestClient, ConfigError> {
    let mut http = ReqwestClient::new().map_err(|e| ConfigError::at("", e.to_string()))?;
    if config.policy.use_system_proxy {
        let settings = ProxySettings::read(|name| std::env::var(name).ok());
        let proxies = Proxies::new(&settings)
            .map_err(|reason| ConfigError::at("/policy/useSystemProxy", reason))?;
        http = http.with_proxies(proxies);
    }
    Ok(http)
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
    let a2a = peers(config, Arc::clone(&net));
    let Some(settings) = settings(config)? else {
        let tool = RemoteAgent::new(config, a2a, None, env, poll_intervals, log)?;
        return Ok(tool.with_sign_ins(net));
    };
    let gateway = Arc::new(BridgedGateway::new(
        Arc::clone(&net),
        settings,
        Arc::clone(&env),
        Arc::clone(&log),
    ));
    let directory = Arc::new(PeerProviders {
        local: gateway.clone(),
        elsewhere: a2a,
    });
    let tool = RemoteAgent::new(config, directory, Some(gateway), env, poll_intervals, log)?;
    Ok(tool.with_sign_ins(net))
}

/// Returns the peers that are not behind the gateway.
pub(crate) fn peers(config: &Config, net: Arc<dyn HttpClient>) -> Arc<dyn PeerProvider> {
    let limits = SseLimits {
        event_bytes: config.limits.event_bytes,
        answer_bytes: config.limits.response_bytes,
    };
    Arc::new(A2aPeerProvider::new(net, limits))
}

fn retry_context(env: Arc<dyn Environment>) -> RetryContext {
    let random = Arc::clone(&env);
    RetryContext {
        wall: Arc::new(move || env.system_time()),
        random: Arc::new(move || random.random()),
    }
}

/// The agents behind the local gateway, and all other peers.
struct PeerProviders {
    local: Arc<dyn PeerProvider>,
    elsewhere: Arc<dyn PeerProvider>,
}

impl PeerProviders {
    fn select(&self, peer_config: &PeerConfig) -> &dyn PeerProvider {
        if peer_config.is_local() {
            &*self.local
        } else {
            &*self.elsewhere
        }
    }
}

#[async_trait]
impl PeerProvider for PeerProviders {
    async fn discover(
        &self,
        peer_config: &PeerConfig,
        known: Option<&CardEtag>,
    ) -> Result<Discovered, PeerError> {
        self.select(peer_config).discover(peer_config, known).await
    }

    fn preferred_interface(&self, peer_config: &PeerConfig, card: &Card) -> Option<usize> {
        self.select(peer_config)
            .preferred_interface(peer_config, card)
    }

    fn open(
        &self,
        peer_config: &PeerConfig,
        card: &Card,
        options: &CallOptions<'_>,
    ) -> Result<Box<dyn Peer>, PeerError> {
        self.select(peer_config).open(peer_config, card, options)
    }
}

/// Reads the key that signs messages to the gateway; `None` if it is an unresolved secret.
fn signer(gateway: &Gateway) -> Result<Option<Signer>, ConfigError> {
    let Some(signing) = &gateway.signing else {
        return Ok(None);
    };
    // A call without the secret fails before it reaches the gateway.
    let source = &signing.key;
    if source
        .secret()
        .is_some_and(|secret| secret.value().is_err())
    {
        return Ok(None);
    }
    let signer = Signer::read(&signing.agent, source, |name| std::env::var(name).ok());
    signer
        .map(Some)
        .map_err(|error| ConfigError::at(format!("/gateway/signing/{}", source.member()), error))
}

/// Returns how to reach the configured gateway; `None` if it is disabled or its secret is unresolved.
///
/// # Errors
/// The configuration is invalid; the error names the place.
fn settings(config: &Config) -> Result<Option<Settings>, ConfigError> {
    let gateway = &config.gateway;
    if !gateway.enabled {
        return Ok(None);
    }
    let url = gateway_url(&gateway.url)
        .map_err(|reason| ConfigError::at("/gateway/url", format!("the URL {reason}")))?;
    Ok(Some(Settings {
        url,
        dialect: gateway.dialect,
        protocol: gateway.protocol.clone(),
        // A call without the secret fails before it reaches the gateway.
        token: gateway
            .token
            .as_ref()
            .and_then(|token| token.value().ok().cloned()),
        timeout: Duration::from_millis(gateway.timeout_ms),
        heartbeat: Duration::from_millis(gateway.heartbeat_ms),
        allow_remote: gateway.allow_remote,
        token_in_query: gateway.token_in_query,
        agents: gateway.agents.clone(),
        triad: gateway.triad.clone(),
        frame_bytes: config.limits.event_bytes,
        // A caller with a longer wait gets a task, as with every other peer.
        default_wait: Duration::from_millis(config.limits.wait_ms),
        trust: local_trust(gateway)?,
        signer: signer(gateway)?,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use gateway_bridge::DialectChoice;
    use secrecy::ExposeSecret as _;
    use serde_json::{Value, json};

    use super::*;

    fn read(gateway: Value) -> Option<Settings> {
        let config = json!({ "gateway": gateway, "limits": {"eventBytes": 4096, "waitMs": 5} });
        settings(&Config::parse(&config.to_string()).unwrap()).unwrap()
    }

    #[test]
    fn settings_match_the_configuration() {
        let settings = read(json!({
            "enabled": true, "url": "wss://gate.example/a", "dialect": "heretek-js", "protocol": "mine", "token": "s3cret",
            "timeoutMs": 1, "heartbeatMs": 2, "allowRemote": true, "tokenInQuery": true, "agents": ["alpha"],
            "triad": {"members": ["x", "y", "z"], "deadlineMs": 3, "quorum": "all"},
        }))
        .unwrap();
        assert_eq!(settings.url.as_str(), "wss://gate.example/a");
        assert_eq!(settings.dialect, DialectChoice::HeretekJs);
        assert_eq!(settings.protocol, "mine");
        assert_eq!(settings.token.unwrap().expose_secret(), "s3cret");
        assert_eq!(
            (settings.timeout, settings.heartbeat),
            (Duration::from_millis(1), Duration::from_millis(2))
        );
        assert!(settings.allow_remote && settings.token_in_query);
        assert_eq!(settings.agents, ["alpha"]);
        assert_eq!(settings.triad.members, ["x", "y", "z"]);
        assert_eq!(settings.triad.deadline_ms, 3);
        assert_eq!(settings.triad.quorum, collective::Quorum::All);
        assert_eq!(settings.frame_bytes, 4096);
        assert_eq!(settings.default_wait, Duration::from_millis(5));
    }

    #[test]
    fn unusable_signing_key_is_a_configuration_error() {
        for (member, value, message) in [
            ("keyFile", "/nonexistent/key.pem", "/nonexistent/key.pem"),
            ("key", "s3cret", "the secret holds no private key"),
        ] {
            let signing = json!({"agent": "steward", member: value});
            let gateway = json!({"enabled": true, "signing": signing});
            let config = Config::parse(&json!({ "gateway": gateway }).to_string()).unwrap();
            let error = settings(&config).map(drop).unwrap_err();
            assert_eq!(error.path, format!("/gateway/signing/{member}"));
            assert!(error.message.contains(message), "{error}");
            assert!(!error.message.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn signing_key_may_be_a_secret() {
        let pem = base::jws::SigningKey::generate_pem().unwrap();
        let signing = |key: Value| {
            let signing = json!({"agent": "steward", "key": key});
            let signer = read(json!({"enabled": true, "signing": signing})).unwrap();
            signer.signer.map(|signer| signer.name().to_owned())
        };
        let resolved = json!({"source": "resolved", "id": pem});
        for key in [json!(pem), resolved] {
            assert_eq!(signing(key).as_deref(), Some("steward"));
        }
        assert_eq!(signing(json!({"source": "env", "id": "KEY"})), None);
    }

    #[test]
    fn signing_key_has_one_source() {
        for signing in [
            json!({"agent": "steward"}),
            json!({"agent": "steward", "keyFile": "a", "credential": "b"}),
        ] {
            let config = json!({"gateway": {"signing": signing}});
            let error = Config::parse(&config.to_string()).unwrap_err();
            assert_eq!(error.path, "/gateway/signing");
            assert!(error.message.contains("exactly one of"), "{error}");
        }
    }

    #[test]
    fn disabled_gateway_has_no_settings() {
        assert!(read(json!({"token": "s3cret"})).is_none());
    }
}
