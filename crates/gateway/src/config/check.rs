//! Validates the parts of a configuration that the schema cannot express.

use std::collections::HashSet;
use std::net::SocketAddr;

use serde_json::Value;
use url::Url;

use super::{
    AuthConfig, BackendConfig, JwtAlgorithm, Permissions, ServerConfig, SigningMode, message_keys,
};
use base::config::{ConfigError, gateway_url, normal_url};
use base::key_source::KeySource;
use base::validation::escape;
use collective::GATEWAY;
use egress::address::is_this_machine;

/// Validates values whose parse errors would have no JSON Pointer.
pub(super) fn check_raw(value: &Value) -> Result<(), ConfigError> {
    let keys = value.pointer("/sessions/encryption/keys");
    let keys = keys.and_then(Value::as_array).into_iter().flatten();
    for (i, key) in keys.enumerate() {
        KeySource::check(key, false).map_err(|message| {
            ConfigError::at(format!("/sessions/encryption/keys/{i}"), message)
        })?;
    }
    if let Some(signing) = value.get("signing") {
        KeySource::check(signing, true).map_err(|message| ConfigError::at("/signing", message))?;
    }
    let Some(listen) = value.get("listen").and_then(Value::as_str) else {
        return Ok(());
    };
    if listen.parse::<SocketAddr>().is_err() {
        let message = format!(
            "`{}` is not an address with a port; write it as `127.0.0.1:18789` or `[::1]:18789`",
            listen.escape_debug()
        );
        return Err(ConfigError::at("/listen", message));
    }
    Ok(())
}

/// Validates a configuration that conforms to the schema.
pub(super) fn check(config: ServerConfig) -> Result<ServerConfig, ConfigError> {
    if !config.listen.ip().is_loopback() && (config.tls.is_none() || config.auth.is_none()) {
        let message = format!(
            "other machines can reach `{}`, so `tls` and `auth` are required; set both, or listen on 127.0.0.1",
            config.listen
        );
        return Err(ConfigError::at("/listen", message));
    }
    for (i, origin) in config.origins.iter().enumerate() {
        let exact = Url::parse(origin).map(|url| url.origin().ascii_serialization());
        if exact.as_ref() != Ok(origin) {
            let message = "not an origin; write scheme, host and port as a browser does, such as `https://console.example`";
            return Err(ConfigError::at(format!("/origins/{i}"), message));
        }
    }
    let agents = config.agents.iter().map(|agent| agent.name.as_str());
    // A workspace is a directory, and some file systems are case-insensitive.
    unique(agents, "/agents", "name", str::to_ascii_lowercase)?;
    if config.signing.pin_first_use && config.greatest_signing_mode() == SigningMode::Off {
        let message = "it has no effect, because no signature is verified; set `signing.mode` to `verify` or `require`";
        return Err(ConfigError::at("/signing/pinFirstUse", message));
    }
    for (i, agent) in config.agents.iter().enumerate() {
        message_keys(i, agent)?;
        if let Some(backend) = &agent.backend {
            check_backend(backend, &format!("/agents/{i}/backend"))?;
        }
    }
    let services = config.services.iter().map(|one| one.service_id.as_str());
    unique(services, "/services", "serviceId", str::to_owned)?;
    for (i, service) in config.services.iter().enumerate() {
        if service.service_id == GATEWAY {
            let message = "this is the name of the gateway's own service; choose another";
            return Err(ConfigError::at(format!("/services/{i}/serviceId"), message));
        }
        let urls = [
            ("endpoint", Some(&service.endpoint)),
            ("healthEndpoint", service.health_endpoint.as_ref()),
        ];
        for (key, url) in urls {
            url.map_or(Ok(()), |url| normal_url(url).map(drop))
                .map_err(|reason| {
                    ConfigError::at(format!("/services/{i}/{key}"), format!("the URL {reason}"))
                })?;
        }
    }
    check_links(&config)?;
    let members = config.triad.members.iter().map(String::as_str);
    unique(members, "/triad/members", "", str::to_owned)?;
    if let Some(auth) = &config.auth {
        check_auth(auth, &config)?;
    }
    if let Some(i) = config
        .agents
        .iter()
        .position(|agent| agent.permissions.as_ref().is_some_and(may_serve_others))
    {
        let message = "an agent acts only as itself; grant `serve` to a role in `roles`";
        let place = format!("/agents/{i}/permissions/serve");
        return Err(ConfigError::at(place, message));
    }
    if config.limits.queue_bytes > config.limits.total_queue_bytes {
        let message = "larger than `totalQueueBytes`; lower it, or raise the total";
        return Err(ConfigError::at("/limits/queueBytes", message));
    }
    if config.limits.queue_bytes < config.limits.frame_bytes {
        let message = "smaller than one frame of `frameBytes`; raise it";
        return Err(ConfigError::at("/limits/queueBytes", message));
    }
    if config.limits.idle_ms <= config.heartbeat_ms {
        let message =
            "the gateway would close clients before their first ping; set it above `heartbeatMs`";
        return Err(ConfigError::at("/limits/idleMs", message));
    }
    Ok(config)
}

fn check_backend(backend: &BackendConfig, place: &str) -> Result<(), ConfigError> {
    if backend.kinds().count() != 1 {
        let message = "name exactly one of `run`, `model`, `target` and `openclaw`";
        return Err(ConfigError::at(place, message));
    }
    if let Some(model) = &backend.model {
        normal_url(&model.url).map_err(|reason| {
            ConfigError::at(format!("{place}/model/url"), format!("the URL {reason}"))
        })?;
    }
    let url = backend.openclaw.as_ref();
    if let Some(url) = url.and_then(|openclaw| openclaw.url.as_deref()) {
        gateway_url(url).map_err(|reason| {
            ConfigError::at(format!("{place}/openclaw/url"), format!("the URL {reason}"))
        })?;
    }
    Ok(())
}

fn check_links(config: &ServerConfig) -> Result<(), ConfigError> {
    let names = config.links.iter().map(|link| link.name.as_str());
    unique(names, "/links", "name", str::to_ascii_lowercase)?;
    let certificates = config
        .auth
        .as_ref()
        .map(|auth| auth.certificates.as_slice());
    for (i, link) in config.links.iter().enumerate() {
        let failed =
            |key: &str, message: &str| Err(ConfigError::at(format!("/links/{i}{key}"), message));
        let files = [&link.cert_file, &link.key_file, &link.ca_file];
        match (&link.url, &link.certificate) {
            (Some(url), None) => {
                let url = gateway_url(url).map_err(|reason| {
                    ConfigError::at(format!("/links/{i}/url"), format!("the URL {reason}"))
                })?;
                if url.scheme() == "ws" && !is_this_machine(&url) {
                    return failed(
                        "/url",
                        "gateways on other machines need TLS; begin the URL with `wss:`",
                    );
                }
                if url.scheme() == "wss" && (link.cert_file.is_none() || link.key_file.is_none()) {
                    let message =
                        "gateways authenticate with certificates; set `certFile` and `keyFile`";
                    return failed("", message);
                }
            }
            (None, Some(name)) => {
                if files.into_iter().any(Option::is_some) {
                    let message = "`certFile`, `keyFile` and `caFile` are for the gateway that dials; remove them, or set `url`";
                    return failed("", message);
                }
                let mut earlier = config.links.iter().take(i);
                if earlier.any(|other| other.certificate == link.certificate) {
                    return failed("/certificate", "duplicate; use it once");
                }
                let mut known = certificates.into_iter().flatten();
                if !known.any(|one| one.name == *name) {
                    return failed(
                        "/certificate",
                        "no certificate in `auth.certificates` has this name; add it",
                    );
                }
            }
            _ => {
                let message = "set either `url`, to dial the other gateway, or `certificate`, by which it connects";
                return failed("", message);
            }
        }
    }
    Ok(())
}

fn may_serve_others(permissions: &Permissions) -> bool {
    !permissions.serve.is_empty()
}

fn check_auth(auth: &AuthConfig, config: &ServerConfig) -> Result<(), ConfigError> {
    if auth.keys.is_empty() && auth.jwt.is_none() && auth.certificates.is_empty() {
        let message =
            "no client could connect; add `keys`, `jwt` or `certificates`, or remove `auth`";
        return Err(ConfigError::at("/auth", message));
    }
    let names = auth.keys.iter().map(|key| key.name.as_str());
    unique(names, "/auth/keys", "name", str::to_owned)?;
    let digests = auth.keys.iter().map(|key| key.sha256.as_str());
    unique(digests, "/auth/keys", "sha256", str::to_ascii_lowercase)?;
    for (i, key) in auth.keys.iter().enumerate() {
        check_roles(&key.roles, config, &format!("/auth/keys/{i}"))?;
        if let Some(time) = &key.expires_at
            && humantime::parse_rfc3339(time).is_err()
        {
            let place = format!("/auth/keys/{i}/expiresAt");
            let message = "not a time in UTC; write it as `2027-01-31T00:00:00Z`";
            return Err(ConfigError::at(place, message));
        }
    }
    let digests = auth.certificates.iter().map(|one| one.sha256.as_str());
    unique(digests, "/auth/certificates", "sha256", |digest| {
        digest.replace(':', "").to_ascii_lowercase()
    })?;
    for (i, one) in auth.certificates.iter().enumerate() {
        check_roles(&one.roles, config, &format!("/auth/certificates/{i}"))?;
    }
    let requests_certificates = config
        .tls
        .as_ref()
        .is_some_and(|tls| tls.client_ca_file.is_some());
    if !auth.certificates.is_empty() && !requests_certificates {
        let message = "the gateway does not request client certificates; set `tls.clientCaFile`";
        return Err(ConfigError::at("/auth/certificates", message));
    }
    let Some(jwt) = &auth.jwt else {
        return Ok(());
    };
    let shared = jwt.alg == JwtAlgorithm::Hs256;
    let (needed, other) = if shared {
        (("keyFile", &jwt.key_file), ("jwksFile", &jwt.jwks_file))
    } else {
        (("jwksFile", &jwt.jwks_file), ("keyFile", &jwt.key_file))
    };
    if other.1.is_some() {
        let message = format!(
            "it has no effect with {}, which needs `{}`",
            jwt.alg.as_str(),
            needed.0
        );
        return Err(ConfigError::at(format!("/auth/jwt/{}", other.0), message));
    }
    if needed.1.is_none() {
        let message = format!("{} needs `{}`", jwt.alg.as_str(), needed.0);
        return Err(ConfigError::at("/auth/jwt", message));
    }
    Ok(())
}

fn check_roles(roles: &[String], config: &ServerConfig, place: &str) -> Result<(), ConfigError> {
    let unknown = |role: &&String| !config.roles.contains_key(*role);
    match roles.iter().find(unknown) {
        Some(role) => {
            let message = format!(
                "there is no role `{}`; add `/roles/{}`",
                role.escape_debug(),
                escape(role)
            );
            Err(ConfigError::at(format!("{place}/roles"), message))
        }
        None => Ok(()),
    }
}

/// Refuses the second of two equal names.
fn unique<'a>(
    names: impl Iterator<Item = &'a str>,
    place: &str,
    key: &str,
    same: impl Fn(&str) -> String,
) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for (i, name) in names.enumerate() {
        if !seen.insert(same(name)) {
            let slash = if key.is_empty() { "" } else { "/" };
            let message = "duplicate; use it once";
            return Err(ConfigError::at(format!("{place}/{i}{slash}{key}"), message));
        }
    }
    Ok(())
}
