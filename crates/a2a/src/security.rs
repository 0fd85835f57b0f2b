//! Security requirements in all forms of cards (A2A 0.3 §5.5.3, 1.0 §4.5).

use std::fmt;

use serde_json::{Map, Value};

use super::json::{field, items, text};

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
        /// The flows that the card describes.
        flows: Vec<OAuthFlow>,
    },
    /// A token of an OpenID provider.
    OpenIdConnect,
    /// A client certificate.
    MutualTls,
    /// An unknown scheme.
    Unknown,
}

/// A flow of an authorization server, as a card describes it. Only an operator may decide to use its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct OAuthFlow {
    /// The name: `clientCredentials`, `authorizationCode`, `deviceCode`, …
    pub name: String,
    /// The authorization endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_url: Option<String>,
    /// The device authorization endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_authorization_url: Option<String>,
    /// The token endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    /// The scopes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
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
                let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
                write!(
                    f,
                    "an OAuth 2.0 token ({})",
                    names.join(", ").escape_debug()
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

/// The maximum number of schemes of a card.
const MAX_SCHEMES: usize = 32;

/// Parses the security requirements of a card. Skips unreadable ones, because a configured credential may satisfy the peer
/// anyway.
pub(super) fn read(card: &Map<String, Value>) -> Security {
    let described = field(card, "securitySchemes").and_then(Value::as_object);
    let schemes = described.into_iter().flatten().take(MAX_SCHEMES);
    let required = field(card, "securityRequirements").or_else(|| card.get("security"));
    Security {
        schemes: schemes
            .map(|(name, scheme)| SecurityScheme {
                name: name.clone(),
                scheme: self::scheme(scheme),
            })
            .collect(),
        requirements: items(required)
            .iter()
            .take(MAX_SCHEMES)
            .filter_map(|one| {
                // The names are below `schemes` in 1.0 and in the proto of 0.3, and bare in the text of 0.3.
                let names = one.get("schemes").unwrap_or(one).as_object()?;
                Some(names.keys().take(MAX_SCHEMES).cloned().collect())
            })
            .collect(),
    }
}

/// Parses a scheme: `{type, …}` in 0.3, `{NAMESecurityScheme: {…}}` in 1.0, and `{scheme: {$case, value}}` from
/// servers that serialize their own types.
fn scheme(json: &Value) -> Scheme {
    let inner = json
        .get("scheme")
        .filter(|inner| inner.is_object())
        .unwrap_or(json);
    let by_case = inner
        .get("$case")
        .and_then(Value::as_str)
        .zip(inner.get("value"));
    let by_type = || Some((json.get("type")?.as_str()?, json));
    let by_name = || {
        let (name, value) = json
            .as_object()?
            .iter()
            .find(|(_, value)| value.is_object())?;
        Some((name.as_str(), value))
    };
    let Some((kind, value)) = by_case.or_else(by_type).or_else(by_name) else {
        return Scheme::Unknown;
    };
    match kind {
        "apiKey" | "apiKeySecurityScheme" => Scheme::ApiKey {
            place: text(value.get("in").or_else(|| value.get("location"))).unwrap_or_default(),
            name: text(value.get("name")).unwrap_or_default(),
        },
        "http" | "httpAuthSecurityScheme" => Scheme::Http(
            text(value.get("scheme"))
                .unwrap_or_default()
                .to_ascii_lowercase(),
        ),
        "oauth2" | "oauth2SecurityScheme" => Scheme::OAuth2 {
            flows: flows(value.get("flows")),
        },
        "openIdConnect" | "openIdConnectSecurityScheme" => Scheme::OpenIdConnect,
        "mutualTLS" | "mtlsSecurityScheme" => Scheme::MutualTls,
        _ => Scheme::Unknown,
    }
}

fn flows(json: Option<&Value>) -> Vec<OAuthFlow> {
    if let Some(case) = json.and_then(|flows| flows.get("flow"))
        && let Some(name) = case.get("$case").and_then(Value::as_str)
    {
        return vec![flow(name, case.get("value").unwrap_or(&Value::Null))];
    }
    let named = json.and_then(Value::as_object).into_iter().flatten();
    named
        .filter(|(_, flow)| flow.is_object())
        .map(|(name, described)| flow(name, described))
        .take(MAX_SCHEMES)
        .collect()
}

fn flow(name: &str, described: &Value) -> OAuthFlow {
    let url = |name: &str| text(described.get(name)).filter(|url| !url.is_empty());
    let scopes = described.get("scopes").and_then(Value::as_object);
    OAuthFlow {
        name: name.to_owned(),
        authorization_url: url("authorizationUrl"),
        device_authorization_url: url("deviceAuthorizationUrl"),
        token_url: url("tokenUrl"),
        scopes: scopes
            .into_iter()
            .flat_map(|scopes| scopes.keys().take(MAX_SCHEMES).cloned())
            .collect(),
    }
}

#[cfg(test)]
mod read_tests {
    use super::*;
    use serde_json::json;

    fn schemes(card: Value) -> Vec<Scheme> {
        let read = read(card.as_object().unwrap_or(&Map::new()));
        read.schemes
            .into_iter()
            .map(|scheme| scheme.scheme)
            .collect()
    }

    #[test]
    fn same_schemes_are_read_in_every_dialect() {
        let old = json!({"securitySchemes": {
            "a": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "b": {"type": "http", "scheme": "Bearer"},
            "c": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://t/", "scopes": {}}}},
            "d": {"type": "openIdConnect", "openIdConnectUrl": "https://o/"},
            "e": {"type": "mutualTLS"},
            "f": {"type": "smoke signals"}
        }});
        let new = json!({"securitySchemes": {
            "a": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
            "b": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
            "c": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://t/"}}}},
            "d": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://o/"}},
            "e": {"mtlsSecurityScheme": {}},
            "f": {"smokeSecurityScheme": {}}
        }});
        let case = |name: &str, value: Value| json!({"scheme": {"$case": name, "value": value}});
        let cased = json!({"securitySchemes": {
            "a": case("apiKeySecurityScheme", json!({"location": "header", "name": "X-API-Key"})),
            "b": case("httpAuthSecurityScheme", json!({"scheme": "Bearer", "bearerFormat": "", "description": ""})),
            "c": case("oauth2SecurityScheme", json!({"flows": {"flow": {"$case": "clientCredentials", "value": {"tokenUrl": "https://t/", "scopes": {}}}}})),
            "d": case("openIdConnectSecurityScheme", json!({"openIdConnectUrl": "https://o/"})),
            "e": case("mtlsSecurityScheme", json!({})),
            "f": {"scheme": null}
        }});
        let expected = vec![
            Scheme::ApiKey {
                place: "header".into(),
                name: "X-API-Key".into(),
            },
            Scheme::Http("bearer".into()),
            Scheme::OAuth2 {
                flows: vec![OAuthFlow {
                    name: "clientCredentials".into(),
                    token_url: Some("https://t/".into()),
                    ..OAuthFlow::default()
                }],
            },
            Scheme::OpenIdConnect,
            Scheme::MutualTls,
            Scheme::Unknown,
        ];
        for card in [old, new, cased] {
            assert_eq!(schemes(card.clone()), expected, "{card}");
        }
    }

    #[test]
    fn device_flow_has_its_addresses_and_scopes() {
        let flow = json!({"deviceAuthorizationUrl": "https://d/", "tokenUrl": "https://t/", "scopes": {"a": "", "b": ""}});
        let card = json!({"securitySchemes": {"c": {"oauth2SecurityScheme": {"flows": {"deviceCode": flow}}}}});
        let expected = OAuthFlow {
            name: "deviceCode".into(),
            authorization_url: None,
            device_authorization_url: Some("https://d/".into()),
            token_url: Some("https://t/".into()),
            scopes: vec!["a".into(), "b".into()],
        };
        let flows = vec![expected];
        assert_eq!(schemes(card), [Scheme::OAuth2 { flows }]);
    }

    #[test]
    fn requirements_are_read_in_every_dialect() {
        for card in [
            json!({"security": [{"a": ["scope"], "b": []}, {}]}),
            json!({"securityRequirements": [{"schemes": {"a": {"list": ["scope"]}, "b": {}}}, {"schemes": {}}]}),
            json!({"security": [{"schemes": {"a": {"list": []}, "b": {"list": []}}}, {}]}),
        ] {
            let read = read(card.as_object().unwrap_or(&Map::new()));
            let names = vec![vec!["a".to_owned(), "b".to_owned()], Vec::new()];
            assert_eq!(read.requirements, names, "{card}");
        }
    }

    #[test]
    fn card_without_requirements_has_no_security() {
        assert_eq!(read(&Map::new()), Security::default());
        let odd = json!({"securitySchemes": [], "security": "none"});
        assert_eq!(
            read(odd.as_object().unwrap_or(&Map::new())),
            Security::default()
        );
    }
}
