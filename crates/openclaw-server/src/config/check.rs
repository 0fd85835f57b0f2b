//! Checks rules of the configuration that its schema cannot express.

use std::collections::HashSet;
use std::net::SocketAddr;

use a2a_server::service::ANONYMOUS_CLIENT;
use http_server::host::is_loopback;
use http_server::host::parse_network;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;
use url::Url;

use super::{ClientConfig, ExecutorKind, ServeConfig};
use base::config::{ConfigError, gateway_url, normal_url};
use base::validation;

/// Converts an error of the schema validation.
pub(super) fn from_schema(error: &jsonschema::ValidationError<'_>) -> ConfigError {
    let (place, message) = validation::sentence(error);
    // In the schema, only secrets have alternatives.
    if matches!(error.kind(), ValidationErrorKind::AnyOf { .. }) {
        let message = "must be a string that is not empty, or a SecretRef `{\"source\": \"env\", \"id\": VARIABLE}`";
        return ConfigError::at(place, message);
    }
    ConfigError::at(place, message)
}

/// Checks values whose parser would report an error without a JSON Pointer.
pub(super) fn check_raw(value: &Value) -> Result<(), ConfigError> {
    if let Some(listen) = value.get("listen").and_then(Value::as_str)
        && listen.parse::<SocketAddr>().is_err()
    {
        let message = format!(
            "`{}` is not an address with a port; write it as `127.0.0.1:9000` or `[::1]:9000`",
            listen.escape_debug()
        );
        return Err(ConfigError::at("/listen", message));
    }
    for key in ["publicUrl", "documentationUrl"] {
        if let Some(url) = value.get(key).and_then(Value::as_str) {
            check_url(url, &format!("/{key}"))?;
        }
    }
    let allowed = value.pointer("/push/allowedUrls").and_then(Value::as_array);
    for (i, url) in allowed.into_iter().flatten().enumerate() {
        let place = format!("/push/allowedUrls/{i}");
        check_url(url.as_str().unwrap_or_default(), &place)?;
    }
    Ok(())
}

fn check_url(url: &str, place: &str) -> Result<(), ConfigError> {
    normal_url(url)
        .map(drop)
        .map_err(|problem| ConfigError::at(place, format!("the URL {problem}")))
}

/// Checks combinations of settings. `clients` are all clients.
pub(super) fn check(config: &ServeConfig, clients: &[ClientConfig]) -> Result<(), ConfigError> {
    check_exposure(config, !clients.is_empty())?;
    names(clients)?;
    for (i, text) in config.trusted_proxies.iter().enumerate() {
        let place = format!("/trustedProxies/{i}");
        if parse_network(text).is_none() {
            let message = format!(
                "`{}` is not an address; write it as `10.0.0.7` or `10.0.0.0/24`",
                text.escape_debug()
            );
            return Err(ConfigError::at(place, message));
        }
    }
    if !config.trusted_proxies.is_empty() && !config.behind_proxy {
        let message = "it has no effect without `behindProxy`; set that, or remove this";
        return Err(ConfigError::at("/trustedProxies", message));
    }
    if config.executor == ExecutorKind::Gateway {
        gateway(config)?;
    }
    if config.limits.total_body_bytes < config.limits.body_bytes {
        let message = "smaller than one body of `bodyBytes`; increase it";
        return Err(ConfigError::at("/limits/totalBodyBytes", message));
    }
    if config.limits.body_share() < config.limits.body_bytes {
        let message = "smaller than one body of `bodyBytes`; increase it, or omit it";
        return Err(ConfigError::at("/limits/bodyBytesPerClient", message));
    }
    Ok(())
}

/// Checks that a server for other machines has authentication and TLS.
fn check_exposure(config: &ServeConfig, has_clients: bool) -> Result<(), ConfigError> {
    const CLIENTS: &str = "add a client with `remote-agent serve clients add NAME`";
    if !config.listen.ip().to_canonical().is_loopback() {
        if !has_clients {
            let message = format!(
                "other machines can reach `{}`, and no client needs a token; {CLIENTS} and secure the connections with --tls-cert and --tls-key, or listen on 127.0.0.1",
                config.listen
            );
            return Err(ConfigError::at("/listen", message));
        }
        if config.tls.is_none() && !config.behind_proxy {
            let message = format!(
                "other machines can reach `{}`, and tokens would cross the network unencrypted; set `tls` (`--tls-cert`, `--tls-key`), or `behindProxy` where a proxy secures connections, or listen on 127.0.0.1",
                config.listen
            );
            return Err(ConfigError::at("/listen", message));
        }
    }
    if config.behind_proxy && !has_clients {
        let message = format!(
            "a client of the proxy reaches the server, and no client needs a token; {CLIENTS}"
        );
        return Err(ConfigError::at("/behindProxy", message));
    }
    let host = config.public_url.as_ref().and_then(Url::host_str);
    if !has_clients && host.is_some_and(|host| !is_loopback(host)) {
        let message = format!(
            "other machines can reach it, and no client needs a token; {CLIENTS}, or remove it"
        );
        return Err(ConfigError::at("/publicUrl", message));
    }
    Ok(())
}

fn names(clients: &[ClientConfig]) -> Result<(), ConfigError> {
    let mut names = HashSet::new();
    let mut digests = HashSet::new();
    for (i, client) in clients.iter().enumerate() {
        if client.name == ANONYMOUS_CLIENT {
            let message = format!(
                "`{ANONYMOUS_CLIENT}` is reserved for clients without authentication; choose another name"
            );
            return Err(ConfigError::at(format!("/clients/{i}/name"), message));
        }
        if !names.insert(client.name.as_str()) {
            let message = format!(
                "the client `{}` already exists, here or in `remote-agent serve clients`; choose another name",
                client.name
            );
            return Err(ConfigError::at(format!("/clients/{i}/name"), message));
        }
        if !digests.insert(client.sha256.to_ascii_lowercase()) {
            let message = "another client has the same token; create one token per client";
            return Err(ConfigError::at(format!("/clients/{i}/sha256"), message));
        }
    }
    Ok(())
}

fn gateway(config: &ServeConfig) -> Result<(), ConfigError> {
    let invalid = |message: String| Err(ConfigError::at("/gateway/url", message));
    let url = match gateway_url(&config.gateway.url()) {
        Ok(url) => url,
        Err(why) => return invalid(format!("the URL {why}")),
    };
    let here = url.host_str().is_some_and(is_loopback);
    let secured = config.gateway.allow_remote && url.scheme() == "wss";
    if !(here || secured) {
        return invalid(
            "the gateway is not on this machine, which needs `gateway.allowRemote` and an address that begins with `wss:`"
                .into(),
        );
    }
    if config.gateway.ca_file.is_some() && url.scheme() != "wss" {
        let message = "it has no effect on an address that begins with `ws:`; remove it";
        return Err(ConfigError::at("/gateway/caFile", message));
    }
    Ok(())
}
