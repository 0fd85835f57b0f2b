//! Converts the configuration of the local gateway into the settings of the bridge.

use std::time::Duration;

use crate::config::{Config, ConfigError, Gateway, Secret, gateway_url};
use crate::targets::local_trust;
use gateway_bridge::{Settings, TriadSettings};

/// Returns how to reach the configured gateway; `None` where it is disabled or its secret is unresolved.
///
/// # Errors
/// The configuration is invalid; the error names the place.
pub(super) fn settings(config: &Config) -> Result<Option<Settings>, ConfigError> {
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
        token: gateway.token.as_ref().and_then(|token| match token {
            Secret::Known(token) | Secret::Resolved(token) => Some(token.clone()),
            Secret::Unresolved { .. } => None,
        }),
        timeout: Duration::from_millis(gateway.timeout_ms),
        heartbeat: Duration::from_millis(gateway.heartbeat_ms),
        allow_remote: gateway.allow_remote,
        token_in_query: gateway.token_in_query,
        agents: gateway.agents.clone(),
        triad: triad(gateway),
        frame_bytes: config.limits.event_bytes,
        // A caller with a longer wait gets a task, as with every other peer.
        default_wait: Duration::from_millis(config.limits.wait_ms),
        trust: local_trust(gateway)?,
    }))
}

fn triad(gateway: &Gateway) -> TriadSettings {
    TriadSettings {
        members: gateway.triad.members.clone(),
        deadline: Duration::from_millis(gateway.triad.deadline_ms),
        quorum: gateway.triad.quorum,
    }
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
        assert_eq!(settings.triad.deadline, Duration::from_millis(3));
        assert_eq!(settings.triad.quorum, collective::Quorum::All);
        assert_eq!(settings.frame_bytes, 4096);
        assert_eq!(settings.default_wait, Duration::from_millis(5));
    }

    #[test]
    fn disabled_gateway_has_no_settings() {
        assert!(read(json!({"token": "s3cret"})).is_none());
    }
}
