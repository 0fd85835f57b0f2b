//! Fetches the agent card of a peer (A2A 0.3 §5.3).

use std::time::{Duration, SystemTime};

use http::header::{ACCEPT, AGE, CACHE_CONTROL, DATE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use url::Url;

use a2a::Security;
use base::json::{self, JsonErrorKind};
use egress::redirect;
use egress::{HttpClient, Request, body};
use peer::{
    CardEtag, CardLocation, Discovered, MAX_CARD_BYTES, PeerConfig, PeerError, PeerErrorKind,
};

use super::{challenge, error, outgoing, peer_secrets::PeerSecrets, response_json, signature};

const DEFAULT_PATH: &str = a2a::http::CARD_PATH;

/// Where cards were before A2A 0.3.
const OLD_PATH: &str = a2a::http::OLD_CARD_PATH;

/// Tries the possible locations of the card in order. The error lists every attempt.
pub(super) async fn discover(
    net: &dyn HttpClient,
    config: &PeerConfig,
    validator: Option<&CardEtag>,
    max_bytes: usize,
) -> Result<Discovered, PeerError> {
    if let CardLocation::Given(card) = &config.card {
        return given(net, config, card).await;
    }
    let max_bytes = max_bytes.min(MAX_CARD_BYTES);
    let mut locations = locations(config)?;
    if let Some(validator) = validator {
        locations.retain(|location| *location != validator.url);
        locations.insert(0, validator.url.clone());
    }
    let mut attempts: Vec<String> = Vec::new();
    let mut auth_error: Option<PeerError> = None;
    let mut is_malformed = false;
    for location in locations {
        let validator = validator.filter(|validator| validator.url == location);
        match fetch(net, config, &location, validator, max_bytes).await {
            Ok(found) => return Ok(found),
            Err(FetchError::Elsewhere(error)) => {
                attempts.push(format!("`{}`: {}", redacted(&location), error.message));
                is_malformed |= error.kind == PeerErrorKind::CardMalformed;
                if error.kind == PeerErrorKind::AuthRequired {
                    auth_error.get_or_insert(error);
                }
            }
            Err(FetchError::Final(error))
                if attempts.is_empty() || error.kind == PeerErrorKind::CardSignature =>
            {
                return Err(
                    error.during(format_args!("the agent card at `{}`", redacted(&location)))
                );
            }
            Err(FetchError::Final(error)) => {
                attempts.push(format!("`{}`: {}", redacted(&location), error.message));
                break;
            }
        }
    }
    let message = format!("no agent card was found; tried {}", attempts.join("; "));
    Err(match auth_error {
        Some(error) => PeerError { message, ..error },
        None if is_malformed => PeerError::new(PeerErrorKind::CardMalformed, message).undelivered(),
        None => PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered(),
    })
}

/// Checks a card that the operator has given like one of the peer.
async fn given(
    net: &dyn HttpClient,
    config: &PeerConfig,
    card: &Value,
) -> Result<Discovered, PeerError> {
    let verified = signature::verify(net, config, card.clone()).await?;
    let card = verified.read(&PeerSecrets::new(config));
    let mut card = card.map_err(|reason| {
        let message = format!("the agent card in the settings: {reason}");
        PeerError::new(PeerErrorKind::CardMalformed, message).undelivered()
    })?;
    // The peer's own card is not asked for, so neither is its extended one.
    card.has_extended_card = false;
    Ok(Discovered::Card {
        card: Box::new(card),
        validator: None,
        max_age: None,
        date: None,
    })
}

/// Formats a URL for errors, without its query, which may contain a key.
fn redacted(location: &Url) -> String {
    format!(
        "{}{}",
        location.origin().ascii_serialization(),
        location.path()
    )
}

/// Why a location has no card.
enum FetchError {
    /// Another location may have it.
    Elsewhere(PeerError),
    /// Other locations do not help.
    Final(PeerError),
}

async fn fetch(
    net: &dyn HttpClient,
    config: &PeerConfig,
    location: &Url,
    validator: Option<&CardEtag>,
    max_bytes: usize,
) -> Result<Discovered, FetchError> {
    let access = outgoing::access_to(config, location).map_err(FetchError::Final)?;
    let mut headers = outgoing::configured_headers(config, location);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    // Some servers return another card to a client without a version (A2A 1.0 §3.6).
    outgoing::set_version(&mut headers, config.version);
    if let Some(validator) = validator {
        headers.insert(IF_NONE_MATCH, validator.etag.clone());
    }
    let request = Request {
        headers,
        trust: config.trust_for(location).cloned(),
        authorization: outgoing::authorization(config, location),
        ..Request::get(location.clone(), access)
    };
    let fetched = redirect::follow(net, request)
        .await
        .map_err(|e| FetchError::Final(error::from_net(e).undelivered()))?;
    let mut response = fetched.response;
    let max_age = max_age(&response.headers);
    let date = date(&response.headers);
    if response.status == StatusCode::NOT_MODIFIED && validator.is_some() {
        return Ok(Discovered::Unchanged { max_age, date });
    }
    if !response.status.is_success() {
        let text = body::read_error(response.body).await;
        let secrets = PeerSecrets::new(config);
        let mut error = error::from_status(
            "cardUrl",
            response.status,
            &response.headers,
            &text,
            &secrets,
        )
        .undelivered();
        error.http_status = Some(response.status.as_u16());
        challenge::add_auth_schemes(
            &mut error,
            &response.headers,
            &Security::default(),
            &secrets,
        );
        let elsewhere = response.status.is_client_error();
        return Err(if elsewhere {
            FetchError::Elsewhere(error)
        } else {
            FetchError::Final(error)
        });
    }
    let body = body::read_response(&mut response, max_bytes).await;
    let body = body.map_err(|e| FetchError::Final(error::from_net(e).undelivered()))?;
    let invalid = |reason: String| {
        FetchError::Elsewhere(PeerError::new(PeerErrorKind::CardMalformed, reason).undelivered())
    };
    let secrets = PeerSecrets::new(config);
    let read = json::from_slice(&body, response_json::limits(max_bytes));
    let json = read.map_err(|error| match error.kind {
        JsonErrorKind::TooManyValues => {
            let error = response_json::unreadable("the card", &error);
            FetchError::Final(error.undelivered())
        }
        _ => {
            let kind = error::content_type(&response.headers, &secrets);
            invalid(format!("not JSON ({kind}, {} bytes): {error}", body.len()))
        }
    })?;
    let mut verified = signature::verify(net, config, json)
        .await
        .map_err(FetchError::Final)?;
    secrets.scrub_response(&mut verified.json);
    let mut card = verified.read(&secrets).map_err(invalid)?;
    card.found_at = is_at_origin(config, location).then(|| redacted(location));
    let etag = response.headers.get(ETAG).cloned();
    Ok(Discovered::Card {
        card: Box::new(card),
        validator: etag.map(|etag| CardEtag {
            url: location.clone(),
            etag,
        }),
        max_age,
        date,
    })
}

/// Returns the possible locations of the card: below the base URL, at its origin, and at the path before 0.3.
fn locations(config: &PeerConfig) -> Result<Vec<Url>, PeerError> {
    let path = match &config.card {
        CardLocation::Url(url) => return Ok(vec![url.clone()]),
        CardLocation::Path(path) => path,
        CardLocation::Given(_) => return Ok(Vec::new()),
    };
    let base = &config.base_url;
    let mut locations: Vec<Url> = Vec::new();
    if path.starts_with('/') {
        let below = format!("{}{path}", base.path().trim_end_matches('/'));
        let old = (path == DEFAULT_PATH).then_some(OLD_PATH);
        for path in [Some(below.as_str()), Some(path), old]
            .into_iter()
            .flatten()
        {
            let mut location = base.clone();
            // The path may contain a query.
            let (path, query) = path
                .split_once('?')
                .map_or((path, None), |(path, query)| (path, Some(query)));
            location.set_path(path);
            location.set_query(query);
            if !locations.contains(&location) {
                locations.push(location);
            }
        }
    } else if let Ok(location) = base.join(path)
        && location.origin() == base.origin()
    {
        locations.push(location);
    }
    if locations.is_empty() {
        let message = format!(
            "the card path `{}` leads to another origin than `{}`",
            path.split('?').next().unwrap_or_default().escape_debug(),
            redacted(base)
        );
        return Err(PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered());
    }
    Ok(locations)
}

/// Returns whether a location of the card is at the origin of a base URL with a path, and not below this path.
fn is_at_origin(config: &PeerConfig, location: &Url) -> bool {
    let base = config.base_url.path().trim_end_matches('/');
    matches!(&config.card, CardLocation::Path(path) if path.starts_with('/'))
        && !location.path().starts_with(&format!("{base}/"))
}

/// Returns how long a response may be used without revalidation (RFC 9111 §5.2.2).
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let directives = headers
        .get(CACHE_CONTROL)?
        .to_str()
        .ok()?
        .to_ascii_lowercase();
    let mut age = None;
    for directive in directives.split(',').map(str::trim) {
        match directive.split_once('=') {
            None if matches!(directive, "no-store" | "no-cache") => return Some(Duration::ZERO),
            Some(("max-age", seconds)) => {
                age = seconds
                    .trim_matches('"')
                    .parse()
                    .ok()
                    .map(Duration::from_secs)
            }
            _ => {}
        }
    }
    age
}

/// Returns the time on the server's clock: the date of the response plus the time that caches kept it
/// (RFC 9111 §4.2.3).
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    let text = |name| headers.get(name)?.to_str().ok();
    let date = httpdate::parse_http_date(text(DATE)?).ok()?;
    let age = text(AGE).and_then(|age| age.parse().ok());
    date.checked_add(Duration::from_secs(age.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn paths(base: &str, card: &str) -> Vec<String> {
        let config = PeerConfig {
            configured: true,
            ..PeerConfig::new(Url::parse(base).unwrap(), CardLocation::Path(card.into()))
        };
        locations(&config).map_or_else(
            |_| Vec::new(),
            |all| all.iter().map(|url| url.path().to_owned()).collect(),
        )
    }

    #[test]
    fn card_lookup_tries_base_url_then_origin_then_old_path() {
        assert_eq!(
            paths("http://a.example/agents/one/", DEFAULT_PATH),
            [
                "/agents/one/.well-known/agent-card.json",
                DEFAULT_PATH,
                OLD_PATH
            ]
        );
        assert_eq!(
            paths("http://a.example", DEFAULT_PATH),
            [DEFAULT_PATH, OLD_PATH]
        );
        assert_eq!(
            paths("http://a.example/x", "/card.json"),
            ["/x/card.json", "/card.json"]
        );
    }

    #[test]
    fn locations_at_the_origin_of_a_base_url_with_a_path_are_flagged() {
        for (base, card, expected) in [
            (
                "http://a.example/wrong/",
                DEFAULT_PATH,
                vec![false, true, true],
            ),
            ("http://a.example/", DEFAULT_PATH, vec![false, false]),
            ("http://a.example/one/two", "card.json", vec![false]),
        ] {
            let url = Url::parse(base).unwrap();
            let config = PeerConfig::new(url, CardLocation::Path(card.into()));
            let all = locations(&config).unwrap();
            let found: Vec<bool> = all.iter().map(|url| is_at_origin(&config, url)).collect();
            assert_eq!(found, expected, "{base}");
        }
    }

    #[test]
    fn path_without_a_slash_is_relative() {
        assert_eq!(
            paths("http://a.example/agents/one", "card.json"),
            ["/agents/card.json"]
        );
        assert_eq!(paths("http://a.example/", "//b.example/card.json").len(), 1);
        assert!(paths("http://a.example/", "http:////b.example/card.json").is_empty());
    }

    #[test]
    fn date_of_a_cached_response_includes_its_age() {
        let mut headers = HeaderMap::new();
        assert_eq!(date(&headers), None);
        headers.insert(
            DATE,
            HeaderValue::from_static("Thu, 01 Jan 1970 00:01:00 GMT"),
        );
        let after = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(date(&headers), after(60));
        headers.insert(AGE, HeaderValue::from_static("40"));
        assert_eq!(date(&headers), after(100));
    }

    #[test]
    fn freshness_is_read_from_cache_control() {
        let age = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
            max_age(&headers)
        };
        assert_eq!(age("public, max-age=60"), Some(Duration::from_secs(60)));
        assert_eq!(age("max-age=60, no-store"), Some(Duration::ZERO));
        assert_eq!(age("private"), None);
    }
}
