//! What the schema of the configuration cannot say.

use std::collections::HashMap;

use http::{HeaderName, HeaderValue};
use url::Url;

use super::{Auth, Config, ConfigError, Secret, TargetConfig};

/// Headers that decide how a request is framed; nobody may set them.
const FRAMING: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// Checks and tidies a configuration that fits the schema.
pub(super) fn check(mut config: Config) -> Result<Config, ConfigError> {
    for (name, value) in config.defaults.service_parameters.iter() {
        header(name, value, "/defaults/serviceParameters")?;
    }
    transports(
        &config,
        &config.defaults.preferred_transports,
        "/defaults/preferredTransports",
    )?;
    if let Some(url) = card_url(&config.defaults.card_path) {
        normal_url(&url)
            .map_err(|wrong| ConfigError::at("/defaults/cardPath", format!("the URL {wrong}")))?;
    }
    let mut aliases = HashMap::new();
    let mut default = None;
    let mut targets = std::mem::take(&mut config.targets);
    for (i, target) in targets.iter_mut().enumerate() {
        let place = format!("/targets/{i}");
        tidy(target, config.policy.normalize_base_url, &place)?;
        if let Some(wanted) = &target.preferred_transports {
            transports(&config, wanted, &format!("{place}/preferredTransports"))?;
        }
        if let Some(first) = aliases.insert(target.alias.clone(), i) {
            let message = format!(
                "the alias `{}` is already taken by `/targets/{first}`; aliases are unique",
                target.alias
            );
            return Err(ConfigError::at(format!("{place}/alias"), message));
        }
        if target.default
            && let Some(first) = default.replace(i)
        {
            let message =
                format!("`/targets/{first}` is the default already; at most one target can be");
            return Err(ConfigError::at(format!("{place}/default"), message));
        }
    }
    config.targets = targets;
    Ok(config)
}

fn tidy(target: &mut TargetConfig, normalize: bool, place: &str) -> Result<(), ConfigError> {
    target.alias = target.alias.trim().to_owned();
    if target.alias.is_empty() {
        return Err(ConfigError::at(
            format!("{place}/alias"),
            "an alias needs at least one visible character",
        ));
    }
    let url = url_at(&target.base_url, &format!("{place}/baseUrl"), &target.alias)?;
    if normalize {
        target.base_url = url.into();
    }
    if let Some(path) = target.card_path.take() {
        match card_url(&path) {
            Some(absolute) if target.card_url.is_none() => target.card_url = Some(absolute),
            Some(_) => {
                let message = "`cardPath` and `cardUrl` both say where the card is; keep one";
                return Err(ConfigError::at(format!("{place}/cardPath"), message));
            }
            None => target.card_path = Some(path),
        }
    }
    for (key, value) in [
        ("cardUrl", &target.card_url),
        ("endpoint", &target.endpoint),
    ] {
        if let Some(value) = value {
            url_at(value, &format!("{place}/{key}"), &target.alias)?;
        }
    }
    if let Some(Auth::Bearer {
        token: Secret::Known(token),
    }) = &target.auth
    {
        use secrecy::ExposeSecret as _;
        if HeaderValue::try_from(token.expose_secret()).is_err() {
            let message = "the token has characters that cannot stand in an HTTP header (a line break at its end?)";
            return Err(ConfigError::at(format!("{place}/auth/token"), message));
        }
    }
    Ok(())
}

/// `path` where it is in truth an absolute URL.
pub fn card_url(path: &str) -> Option<String> {
    (path.starts_with("http://") || path.starts_with("https://")).then(|| path.to_owned())
}

/// Reads an address that can be called: http or https, with a host, without user name, query or fragment.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn normal_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text.trim()).map_err(|e| format!("is not a URL: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "begins with `{}:`; only http and https can be called",
            url.scheme()
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("carries a user name or password; put credentials into `auth`".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("has a query or fragment; give the address alone".into());
    }
    Ok(url)
}

fn url_at(text: &str, place: &str, alias: &str) -> Result<Url, ConfigError> {
    normal_url(text)
        .map_err(|wrong| ConfigError::at(place, format!("the URL of target `{alias}` {wrong}")))
}

fn transports(config: &Config, wanted: &[String], place: &str) -> Result<(), ConfigError> {
    match wanted.iter().position(|name| name == "GRPC") {
        Some(i) if config.policy.enforce_supported_transports => {
            let message = "GRPC is not spoken; use JSONRPC or HTTP+JSON";
            Err(ConfigError::at(format!("{place}/{i}"), message))
        }
        _ => Ok(()),
    }
}

fn header(name: &str, value: &str, place: &str) -> Result<(), ConfigError> {
    let place = || format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
    let parsed = HeaderName::try_from(name).map_err(|_| {
        ConfigError::at(
            place(),
            format!("`{}` cannot be an HTTP header's name", name.escape_debug()),
        )
    })?;
    if FRAMING.contains(&parsed.as_str()) {
        return Err(ConfigError::at(
            place(),
            format!("`{parsed}` is set by the transport and cannot be given"),
        ));
    }
    HeaderValue::try_from(value).map(drop).map_err(|_| {
        ConfigError::at(
            place(),
            "the value has characters that cannot stand in an HTTP header",
        )
    })
}
