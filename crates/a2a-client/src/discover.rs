//! Finding a peer's agent card (A2A 0.3 §5.3).

use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use url::Url;

use a2a::Card;
use a2a::Security;
use egress::redirect::get_following;
use egress::{Net, Request, body};
use peer::{CardLocation, Discovered, PeerConfig, PeerError, PeerErrorKind, Validator};

use super::{challenge, line, secrets::Secrets, signature, weight};

const DEFAULT_PATH: &str = a2a::http::CARD_PATH;

/// Where cards were before A2A 0.3.
const OLD_PATH: &str = a2a::http::OLD_CARD_PATH;

/// The largest card that is read, in bytes: cards are kept, and of many peers.
const LARGEST: usize = 4 << 20;

/// A card may move this often on its origin.
const HOPS: usize = 5;

/// Looks for the card wherever it may be, in order. The error names each try.
pub(super) async fn discover(
    net: &dyn Net,
    reach: &PeerConfig,
    known: Option<&Validator>,
    max_bytes: usize,
) -> Result<Discovered, PeerError> {
    let max_bytes = max_bytes.min(LARGEST);
    let mut places = places(reach)?;
    if let Some(known) = known {
        places.retain(|place| *place != known.url);
        places.insert(0, known.url.clone());
    }
    let mut tries: Vec<String> = Vec::new();
    let mut asked_for: Option<PeerError> = None;
    for place in places {
        let known = known.filter(|known| known.url == place);
        match fetch(net, reach, &place, known, max_bytes).await {
            Ok(found) => return Ok(found),
            Err(Miss::Elsewhere(error)) => {
                tries.push(format!("`{}`: {}", shown(&place), error.message));
                if error.kind == PeerErrorKind::AuthRequired {
                    asked_for.get_or_insert(error);
                }
            }
            Err(Miss::Final(error))
                if tries.is_empty() || error.kind == PeerErrorKind::CardSignature =>
            {
                return Err(error.during(format_args!("the agent card at `{}`", shown(&place))));
            }
            Err(Miss::Final(error)) => {
                tries.push(format!("`{}`: {}", shown(&place), error.message));
                break;
            }
        }
    }
    let message = format!("no agent card was found; tried {}", tries.join("; "));
    Err(match asked_for {
        Some(error) => PeerError { message, ..error },
        None => PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered(),
    })
}

/// A place as errors name it. A query may hold a key.
fn shown(place: &Url) -> String {
    format!("{}{}", place.origin().ascii_serialization(), place.path())
}

/// Why a place gave no card.
enum Miss {
    /// It may still be elsewhere.
    Elsewhere(PeerError),
    /// Looking elsewhere would not help.
    Final(PeerError),
}

async fn fetch(
    net: &dyn Net,
    reach: &PeerConfig,
    place: &Url,
    known: Option<&Validator>,
    max_bytes: usize,
) -> Result<Discovered, Miss> {
    let access = line::access_to(reach, place).map_err(Miss::Final)?;
    let mut headers = line::own_headers(reach, place);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    // Some servers show another card to a caller that does not say so (A2A 1.0 §3.6).
    line::name_version(&mut headers, reach.version);
    if let Some(known) = known {
        headers.insert(IF_NONE_MATCH, known.etag.clone());
    }
    let request = Request {
        method: Method::GET,
        url: place.clone(),
        headers,
        body: None,
        access,
        trust: reach.trust_for(place).cloned(),
        repeatable: true,
        authorization: line::authorization(reach, place),
    };
    let fetched = get_following(net, request, HOPS)
        .await
        .map_err(|e| Miss::Final(line::from_net(e).undelivered()))?;
    let mut response = fetched.response;
    let max_age = max_age(&response.headers);
    if response.status == StatusCode::NOT_MODIFIED && known.is_some() {
        return Ok(Discovered::Unchanged { max_age });
    }
    if !response.status.is_success() {
        let text = body::read_error(response.body).await;
        let secrets = Secrets::of(reach);
        let mut error =
            line::by_status(response.status, &response.headers, &text, &secrets).undelivered();
        error.http_status = Some(response.status.as_u16());
        challenge::note(
            &mut error,
            &response.headers,
            &Security::default(),
            &secrets,
        );
        let elsewhere = response.status.is_client_error();
        return Err(if elsewhere {
            Miss::Elsewhere(error)
        } else {
            Miss::Final(error)
        });
    }
    let body = body::read_response(&mut response, max_bytes).await;
    let body = body.map_err(|e| Miss::Final(line::from_net(e).undelivered()))?;
    weight::check(&body, max_bytes).map_err(|e| Miss::Final(e.undelivered()))?;
    let unreadable = |why: String| {
        Miss::Elsewhere(PeerError::new(PeerErrorKind::CardUnavailable, why).undelivered())
    };
    let secrets = Secrets::of(reach);
    let mut json = serde_json::from_slice(&body).map_err(|e| {
        let kind = line::content_type(&response.headers, &secrets);
        unreadable(format!("not JSON ({kind}, {} bytes): {e}", body.len()))
    })?;
    json = signature::verified(net, reach, json)
        .await
        .map_err(Miss::Final)?;
    secrets.scrub_answer(&mut json);
    let card = Card::read(&json).map_err(unreadable)?;
    let etag = response.headers.get(ETAG).cloned();
    Ok(Discovered::Card {
        card: Box::new(card),
        validator: etag.map(|etag| Validator {
            url: place.clone(),
            etag,
        }),
        max_age,
    })
}

/// Where the card may be: below the base URL, then at its origin, last at the place it had before 0.3.
fn places(reach: &PeerConfig) -> Result<Vec<Url>, PeerError> {
    let path = match &reach.card {
        CardLocation::Url(url) => return Ok(vec![url.clone()]),
        CardLocation::Path(path) => path,
    };
    let base = &reach.base_url;
    let mut places: Vec<Url> = Vec::new();
    if path.starts_with('/') {
        let below = format!("{}{path}", base.path().trim_end_matches('/'));
        let old = (path == DEFAULT_PATH).then_some(OLD_PATH);
        for path in [Some(below.as_str()), Some(path), old]
            .into_iter()
            .flatten()
        {
            let mut place = base.clone();
            // A path may carry a query of its own.
            let (path, query) = path
                .split_once('?')
                .map_or((path, None), |(path, query)| (path, Some(query)));
            place.set_path(path);
            place.set_query(query);
            if !places.contains(&place) {
                places.push(place);
            }
        }
    } else if let Ok(place) = base.join(path)
        && place.origin() == base.origin()
    {
        places.push(place);
    }
    if places.is_empty() {
        let message = format!(
            "the card path `{}` does not lead to a place on `{}`",
            path.split('?').next().unwrap_or_default().escape_debug(),
            shown(base)
        );
        return Err(PeerError::new(PeerErrorKind::CardUnavailable, message).undelivered());
    }
    Ok(places)
}

/// How long an answer may be used without asking again (RFC 9111 §5.2.2).
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn paths(base: &str, card: &str) -> Vec<String> {
        let reach = PeerConfig {
            configured: true,
            ..PeerConfig::new(Url::parse(base).unwrap(), CardLocation::Path(card.into()))
        };
        places(&reach).map_or_else(
            |_| Vec::new(),
            |all| all.iter().map(|url| url.path().to_owned()).collect(),
        )
    }

    #[test]
    fn a_path_is_looked_for_below_the_base_url_then_at_its_origin_then_at_its_old_place() {
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
    fn a_path_without_a_slash_is_relative_and_stays_on_the_origin() {
        assert_eq!(
            paths("http://a.example/agents/one", "card.json"),
            ["/agents/card.json"]
        );
        assert_eq!(paths("http://a.example/", "//b.example/card.json").len(), 1);
        assert!(paths("http://a.example/", "http:////b.example/card.json").is_empty());
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
