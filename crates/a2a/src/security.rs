//! Security requirements of cards (A2A 0.3 §5.5.3, 1.0 §4.5).

use std::fmt;

/// The security requirements of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    /// The schemes of the card, in its order.
    pub schemes: Vec<SecurityScheme>,
    /// The alternatives, each a list of names of schemes that are required together. An empty list requires no
    /// credential.
    pub requirements: Vec<Vec<String>>,
}

/// A named security scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityScheme {
    /// The name in the card.
    pub name: String,
    /// The scheme.
    pub scheme: Scheme,
}

/// The kind of a security scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// An API key.
    ApiKey {
        /// `header`, `query` or `cookie`.
        place: String,
        /// The name of the header, the parameter or the cookie.
        name: String,
    },
    /// An HTTP authentication scheme (RFC 9110 §11), in lower case.
    Http(String),
    /// A token of an OAuth 2.0 authorization server.
    OAuth2 {
        /// The flows that the card describes, by name.
        flows: Vec<String>,
    },
    /// A token of an OpenID provider.
    OpenIdConnect,
    /// A client certificate.
    MutualTls,
    /// An unknown scheme.
    Unknown,
}

/// The maximum number of alternatives in a sentence.
const MAX_NAMED_SCHEMES: usize = 5;

impl Security {
    /// Returns the required schemes as text; `None` if the card requires none.
    pub fn requirements_text(&self) -> Option<String> {
        let mut alternatives: Vec<String> = Vec::new();
        let mut add = |alternative: String| {
            if !alternative.is_empty() && !alternatives.contains(&alternative) {
                alternatives.push(alternative);
            }
        };
        if self.requirements.is_empty() {
            for scheme in self.schemes.iter().take(MAX_NAMED_SCHEMES) {
                add(scheme.scheme.to_string());
            }
        }
        for required in self.requirements.iter().take(MAX_NAMED_SCHEMES) {
            let together = required
                .iter()
                .take(MAX_NAMED_SCHEMES)
                .map(|name| self.describe(name));
            add(together.collect::<Vec<_>>().join(" together with "));
        }
        (!alternatives.is_empty()).then(|| alternatives.join(", or "))
    }

    fn describe(&self, name: &str) -> String {
        let scheme = self.schemes.iter().find(|scheme| scheme.name == name);
        scheme.map_or_else(
            || format!("`{}`", name.escape_debug()),
            |scheme| scheme.scheme.to_string(),
        )
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiKey { place, name } => write!(
                f,
                "an API key in the {} `{}`",
                place.escape_debug(),
                name.escape_debug()
            ),
            Self::Http(scheme) if scheme == "bearer" => f.write_str("a bearer token"),
            Self::Http(scheme) if scheme == "basic" => f.write_str("a user name and password"),
            Self::Http(scheme) => write!(f, "HTTP authentication `{}`", scheme.escape_debug()),
            Self::OAuth2 { flows } if flows.is_empty() => f.write_str("an OAuth 2.0 token"),
            Self::OAuth2 { flows } => {
                write!(
                    f,
                    "an OAuth 2.0 token ({})",
                    flows.join(", ").escape_debug()
                )
            }
            Self::OpenIdConnect => f.write_str("an OpenID Connect token"),
            Self::MutualTls => f.write_str("a client certificate"),
            Self::Unknown => f.write_str("an unknown scheme"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(name: &str, scheme: Scheme) -> SecurityScheme {
        SecurityScheme {
            name: name.into(),
            scheme,
        }
    }

    fn key() -> Scheme {
        Scheme::ApiKey {
            place: "header".into(),
            name: "X-API-Key".into(),
        }
    }

    #[test]
    fn requirements_are_alternatives_of_combined_schemes() {
        let security = Security {
            schemes: vec![
                scheme("main", Scheme::Http("bearer".into())),
                scheme("key", key()),
                scheme("cert", Scheme::MutualTls),
            ],
            requirements: vec![vec!["main".into()], vec!["key".into(), "cert".into()]],
        };
        let expected = "a bearer token, or an API key in the header `X-API-Key` together with a client certificate";
        assert_eq!(security.requirements_text().as_deref(), Some(expected));
    }

    #[test]
    fn without_requirements_every_scheme_is_listed() {
        let mut security = Security::default();
        assert_eq!(security.requirements_text(), None);
        security.schemes = vec![scheme("key", key()), scheme("oidc", Scheme::OpenIdConnect)];
        let expected = "an API key in the header `X-API-Key`, or an OpenID Connect token";
        assert_eq!(security.requirements_text().as_deref(), Some(expected));
    }
}
