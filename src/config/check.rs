//! Rules that the JSON Schema of the configuration cannot express.

mod credentials;
mod gateway;
mod headers;

use std::collections::HashMap;

use url::Url;

use super::{Config, ConfigError, TargetConfig, card_url, normal_url};

/// Checks and tidies a configuration that fits the schema.
pub(super) fn check(mut config: Config) -> Result<Config, ConfigError> {
    for (name, value) in config.defaults.service_parameters.iter() {
        headers::check_header(
            name,
            credentials::known_secret(value),
            "/defaults/serviceParameters",
        )?;
    }
    check_transports(
        &config,
        &config.defaults.preferred_transports,
        "/defaults/preferredTransports",
    )?;
    if let Some(url) = card_url(&config.defaults.card_path) {
        normal_url(&url)
            .map_err(|reason| ConfigError::at("/defaults/cardPath", format!("the URL {reason}")))?;
    }
    for (i, url) in config.policy.push_callback_urls.iter().enumerate() {
        normal_url(url).map_err(|reason| {
            let place = format!("/policy/pushCallbackUrls/{i}");
            ConfigError::at(place, format!("the callback URL {reason}"))
        })?;
    }
    let mut aliases = HashMap::new();
    let mut default = None;
    let mut targets = std::mem::take(&mut config.targets);
    for (i, target) in targets.iter_mut().enumerate() {
        let place = format!("/targets/{i}");
        check_target(target, config.policy.normalize_base_url, &place)?;
        if let Some(preferred) = &target.preferred_transports {
            check_transports(&config, preferred, &format!("{place}/preferredTransports"))?;
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
    gateway::check(&config)?;
    if config.audit.enabled && config.audit.path.is_none() {
        let message = "the audit log is enabled and needs a file";
        return Err(ConfigError::at("/audit/path", message));
    }
    Ok(config)
}

fn check_target(
    target: &mut TargetConfig,
    normalize: bool,
    place: &str,
) -> Result<(), ConfigError> {
    target.alias = target.alias.trim().to_owned();
    if target.alias.is_empty() {
        return Err(ConfigError::at(
            format!("{place}/alias"),
            "an alias needs at least one visible character",
        ));
    }
    let url = parse_url(&target.base_url, &format!("{place}/baseUrl"), &target.alias)?;
    if normalize {
        target.base_url = url.into();
    }
    if let Some(path) = target.card_path.take() {
        match card_url(&path) {
            Some(absolute) if target.card_url.is_none() => target.card_url = Some(absolute),
            Some(_) => {
                let message = "`cardPath` and `cardUrl` both name the card's address; keep one";
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
            parse_url(value, &format!("{place}/{key}"), &target.alias)?;
        }
    }
    check_signing(target, place)?;
    for (name, value) in target.headers.iter() {
        headers::check_header(
            name,
            credentials::known_secret(value),
            &format!("{place}/headers"),
        )?;
    }
    credentials::check(target, place)
}

/// Refuses settings of card signatures that would have no effect.
fn check_signing(target: &TargetConfig, place: &str) -> Result<(), ConfigError> {
    if target.jwks_file.is_some() && !target.require_signed_card {
        let message = "the keys have no effect unless `requireSignedCard` is true";
        return Err(ConfigError::at(format!("{place}/jwksFile"), message));
    }
    let own = [
        Some(&target.base_url),
        target.card_url.as_ref(),
        target.endpoint.as_ref(),
    ];
    let secure = |url: &&String| Url::parse(url.trim()).is_ok_and(|url| url.scheme() == "https");
    if target.require_signed_card
        && target.jwks_file.is_none()
        && !own.into_iter().flatten().any(|url| secure(&url))
    {
        let message = "a signed card needs keys: set `jwksFile`; without it, they come from the target's own origin over https only";
        return Err(ConfigError::at(
            format!("{place}/requireSignedCard"),
            message,
        ));
    }
    Ok(())
}

fn parse_url(text: &str, place: &str, alias: &str) -> Result<Url, ConfigError> {
    normal_url(text)
        .map_err(|reason| ConfigError::at(place, format!("the URL of target `{alias}` {reason}")))
}

fn check_transports(config: &Config, preferred: &[String], place: &str) -> Result<(), ConfigError> {
    match preferred.iter().position(|name| name == "GRPC") {
        Some(i) if config.policy.enforce_supported_transports => {
            let message = "GRPC is not supported; use JSONRPC or HTTP+JSON";
            Err(ConfigError::at(format!("{place}/{i}"), message))
        }
        _ => Ok(()),
    }
}
