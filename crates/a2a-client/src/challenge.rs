//! What a peer wants from whom it does not know: `WWW-Authenticate` (RFC 9110 §11.6.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use a2a::{Scheme, Security};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::secrets::Secrets;

/// So many ways are told at most.
const TOLD: usize = 8;

/// One way of proving who calls.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    realm: Option<String>,
}

/// Makes an error of a status 401 or 403 one that says what the peer asks for: by its challenges, else by what its card
/// declares. Other errors stay as they are.
pub(super) fn note(
    error: &mut PeerError,
    headers: &HeaderMap,
    declared: &Security,
    secrets: &Secrets,
) {
    if !matches!(error.http_status, Some(401 | 403)) {
        return;
    }
    error.kind = PeerErrorKind::AuthRequired;
    let mut told = Vec::new();
    for value in headers.get_all(WWW_AUTHENTICATE) {
        for challenge in challenges(&String::from_utf8_lossy(value.as_bytes())) {
            let scheme = excerpt(&secrets.scrub(challenge.scheme));
            if told.len() == TOLD || scheme.is_empty() {
                break;
            }
            told.push(match challenge.realm {
                Some(realm) => format!("{scheme} (realm `{}`)", excerpt(&secrets.scrub(realm))),
                None => scheme.clone(),
            });
            if !error.auth_schemes.contains(&scheme) {
                error.auth_schemes.push(scheme);
            }
        }
    }
    if told.is_empty() {
        let names = declared.schemes.iter().filter_map(|one| name(&one.scheme));
        for name in names.take(TOLD) {
            if !error.auth_schemes.contains(&name) {
                error.auth_schemes.push(name);
            }
        }
        told.extend(declared.asks_for().map(|ways| excerpt(&ways)));
    }
    if !told.is_empty() {
        error.message = format!("{}; it asks for {}", error.message, told.join(" or "));
    }
}

/// What a card calls a scheme: the scheme of HTTP where it is one, else the kind.
fn name(scheme: &Scheme) -> Option<String> {
    Some(match scheme {
        Scheme::Http(name) => excerpt(name),
        Scheme::ApiKey { .. } => "apiKey".to_owned(),
        Scheme::OAuth2 { .. } => "oauth2".to_owned(),
        Scheme::OpenIdConnect => "openIdConnect".to_owned(),
        Scheme::MutualTls => "mutualTLS".to_owned(),
        Scheme::Unknown => return None,
    })
    .filter(|name| !name.is_empty())
}

/// The challenges in one header. Both they and their parameters are parted by commas: what has a `=` behind its first word
/// is a parameter of the challenge before it.
fn challenges(header: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    for part in parts(header) {
        let (word, rest) = match part.find(|c: char| c.is_whitespace() || c == '=') {
            Some(end) => (&part[..end], part[end..].trim_start()),
            None => (part, ""),
        };
        let parameter = match rest.strip_prefix('=') {
            Some(value) => Some((word, value)),
            None => {
                found.push(Challenge {
                    scheme: word.to_owned(),
                    realm: None,
                });
                rest.split_once('=')
            }
        };
        if let (Some((name, value)), Some(challenge)) = (parameter, found.last_mut())
            && name.trim().eq_ignore_ascii_case("realm")
        {
            challenge.realm = Some(unquoted(value.trim()));
        }
    }
    found
}

/// What stands between commas that are not inside a quoted text.
fn parts(header: &str) -> impl Iterator<Item = &str> {
    let (mut inside, mut escaped) = (false, false);
    header
        .split(move |c| {
            let parts = c == ',' && !inside;
            inside ^= c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            parts
        })
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// A quoted text without its quotes and escapes, or a word as it is.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    let mut text = String::new();
    let mut letters = inner.chars();
    while let Some(c) = letters.next() {
        match c {
            '"' => break,
            '\\' => text.extend(letters.next()),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use peer::{CardLocation, PeerConfig};

    fn read(header: &str) -> Vec<(String, Option<String>)> {
        let found = challenges(header).into_iter();
        found.map(|one| (one.scheme, one.realm)).collect()
    }

    fn one(scheme: &str, realm: Option<&str>) -> (String, Option<String>) {
        (scheme.to_owned(), realm.map(str::to_owned))
    }

    #[test]
    fn several_challenges_in_one_header_are_told_apart() {
        assert_eq!(
            read(r#"Basic realm="a, \"b\"", charset="UTF-8", Bearer, DPoP algs="ES256""#),
            [
                one("Basic", Some("a, \"b\"")),
                one("Bearer", None),
                one("DPoP", None)
            ]
        );
    }

    #[test]
    fn a_realm_is_found_wherever_it_stands() {
        let expected = [one("Bearer", Some("desk"))];
        for header in [
            "Bearer realm=desk",
            "Bearer realm = desk",
            r#"Bearer error="invalid_token", REALM="desk""#,
        ] {
            assert_eq!(read(header), expected, "{header}");
        }
    }

    #[test]
    fn a_card_that_asks_at_length_is_told_in_short() {
        let url = url::Url::parse("https://a.example/").unwrap();
        let secrets = Secrets::of(&PeerConfig::new(url, CardLocation::Path("/card".into())));
        let declared = Security {
            schemes: Vec::new(),
            requirements: vec![vec!["key ".repeat(100_000)]],
        };
        let mut error = PeerError::new(PeerErrorKind::HttpStatus, "the peer answered 401");
        error.http_status = Some(401);
        note(&mut error, &HeaderMap::new(), &declared, &secrets);
        assert!(error.message.contains("it asks for `key key"), "{error}");
        assert!(error.message.len() < 1000, "{}", error.message.len());
    }

    #[test]
    fn nonsense_is_no_challenge_that_could_mislead() {
        assert!(read("").is_empty());
        assert!(read(" , ,").is_empty());
        assert!(read("realm=\"x\"").is_empty());
        assert_eq!(read("Negotiate abc=="), [one("Negotiate", None)]);
    }
}
