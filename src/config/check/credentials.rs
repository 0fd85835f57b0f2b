//! Refuses credentials and headers that HTTP cannot carry, or that the transport sets.

use egress::address::is_literal;
use egress::address::is_this_machine;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use super::{ConfigError, TargetConfig, normal_url};
use crate::config::{Auth, KeyPlace, Secret};

/// Checks the credential of the target at `place`.
pub(super) fn check(target: &TargetConfig, place: &str) -> Result<(), ConfigError> {
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
        Auth::OAuth2 {
            token_url, scopes, ..
        } => {
            check_token_endpoint(token_url, target.allow_private_network)
                .map_err(|reason| invalid("tokenUrl", reason))?;
            if let Some(i) = scopes.iter().position(|scope| !is_scope(scope)) {
                let reason =
                    "a scope is one word without quotes and backslashes; list each by itself";
                return Err(invalid(&format!("scopes/{i}"), reason.into()));
            }
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
        Auth::Bearer { .. } | Auth::Basic { .. } | Auth::OAuth2 { .. } => {
            check_duplicate_header(target, &AUTHORIZATION, place)
        }
        _ => Ok(()),
    }
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
pub(super) fn known_secret(secret: &Secret) -> Option<&str> {
    match secret {
        Secret::Known(text) | Secret::Resolved(text) => Some(text.expose_secret()),
        Secret::Unresolved { .. } => None,
    }
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

/// Checks that the connection to a token endpoint, which receives the client's secret, is encrypted or local.
fn check_token_endpoint(text: &str, allow_private: bool) -> Result<(), String> {
    let url = normal_url(text).map_err(|reason| format!("the token endpoint {reason}"))?;
    // A name below `localhost` may resolve to another machine.
    let is_local = is_literal(&url) && is_this_machine(&url);
    if url.scheme() != "https" && !allow_private && !is_local {
        return Err("the token endpoint must use https; http is allowed only on this machine, or with allowPrivateNetwork".into());
    }
    Ok(())
}

/// Returns whether a character is allowed in a scope (RFC 6749 §3.3).
fn is_scope(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\'))
}

/// Headers that frame a request or that the transport sets.
const FRAMING: [&str; 4] = ["host", "content-length", "transfer-encoding", "connection"];

/// Checks one header of the object at `place`. A value that the host has not resolved is `None`.
pub(super) fn check_header(
    name: &str,
    value: Option<&str>,
    place: &str,
) -> Result<(), ConfigError> {
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
