//! Reads the port and the token of the gateway from OpenClaw's own configuration.

use std::ffi::OsString;
use std::io::ErrorKind;

use serde::Deserialize;
use serde_json::Value;

use super::GatewayConfig;
use crate::openclaw_file::{self, Location, ReadError, substitute};
use base::config::{ConfigError, Secret};

/// The port of a gateway if OpenClaw's configuration contains none.
const DEFAULT_PORT: u16 = 18789;

/// Returns the URL of a gateway before OpenClaw's configuration is read.
pub(super) fn default_url() -> String {
    url("ws", DEFAULT_PORT)
}

fn url(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OpenClawConfig {
    gateway: Gateway,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Gateway {
    port: Option<u16>,
    tls: Tls,
    auth: Auth,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tls {
    enabled: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    mode: Option<String>,
    token: Value,
    password: Value,
}

/// Returns the gateway of the OpenClaw on this machine: its URL, and the token that it accepts if there is one. `token` is
/// the configured token. `variable` returns the value of an environment variable.
///
/// # Errors
/// OpenClaw's configuration cannot be read, or its gateway accepts no token that this process knows.
pub fn local_gateway(
    token: Option<Secret>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(String, Option<Secret>), ConfigError> {
    let mut gateway = GatewayConfig {
        token,
        ..GatewayConfig::default()
    };
    complete(&mut gateway, &variable)?;
    let named = || variable("OPENCLAW_GATEWAY_TOKEN")?.into_string().ok();
    let named = || named().filter(|token| !token.trim().is_empty());
    let url = gateway.url().into_owned();
    let token = gateway
        .token
        .or_else(|| named().map(|token| Secret::Known(token.into())));
    Ok((url, token))
}

/// Sets the URL and the token of a gateway without a URL. The values are those of OpenClaw's configuration, unless
/// `OPENCLAW_GATEWAY_PORT` and `OPENCLAW_GATEWAY_TOKEN` override them. `variable` returns the value of an environment
/// variable.
///
/// # Errors
/// OpenClaw's configuration cannot be read, or its gateway accepts no token that this process knows.
pub(super) fn complete(
    gateway: &mut GatewayConfig,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), ConfigError> {
    if gateway.url.is_some() {
        return Ok(());
    }
    let text = |name: &str| {
        let text = variable(name)?.into_string().ok()?;
        (!text.trim().is_empty()).then_some(text)
    };
    let port = match text("OPENCLAW_GATEWAY_PORT") {
        Some(port) => Some(port.trim().parse().map_err(|_| {
            let message = "the environment variable `OPENCLAW_GATEWAY_PORT` is no port, a number from 1 to 65535; correct or unset it";
            ConfigError::at("/gateway", message.to_owned())
        })?),
        None => None,
    };
    let needs_no_token = gateway.token.is_some() || text("OPENCLAW_GATEWAY_TOKEN").is_some();
    let gateway_config = match read(&variable) {
        // The environment provides the port, and the token is not needed, so ignore the error.
        Err(_) if port.is_some() && needs_no_token => Gateway::default(),
        gateway_config => gateway_config?,
    };
    let scheme = if gateway_config.tls.enabled {
        "wss"
    } else {
        "ws"
    };
    let port: u16 = port.or(gateway_config.port).unwrap_or(DEFAULT_PORT);
    gateway.url = Some(url(scheme, port));
    if !needs_no_token {
        // Without a value, connect without a token; the gateway reports that it requires one.
        let token = token(gateway_config.auth, text)?;
        gateway.token = token.filter(|token| token.resolve(text).is_ok());
    }
    Ok(())
}

fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Gateway, ConfigError> {
    let Some(Location { file, is_named }) = openclaw_file::locate(&variable) else {
        return Ok(Gateway::default());
    };
    let file_error = |cause: &str| {
        let message = format!(
            "cannot read the gateway's port and token from `{}`: {cause}; correct the file, or name the gateway with `--gateway URL`",
            file.display()
        );
        ConfigError::at("/gateway", message)
    };
    let config = match openclaw_file::read(&file, &variable) {
        Err(ReadError::Io(error)) if error.kind() == ErrorKind::NotFound && !is_named => {
            return Ok(Gateway::default());
        }
        config => config.map_err(|error| file_error(&error.to_string()))?,
    };
    // The error of the parser quotes a value, which may be a secret.
    let config: OpenClawConfig = serde_json::from_value(config)
        .map_err(|_| file_error("`gateway` has values of other types than OpenClaw's"))?;
    Ok(config.gateway)
}

/// Returns the token: a text, in which `${NAME}` is a variable, or a SecretRef. Returns
/// `None` if the gateway requires no token, or its configuration contains none.
///
/// # Errors
/// The gateway authenticates in another way, or a variable in the text is not set.
fn token(
    auth: Auth,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<Secret>, ConfigError> {
    let has_only_password = auth.token.is_null() && !auth.password.is_null();
    // As OpenClaw chooses a mode that is not set.
    let default_mode = if has_only_password {
        "password"
    } else {
        "token"
    };
    match auth.mode.as_deref().unwrap_or(default_mode) {
        "none" => return Ok(None),
        mode @ ("password" | "trusted-proxy") => {
            let message = format!(
                "cannot authenticate to OpenClaw's gateway: its `gateway.auth.mode` is `{mode}`, and this server has a token only; set the mode to `token` with `openclaw config set gateway.auth.mode token`, or name the gateway with `--gateway URL`"
            );
            return Err(ConfigError::at("/gateway", message));
        }
        _ => {}
    }
    let Value::String(text) = auth.token else {
        return Ok(serde_json::from_value(auth.token).ok());
    };
    let text = substitute(&text, variable).map_err(|name| {
        let message = format!(
            "cannot read `gateway.auth.token` of OpenClaw's configuration: the environment variable `{name}` is not set; set it, or `OPENCLAW_GATEWAY_TOKEN` to the token"
        );
        ConfigError::at("/gateway", message)
    })?;
    Ok(Some(Secret::Known(text.into())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use secrecy::ExposeSecret as _;

    use super::*;

    fn completed(text: &str, variables: &[(&str, &str)]) -> Result<GatewayConfig, ConfigError> {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("openclaw.json");
        std::fs::write(&file, text).unwrap();
        let mut gateway = GatewayConfig::default();
        complete(&mut gateway, |name| in_file(&file, variables, name))?;
        Ok(gateway)
    }

    fn in_file(file: &Path, variables: &[(&str, &str)], name: &str) -> Option<OsString> {
        if name == "OPENCLAW_CONFIG_PATH" {
            return Some(file.into());
        }
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.into())
    }

    fn token_of(gateway: &GatewayConfig) -> Option<&str> {
        match gateway.token.as_ref()? {
            Secret::Known(token) | Secret::Resolved(token) => Some(token.expose_secret()),
            Secret::Unresolved { id, .. } => Some(id),
        }
    }

    #[test]
    fn url_and_token_of_openclaw_complete_the_gateway() {
        let port = ("OPENCLAW_GATEWAY_PORT", "29000");
        let token = ("OPENCLAW_GATEWAY_TOKEN", "new");
        let gate = ("GATE", "value");
        let json5 =
            "{gateway: {port: 28789, auth: {mode: 'token', token: 'seen'}}, /* JSON5 */ other: 1,}";
        let reference =
            "{gateway: {auth: {token: {source: 'env', provider: 'default', id: 'GATE'}}}}";
        let no_token = "{gateway: {auth: {mode: 'none', token: 'old'}}}";
        for (text, variables, url, token) in [
            (json5, &[][..], "ws://127.0.0.1:28789", Some("seen")),
            (json5, &[port, token], "ws://127.0.0.1:29000", None),
            (reference, &[gate], "ws://127.0.0.1:18789", Some("GATE")),
            (reference, &[], "ws://127.0.0.1:18789", None),
            (no_token, &[], "ws://127.0.0.1:18789", None),
            (
                "{gateway: {tls: {enabled: true}}}",
                &[],
                "wss://127.0.0.1:18789",
                None,
            ),
        ] {
            let gateway = completed(text, variables).unwrap();
            assert_eq!(gateway.url.as_deref(), Some(url), "{text}");
            assert_eq!(token_of(&gateway), token, "{text}");
        }
    }

    #[test]
    fn variables_in_a_token_are_substituted() {
        for (token, expected) in [
            ("${GATE}", "value"),
            ("a-${GATE}-${GATE}", "a-value-value"),
            ("$${GATE}$", "${GATE}$"),
            ("${${GATE}}", "${value}"),
            ("${gate}${", "${gate}${"),
        ] {
            let text = format!("{{gateway: {{auth: {{token: '{token}'}}}}}}");
            let gateway = completed(&text, &[("GATE", "value")]).unwrap();
            assert_eq!(token_of(&gateway), Some(expected), "{token}");
        }
    }

    #[test]
    fn unset_variable_in_a_token_is_an_error() {
        let text = "{gateway: {auth: {token: 's3cret-${GATE}'}}}";
        let message = completed(text, &[]).unwrap_err().to_string();
        assert!(message.contains("`gateway.auth.token`"), "{message}");
        assert!(message.contains("`GATE` is not set"), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
        completed(text, &[("OPENCLAW_GATEWAY_TOKEN", "new")]).unwrap();
    }

    #[test]
    fn gateway_that_accepts_no_token_is_refused() {
        for (auth, mode) in [
            ("mode: 'password', token: 'old', password: 'p'", "password"),
            ("password: 'p'", "password"),
            ("mode: 'trusted-proxy', token: 'old'", "trusted-proxy"),
        ] {
            let text = format!("{{gateway: {{auth: {{{auth}}}}}}}");
            let message = completed(&text, &[]).unwrap_err().to_string();
            let named = format!("`gateway.auth.mode` is `{mode}`");
            assert!(message.contains(&named), "{message}");
        }
    }

    #[test]
    fn invalid_file_matters_only_if_it_is_needed() {
        let port = ("OPENCLAW_GATEWAY_PORT", "29000");
        let token = ("OPENCLAW_GATEWAY_TOKEN", "new");
        let gateway = completed("{", &[port, token]).unwrap();
        assert_eq!(gateway.url.as_deref(), Some("ws://127.0.0.1:29000"));
        completed("{", &[port]).unwrap_err();
        let error = completed("{}", &[("OPENCLAW_GATEWAY_PORT", "http")]).unwrap_err();
        assert!(error.to_string().contains("OPENCLAW_GATEWAY_PORT"));
    }

    #[test]
    fn missing_file_that_a_variable_names_is_an_error() {
        let variable = |name: &str| match name {
            "HOME" => Some("/nowhere".into()),
            "OPENCLAW_CONFIG_PATH" => Some("~/none.json".into()),
            _ => None,
        };
        let error = complete(&mut GatewayConfig::default(), variable).unwrap_err();
        assert!(error.to_string().contains("/nowhere/none.json"), "{error}");
    }

    #[test]
    fn invalid_file_is_named_without_its_text() {
        let error = completed("{\"gateway\":\n {\"auth\": {\"token\": s3cret", &[]).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("openclaw.json`: line 2"), "{message}");
        assert!(message.contains("--gateway URL"), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }

    #[test]
    fn token_goes_to_no_gateway_that_is_named() {
        let mut gateway = GatewayConfig {
            url: Some("ws://127.0.0.1:1".into()),
            ..GatewayConfig::default()
        };
        complete(&mut gateway, |_| Some("/dev/null/openclaw.json".into())).unwrap();
        assert_eq!(token_of(&gateway), None);
    }
}
