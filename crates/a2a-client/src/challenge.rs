//! Authentication schemes that a peer requires: `WWW-Authenticate` (RFC 9110 §11.6.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use a2a::{Scheme, Security};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::peer_secrets::PeerSecrets;

/// The maximum number of schemes in an error.
const MAX_SCHEMES: usize = 8;

/// A challenge of the header.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    scheme: String,
    realm: Option<String>,
}

/// Adds the schemes that the peer requires to an error of status 401 or 403: those of its challenges, else those of its
/// card. Does not change other errors.
pub(super) fn add_auth_schemes(
    error: &mut PeerError,
    headers: &HeaderMap,
    declared: &Security,
    secrets: &PeerSecrets,
) {
    if !matches!(error.http_status, Some(401 | 403)) {
        return;
    }
    error.kind = PeerErrorKind::AuthRequired;
    let mut schemes = Vec::new();
    for value in headers.get_all(WWW_AUTHENTICATE) {
        for challenge in challenges(&String::from_utf8_lossy(value.as_bytes())) {
            let scheme = excerpt(&secrets.scrub(challenge.scheme));
            if schemes.len() == MAX_SCHEMES || scheme.is_empty() {
                break;
            }
            schemes.push(match challenge.realm {
                Some(realm) => format!("{scheme} (realm `{}`)", excerpt(&secrets.scrub(realm))),
                None => scheme.clone(),
            });
            if !error.auth_schemes.contains(&scheme) {
                error.auth_schemes.push(scheme);
            }
        }
    }
    if schemes.is_empty() {
        let names = declared.schemes.iter().filter_map(|one| name(&one.scheme));
        for name in names.take(MAX_SCHEMES) {
            if !error.auth_schemes.contains(&name) {
                error.auth_schemes.push(name);
            }
        }
        schemes.extend(
            declared
                .requirements_text()
                .map(|requirements| excerpt(&requirements)),
        );
    }
    if !schemes.is_empty() {
        error.message = format!("{}; it requires {}", error.message, schemes.join(" or "));
    }
}

/// Returns the name of a scheme of a card: the HTTP scheme, or else the kind.
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

/// Returns the challenges of one header. Commas separate challenges as well as parameters: a part with `=` after its first
/// word is a parameter of the preceding challenge.
fn challenges(header: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    for part in parts(header) {
        let (token, rest) = match part.find(|c: char| c.is_whitespace() || c == '=') {
            Some(end) => (&part[..end], part[end..].trim_start()),
            None => (part, ""),
        };
        let parameter = match rest.strip_prefix('=') {
            Some(value) => Some((token, value)),
            None => {
                found.push(Challenge {
                    scheme: token.to_owned(),
                    realm: None,
                });
                rest.split_once('=')
            }
        };
        if let (Some((name, value)), Some(challenge)) = (parameter, found.last_mut())
            && name.trim().eq_ignore_ascii_case("realm")
        {
            challenge.realm = Some(unquote(value.trim()));
        }
    }
    found
}

/// Splits at commas outside of quoted strings.
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

/// Removes the quotes and escapes of a quoted string; returns a token unchanged.
fn unquote(value: &str) -> String {
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
    use a2a::SecurityScheme;
    use peer::{CardLocation, PeerConfig};

    #[test]
    fn schemes_and_realms_of_a_header_are_read() {
        for (header, expected) in [
            (
                r#"Basic realm="a, \"b\"", charset="UTF-8", Bearer, DPoP algs="ES256""#,
                &[
                    ("Basic", Some("a, \"b\"")),
                    ("Bearer", None),
                    ("DPoP", None),
                ][..],
            ),
            (
                r#"Basic realm="5\" disk, rack 2", Bearer"#,
                &[("Basic", Some("5\" disk, rack 2")), ("Bearer", None)],
            ),
            ("Bearer realm=desk", &[("Bearer", Some("desk"))]),
            (r#"Bearer realm="""#, &[("Bearer", Some(""))]),
            ("Bearer realm = desk", &[("Bearer", Some("desk"))]),
            (
                r#"Bearer error="invalid_token", REALM="desk""#,
                &[("Bearer", Some("desk"))],
            ),
            ("Negotiate abc==", &[("Negotiate", None)]),
            ("", &[]),
            (" , ,", &[]),
            ("realm=\"x\"", &[]),
        ] {
            let found = challenges(header);
            let found: Vec<_> = found
                .iter()
                .map(|one| (&*one.scheme, one.realm.as_deref()))
                .collect();
            assert_eq!(found, expected, "{header}");
        }
    }

    /// The error of a peer that answers 401 without a header and declares `declared` in its card.
    fn refused(declared: &Security) -> PeerError {
        let url = url::Url::parse("https://a.example/").unwrap();
        let secrets = PeerSecrets::new(&PeerConfig::new(url, CardLocation::Path("/card".into())));
        let mut error = PeerError::new(PeerErrorKind::HttpStatus, "the peer responded 401");
        error.http_status = Some(401);
        add_auth_schemes(&mut error, &HeaderMap::new(), declared, &secrets);
        error
    }

    #[test]
    fn without_a_header_the_card_names_the_schemes() {
        let schemes = [
            Scheme::Http("bearer".into()),
            Scheme::OAuth2 { flows: Vec::new() },
            Scheme::OpenIdConnect,
            Scheme::MutualTls,
            Scheme::Unknown,
            Scheme::Http(String::new()),
        ];
        let declared = Security {
            schemes: schemes
                .map(|scheme| SecurityScheme {
                    name: "any".into(),
                    scheme,
                })
                .into(),
            requirements: Vec::new(),
        };
        assert_eq!(
            refused(&declared).auth_schemes,
            ["bearer", "oauth2", "openIdConnect", "mutualTLS"]
        );
    }

    #[test]
    fn long_requirements_of_card_are_shortened() {
        let declared = Security {
            schemes: Vec::new(),
            requirements: vec![vec!["key ".repeat(100_000)]],
        };
        let error = refused(&declared);
        assert!(error.message.contains("it requires `key key"), "{error}");
        assert!(error.message.len() < 1000, "{}", error.message.len());
    }
}
