//! Checks rules of the configuration that its schema cannot express, and resolves its paths, the task store, and
//! references to secrets.

use std::collections::HashSet;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use a2a_server::service::ANONYMOUS_CLIENT;
use base::config::{self, ConfigError, Secret, gateway_url, normal_url};
use http_server::host::{is_loopback, parse_network};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::{ClientConfig, ExecutorKind, ServeConfig, TaskStoreKind};

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
    // The type reads the text as it is, and its error would quote it: a path may be a secret.
    normal_url(url)
        .and_then(|_| Url::parse(url).map_err(|error| format!("is not a URL: {error}")))
        .map(drop)
        .map_err(|problem| ConfigError::at(place, format!("the URL {problem}")))
}

/// Checks combinations of settings. `clients` are all clients.
pub(super) fn check(config: &ServeConfig, clients: &[ClientConfig]) -> Result<(), ConfigError> {
    check_exposure(config, !clients.is_empty())?;
    let tls = config.tls.as_ref();
    names(clients, tls.is_some_and(|tls| tls.client_ca_file.is_some()))?;
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
    let http = config.limits.http();
    if http.total_body_bytes < http.body_bytes {
        let message = "smaller than one body of `bodyBytes`; increase it";
        return Err(ConfigError::at("/limits/totalBodyBytes", message));
    }
    if http.body_bytes_per_client < http.body_bytes {
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

fn names(clients: &[ClientConfig], has_client_ca: bool) -> Result<(), ConfigError> {
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
        let place = format!("/clients/{i}");
        if client.proof().is_none() {
            let message =
                "a client has one of `sha256`, `certificateSha256`, or `issuer` with `audience`";
            return Err(ConfigError::at(place, message));
        }
        if client.issuer.is_none() && !client.claims.is_empty() {
            let message = "claims are those of an issuer's tokens; set `issuer`, or remove them";
            return Err(ConfigError::at(format!("{place}/claims"), message));
        }
        if let Some(issuer) = &client.issuer
            && issuer.scheme() != "https"
            && !issuer.host_str().is_some_and(is_loopback)
        {
            let message = "the issuer is not https, so anyone on the way could sign in; write its address with https";
            return Err(ConfigError::at(format!("{place}/issuer"), message));
        }
        if client.certificate_sha256.is_some() && !has_client_ca {
            let message = "no client shows a certificate without `tls.clientCaFile`; set it";
            return Err(ConfigError::at(
                format!("{place}/certificateSha256"),
                message,
            ));
        }
        for (key, digest) in [
            ("sha256", &client.sha256),
            ("certificateSha256", &client.certificate_sha256),
        ] {
            let Some(digest) = digest else {
                continue;
            };
            if !digests.insert((key, digest.to_ascii_lowercase())) {
                let message = "another client has the same token or certificate; give each its own";
                return Err(ConfigError::at(format!("{place}/{key}"), message));
            }
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

/// Returns the default state directory: `openclaw-remote-agent/serve` in `$XDG_STATE_HOME`, or else in
/// `~/.local/state`. `variable` returns the value of an environment variable.
pub fn default_state_dir(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    config::default_state_dir("serve", variable)
}

/// Resolves relative paths against `folder`, and `~/` against the home directory. A command without `/` is resolved by
/// `PATH` later.
///
/// # Errors
/// The task store has none of its forms.
pub(super) fn resolve_paths(config: &mut ServeConfig, folder: &Path) -> Result<(), ConfigError> {
    let mut paths = vec![&mut config.state_dir];
    if let Some(tls) = &mut config.tls {
        paths.extend([&mut tls.cert_file, &mut tls.key_file]);
        paths.extend(&mut tls.client_ca_file);
    }
    paths.extend(&mut config.signing_keys);
    paths.extend(&mut config.gateway.ca_file);
    paths.extend(&mut config.working_directory);
    if config.openclaw_path.components().count() > 1 {
        paths.push(&mut config.openclaw_path);
    }
    for path in paths {
        *path = config::resolved(path, folder);
    }
    if let Some(Secret::Known(value)) = &config.task_store
        && let TaskStoreKind::Directory(path) = parse_task_store(value.expose_secret(), folder)?
    {
        let path = config::resolved(&path, folder)
            .to_string_lossy()
            .into_owned();
        config.task_store = Some(Secret::Known(path.into()));
    }
    Ok(())
}

/// Replaces members of `config` by those of `overrides`, key by key.
pub(super) fn merge(config: &mut Value, overrides: Value) {
    match (config, overrides) {
        (Value::Object(config), Value::Object(overrides)) => {
            for (key, value) in overrides {
                merge(config.entry(key).or_insert(Value::Null), value);
            }
        }
        (config, overrides) => *config = overrides,
    }
}

/// Returns the store that a configuration names.
pub(super) fn resolve_task_store(
    value: &Secret,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<TaskStoreKind, ConfigError> {
    let value = secret(value, "/taskStore", variable)?;
    parse_task_store(value.expose_secret(), Path::new(""))
}

/// Parses the task store. The error does not contain the text, which may be an address with a password.
fn parse_task_store(value: &str, folder: &Path) -> Result<TaskStoreKind, ConfigError> {
    match value {
        "memory" => Ok(TaskStoreKind::Memory),
        _ if value.starts_with("redis://") || value.starts_with("rediss://") => {
            Ok(TaskStoreKind::Redis(value.into()))
        }
        _ if names_directory(value, folder) => {
            let path = config::resolved(Path::new(value), Path::new(""));
            Ok(TaskStoreKind::Directory(path))
        }
        _ => {
            let message = "is no task store; write `memory`, a directory such as `./tasks` or `/var/lib/tasks`, `redis://HOST` or \
                           `rediss://HOST`";
            Err(ConfigError::at("/taskStore", message))
        }
    }
}

/// Returns whether a task store is a directory: a path with a separator, or a directory that exists in `folder`. A
/// misspelled `memory` or address is none.
pub fn names_directory(value: &str, folder: &Path) -> bool {
    if matches!(value, "." | ".." | "~")
        || ["/", "./", "../", "~/"]
            .iter()
            .any(|start| value.starts_with(start))
    {
        return true;
    }
    let first = value.split('/').next().unwrap_or_default();
    let is_store = ["memory", "redis", "rediss", "sqlite"]
        .iter()
        .any(|name| first.eq_ignore_ascii_case(name));
    let is_path = value.contains('/') && !value.contains("//") && !first.contains(':') && !is_store;
    is_path || (!value.is_empty() && folder.join(value).is_dir())
}

/// Returns the value of a secret.
pub(super) fn secret(
    secret: &Secret,
    place: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<SecretString, ConfigError> {
    let resolved = secret.resolve(variable);
    resolved.map_err(|message| ConfigError::at(place, message))
}
