//! Rules for the configuration, its local gateway and its credentials that the JSON Schema cannot express. Refuses
//! credentials and headers that HTTP cannot carry, or that the transport sets.

use std::collections::HashMap;
use std::path::Path;

use base::key_source::KeySource;
use egress::address::{is_loopback, literal_ip};
use gateway_bridge::DialectChoice;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use secrecy::ExposeSecret;
use serde_json::Value;
use url::Url;

use super::{
    Auth, Config, ConfigError, ExtensionConfig, Gateway, KeyPlace, Program, Secret, TargetConfig,
    card_url, gateway_url, normal_card_url, normal_url,
};

/// Checks what deserialization would ignore.
pub(super) fn check_raw(value: &Value) -> Result<(), ConfigError> {
    match value.pointer("/gateway/signing") {
        Some(signing) => KeySource::check(signing, false)
            .map_err(|message| ConfigError::at("/gateway/signing", message)),
        None => Ok(()),
    }
}

/// Checks and tidies a configuration that fits the schema.
pub(super) fn check(mut config: Config) -> Result<Config, ConfigError> {
    for (name, value) in config.defaults.service_parameters.iter() {
        check_header(name, known_secret(value), "/defaults/serviceParameters")?;
    }
    check_transports(
        &config,
        &config.defaults.preferred_transports,
        "/defaults/preferredTransports",
    )?;
    if let Some(url) = card_url(&config.defaults.card_path) {
        normal_card_url(&url)
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
    check_gateway(&config)?;
    if config
        .budget
        .path
        .as_ref()
        .is_some_and(|path| path.is_relative())
    {
        let message = "the record of budgets is shared by processes, so its path must be absolute";
        return Err(ConfigError::at("/budget/path", message));
    }
    if config.audit.enabled && config.audit.path.is_none() {
        let message = "the audit log is enabled and needs a file";
        return Err(ConfigError::at("/audit/path", message));
    }
    Ok(config)
}

/// Extensions that want credentials, models or tools of the client, by their URIs without the scheme.
const REFUSED_EXTENSIONS: [&str; 6] = [
    "a2a-extensions.agentstack.beeai.dev/auth/",
    "a2a-extensions.agentstack.beeai.dev/services/embedding/",
    "a2a-extensions.agentstack.beeai.dev/services/llm/",
    "a2a-extensions.agentstack.beeai.dev/services/mcp/",
    "a2a-extensions.agentstack.beeai.dev/services/platform_api/",
    "a2a-extensions.agentstack.beeai.dev/services/platform-api/",
];

fn check_extensions(extensions: &[ExtensionConfig], place: &str) -> Result<(), ConfigError> {
    for (i, ExtensionConfig { uri, .. }) in extensions.iter().enumerate() {
        let place = format!("{place}/extensions/{i}/uri");
        let name = uri.split_once("://").map_or(&**uri, |(_, rest)| rest);
        let name = name.to_ascii_lowercase();
        if REFUSED_EXTENSIONS
            .iter()
            .any(|refused| name.starts_with(refused))
        {
            let message = format!(
                "the extension `{uri}` asks the client for credentials, models or tools, which the plugin never hands over"
            );
            return Err(ConfigError::at(place, message));
        }
        if extensions[..i].iter().any(|other| other.uri == *uri) {
            return Err(ConfigError::at(
                place,
                format!("the extension `{uri}` is there twice"),
            ));
        }
    }
    Ok(())
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
    let url = normal_url(&target.base_url).map_err(|mut reason| {
        if normal_card_url(&target.base_url).is_ok() {
            reason.push_str(
                "; a query of the agent card's address belongs in `cardUrl` or `cardPath`",
            );
        }
        ConfigError::at(
            format!("{place}/baseUrl"),
            url_fault(&target.alias, &reason),
        )
    })?;
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
    type Parse = fn(&str) -> Result<Url, String>;
    for (key, value, parse) in [
        ("cardUrl", &target.card_url, normal_card_url as Parse),
        ("endpoint", &target.endpoint, normal_url),
    ] {
        if let Some(Err(reason)) = value.as_deref().map(parse) {
            let fault = url_fault(&target.alias, &reason);
            return Err(ConfigError::at(format!("{place}/{key}"), fault));
        }
    }
    if target.card.is_some() && (target.card_url.is_some() || target.card_path.is_some()) {
        let message =
            "`card` is the card itself, so nothing is read from `cardPath` or `cardUrl`; keep one";
        return Err(ConfigError::at(format!("{place}/card"), message));
    }
    check_signing(target, place)?;
    check_extensions(&target.extensions, place)?;
    for (name, value) in target.headers.iter() {
        check_header(name, known_secret(value), &format!("{place}/headers"))?;
    }
    check_credential(target, place)?;
    if let Some(Auth::OAuth2(settings)) = &mut target.auth {
        settings.client_auth = Some(settings.client_auth());
    }
    Ok(())
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

fn url_fault(alias: &str, reason: &str) -> String {
    format!("the URL of target `{alias}` {reason}")
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

/// The name of the triad.
const TRIAD: &str = "triad";

/// The prefix of the aliases of a gateway's agents.
const GATEWAY_ALIAS_PREFIX: &str = "gateway:";

/// Checks the gateway's settings, and that no target is named like one of its agents.
fn check_gateway(config: &Config) -> Result<(), ConfigError> {
    let gateway = &config.gateway;
    let invalid =
        |place: &str, message: String| ConfigError::at(format!("/gateway/{place}"), message);
    let url =
        gateway_url(&gateway.url).map_err(|reason| invalid("url", format!("the URL {reason}")))?;
    check_address(gateway, &url).map_err(|reason| invalid("url", reason))?;
    // A subprotocol and the name of a header are both tokens (RFC 6455 §4.1, RFC 9110 §5.1).
    if HeaderName::try_from(gateway.protocol.as_str()).is_err() {
        let message = "a subprotocol is one word without spaces and separators, such as `a2a-v1`";
        return Err(invalid("protocol", message.into()));
    }
    if gateway.token_in_query && gateway.dialect != DialectChoice::HeretekJs {
        let message =
            "a token in the URL appears in logs; only the dialect `heretek-js` needs it there";
        return Err(invalid("tokenInQuery", message.into()));
    }
    check_tls(gateway, &url)
        .map_err(|(field, reason)| invalid(&format!("tls/{field}"), reason.into()))?;
    check_names(&gateway.agents).map_err(|(i, reason)| invalid(&format!("agents/{i}"), reason))?;
    let members = &gateway.triad.members;
    check_names(members).map_err(|(i, reason)| invalid(&format!("triad/members/{i}"), reason))?;
    if gateway.enabled {
        check_aliases(config)?;
    }
    Ok(())
}

/// Requires a literal address to be on this machine, unless the operator allows others. A host name is checked after it
/// is resolved, when the connection is made.
fn check_address(gateway: &Gateway, url: &Url) -> Result<(), String> {
    let Some(ip) = literal_ip(url) else {
        return Ok(());
    };
    match (is_loopback(ip), gateway.allow_remote, url.scheme()) {
        (true, _, _) | (false, true, "wss") => Ok(()),
        (false, true, _) => Err(
            "the address is not on this machine, so its connection must be secured: begin it with `wss:`"
                .into(),
        ),
        (false, false, _) => Err(
            "the address is not on this machine; a gateway elsewhere needs `gateway.allowRemote` and an address with `wss:`"
                .into(),
        ),
    }
}

/// Refuses certificates without `wss:`, and a client certificate without its key.
fn check_tls(gateway: &Gateway, url: &Url) -> Result<(), (&'static str, &'static str)> {
    let tls = &gateway.tls;
    let files = [
        ("caFile", &tls.ca_file),
        ("certFile", &tls.cert_file),
        ("keyFile", &tls.key_file),
    ];
    let first = files.iter().find(|(_, file)| file.is_some());
    if let Some((field, _)) = first.filter(|_| url.scheme() != "wss") {
        let reason = "certificates have no effect unless the gateway's address begins with `wss:`";
        return Err((*field, reason));
    }
    match (&tls.cert_file, &tls.key_file) {
        (Some(_), None) => Err((
            "certFile",
            "the certificate needs its key: set `keyFile` too",
        )),
        (None, Some(_)) => Err((
            "keyFile",
            "the key needs its certificate: set `certFile` too",
        )),
        _ => Ok(()),
    }
}

/// Refuses duplicate names and the triad's name.
fn check_names(names: &[String]) -> Result<(), (usize, String)> {
    for (i, name) in names.iter().enumerate() {
        if name == TRIAD {
            let message =
                "`triad` means the three agents of `gateway.triad` together; leave it out";
            return Err((i, message.into()));
        }
        if names[..i].contains(name) {
            return Err((i, format!("`{name}` is listed twice")));
        }
    }
    Ok(())
}

/// Refuses aliases with the gateway's prefix while a gateway is enabled.
fn check_aliases(config: &Config) -> Result<(), ConfigError> {
    let reserved = config.targets.iter().enumerate();
    let mut reserved =
        reserved.filter(|(_, target)| target.alias.starts_with(GATEWAY_ALIAS_PREFIX));
    let Some((i, target)) = reserved.next() else {
        return Ok(());
    };
    let message = format!(
        "the alias `{}` would mean an agent of the local gateway; choose one that does not begin with `{GATEWAY_ALIAS_PREFIX}`, or turn off `gateway.enabled`",
        target.alias
    );
    Err(ConfigError::at(format!("/targets/{i}/alias"), message))
}

/// Checks the credential of the target at `place`.
fn check_credential(target: &TargetConfig, place: &str) -> Result<(), ConfigError> {
    let Some(auth) = &target.auth else {
        return Ok(());
    };
    let invalid =
        |field: &str, reason: String| ConfigError::at(format!("{place}/auth/{field}"), reason);
    match auth {
        Auth::Bearer { token } => {
            check_header_value(token, "token").map_err(|reason| invalid("token", reason))?
        }
        Auth::Basic { username, password } => {
            check_username(username).map_err(|reason| invalid("username", reason))?;
            check_text(password, "password").map_err(|reason| invalid("password", reason))?;
        }
        Auth::ApiKey {
            place: KeyPlace::Header,
            name,
            value,
        } => {
            let name = parse_key_header(name).map_err(|reason| invalid("name", reason))?;
            check_header_value(value, "key").map_err(|reason| invalid("value", reason))?;
            check_duplicate_header(target, &name, place)?;
        }
        Auth::ApiKey {
            place: KeyPlace::Cookie,
            name,
            value,
        } => {
            if HeaderName::try_from(name.as_str()).is_err() {
                let reason = format!("`{}` cannot be a cookie's name", name.escape_debug());
                return Err(invalid("name", reason));
            }
            check_cookie_value(value).map_err(|reason| invalid("value", reason))?;
        }
        Auth::ApiKey {
            place: KeyPlace::Query,
            ..
        } => {}
        Auth::OAuth2(settings) => settings
            .check(target.allow_private_network)
            .map_err(|(field, reason)| invalid(&field, reason))?,
        Auth::Command { program } => {
            check_program(program).map_err(|reason| invalid("command", reason))?
        }
        Auth::AwsSigV4 {
            access_key_id,
            secret_access_key,
            session_token,
            program,
            ..
        } => {
            let keys = [access_key_id, secret_access_key, session_token];
            let fields = ["accessKeyId", "secretAccessKey", "sessionToken"];
            for (secret, field) in keys.into_iter().zip(fields) {
                if let Some(secret) = secret {
                    check_header_value(secret, "key").map_err(|reason| invalid(field, reason))?;
                }
            }
            let any = keys.iter().any(|key| key.is_some());
            let both = access_key_id.is_some() && secret_access_key.is_some();
            if any != both || any != program.command.is_empty() {
                let reason = "keys of AWS are either `accessKeyId` and `secretAccessKey`, with `sessionToken` for temporary ones, or `command`, a program that prints them";
                return Err(invalid("type", reason.into()));
            }
            let without_program = [
                ("env", !program.env.is_empty()),
                ("timeoutMs", program.timeout_ms.is_some()),
            ];
            if any && let Some((field, _)) = without_program.iter().find(|(_, given)| *given) {
                let reason = "this setting is for the program of `command`; keys in the settings do not use it";
                return Err(invalid(field, reason.into()));
            }
            check_program(program).map_err(|reason| invalid("command", reason))?;
        }
        Auth::MutualTls { .. } => {
            let written = [
                Some(&target.base_url),
                target.card_url.as_ref(),
                target.endpoint.as_ref(),
            ];
            let secured = |url: &&String| url.trim().to_ascii_lowercase().starts_with("https:");
            if !written.into_iter().flatten().any(|url| secured(&url)) {
                let reason = "a client certificate requires https, and this target uses http";
                return Err(invalid("type", reason.into()));
            }
        }
    }
    match auth {
        Auth::Bearer { .. }
        | Auth::Basic { .. }
        | Auth::OAuth2(_)
        | Auth::Command { .. }
        | Auth::AwsSigV4 { .. } => check_duplicate_header(target, &AUTHORIZATION, place),
        _ => Ok(()),
    }
}

/// Checks that the system can start a program with these arguments, and the same one from every directory.
fn check_program(program: &Program) -> Result<(), String> {
    if let Some(path) = program.command.first().map(Path::new)
        && !path.is_absolute()
        && path.file_name() != Some(path.as_os_str())
    {
        return Err("name a program in PATH, or its full path; a relative path would start another program in another directory".into());
    }
    if program.command.iter().any(|text| text.contains('\0')) {
        return Err("a program and its arguments cannot contain the character NUL".into());
    }
    Ok(())
}

/// Refuses a header that `auth` sets as well: one of the two would be lost.
fn check_duplicate_header(
    target: &TargetConfig,
    name: &HeaderName,
    place: &str,
) -> Result<(), ConfigError> {
    let twice = target
        .headers
        .keys()
        .find(|key| key.eq_ignore_ascii_case(name.as_str()));
    twice.map_or(Ok(()), |key| {
        Err(ConfigError::at(
            format!("{place}/headers/{key}"),
            "`auth` sets this header; keep one of the two",
        ))
    })
}

fn parse_key_header(name: &str) -> Result<HeaderName, String> {
    let name = parse_name(name)?;
    if matches!(name, ACCEPT | CONTENT_TYPE) {
        return Err(format!(
            "`{name}` frames or describes the request and cannot carry a key"
        ));
    }
    Ok(name)
}

/// Returns a secret; `None` if the host has not resolved it.
fn known_secret(secret: &Secret) -> Option<&str> {
    secret.value().ok().map(ExposeSecret::expose_secret)
}

fn check_header_value(secret: &Secret, what: &str) -> Result<(), String> {
    match known_secret(secret) {
        Some(text) if HeaderValue::try_from(text).is_err() => Err(format!(
            "the {what} has characters that an HTTP header cannot contain (a line break at its end?)"
        )),
        _ => Ok(()),
    }
}

/// Checks the value of a cookie (RFC 6265 §4.1.1).
fn check_cookie_value(secret: &Secret) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\');
    match known_secret(secret) {
        Some(text) if !text.chars().all(fits) => Err(
            "the key has characters that a cookie cannot contain (a line break at its end, a space, a comma or a semicolon?)"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// Checks a password (RFC 7617 §2).
fn check_text(secret: &Secret, what: &str) -> Result<(), String> {
    match known_secret(secret) {
        Some(text) if text.contains(char::is_control) => Err(format!(
            "the {what} has control characters (a line break at its end?)"
        )),
        _ => Ok(()),
    }
}

fn check_username(name: &str) -> Result<(), String> {
    if name.contains(':') || name.contains(char::is_control) {
        return Err("a user name for `basic` has no colon and no control characters".into());
    }
    Ok(())
}

/// Headers that frame a request or that the transport sets.
const FRAMING: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// Checks one header of the object at `place`. A value that the host has not resolved is `None`.
fn check_header(name: &str, value: Option<&str>, place: &str) -> Result<(), ConfigError> {
    let place = || format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"));
    parse_name(name).map_err(|reason| ConfigError::at(place(), reason))?;
    HeaderValue::try_from(value.unwrap_or_default())
        .map(drop)
        .map_err(|_| {
            ConfigError::at(
                place(),
                "the value has characters that an HTTP header cannot contain",
            )
        })
}

/// Returns the name of a header that may be set.
fn parse_name(name: &str) -> Result<HeaderName, String> {
    let parsed = HeaderName::try_from(name)
        .map_err(|_| format!("`{}` cannot be an HTTP header's name", name.escape_debug()))?;
    if FRAMING.contains(&parsed.as_str()) {
        return Err(format!(
            "`{parsed}` is set by the transport and cannot be given"
        ));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests;
