//! Credentials and TLS trust.
//!
//! Data only: `auth.rs` adds a credential to a request, `tls.rs` secures a connection.

mod oauth2;
mod trust;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use crate::{NetError, NetFault, Sent};

pub use oauth2::{ClientAuth, OAuth2, Token, TokenError, Tokens};
pub use trust::{Trust, TrustError};

/// A credential for a peer. A certificate belongs to the connection instead ([`Trust`]). `Debug` shows only the kind.
pub enum Credential {
    /// `Authorization: Bearer` (RFC 6750).
    Bearer(SecretString),
    /// `Authorization: Basic` (RFC 7617).
    Basic {
        /// The user's name.
        username: String,
        /// The user's password.
        password: SecretString,
    },
    /// An API key.
    ApiKey {
        /// The place of the key in a request.
        place: CredentialPlace,
        /// The key.
        key: SecretString,
    },
    /// A bearer token from an authorization server (RFC 6749 §4.4).
    OAuth2(Box<OAuth2>),
}

/// The place of an API key in a request.
#[derive(Clone, Hash)]
pub enum CredentialPlace {
    /// The header of this name.
    Header(HeaderName),
    /// The query parameter of this name.
    Query(String),
    /// The cookie of this name.
    Cookie(String),
}

impl Credential {
    /// Returns the header that carries it. Requests may not set this header.
    pub fn header(&self) -> Option<HeaderName> {
        match self {
            Self::ApiKey { place, .. } => match place {
                CredentialPlace::Header(name) => Some(name.clone()),
                CredentialPlace::Cookie(_) => Some(http::header::COOKIE),
                CredentialPlace::Query(_) => None,
            },
            Self::Bearer(_) | Self::Basic { .. } | Self::OAuth2(_) => {
                Some(http::header::AUTHORIZATION)
            }
        }
    }

    /// Returns every form of the credential that must be redacted. Issued tokens are in [`issued`](Self::issued).
    pub fn secrets(&self) -> Vec<SecretString> {
        match self {
            Self::Bearer(token) => vec![token.clone()],
            Self::Basic { username, password } => {
                vec![password.clone(), basic(username, password.expose_secret())]
            }
            Self::ApiKey { key, .. } => vec![key.clone()],
            Self::OAuth2(client) => client.secrets(),
        }
    }

    /// Returns the access tokens that were issued for it, the newest last.
    pub fn issued(&self) -> Option<Arc<[SecretString]>> {
        match self {
            Self::OAuth2(client) => Some(client.tokens.issued()),
            _ => None,
        }
    }
}

/// Encodes user name and password for `Authorization: Basic` (RFC 7617 §2).
pub(crate) fn basic(username: &str, password: &str) -> SecretString {
    STANDARD.encode(format!("{username}:{password}")).into()
}

/// Encodes `text` as `application/x-www-form-urlencoded`.
pub(crate) fn form_encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Returns a header value that `Debug` does not print.
pub(crate) fn sensitive(text: impl AsRef<str>) -> Result<HeaderValue, NetError> {
    let mut value = HeaderValue::from_str(text.as_ref()).map_err(|_| {
        let message = "the credential has characters that an HTTP header cannot contain";
        NetError::new(NetFault::Protocol, Sent::No, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Hash for Credential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Bearer(token) => token.expose_secret().hash(state),
            Self::Basic { username, password } => {
                (username, password.expose_secret()).hash(state);
            }
            Self::ApiKey { place, key } => (place, key.expose_secret()).hash(state),
            Self::OAuth2(client) => client.hash(state),
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer",
            Self::Basic { .. } => "Basic",
            Self::ApiKey { .. } => "ApiKey",
            Self::OAuth2(_) => "OAuth2",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn texts(credential: &Credential) -> Vec<String> {
        let secrets = credential.secrets();
        secrets
            .iter()
            .map(|secret| secret.expose_secret().to_owned())
            .collect()
    }

    #[test]
    fn password_is_redacted_with_and_without_user() {
        let basic = Credential::Basic {
            username: "desk".into(),
            password: "open sesame".to_owned().into(),
        };
        assert_eq!(texts(&basic), ["open sesame", "ZGVzazpvcGVuIHNlc2FtZQ=="]);
    }

    #[test]
    fn credential_debug_shows_only_its_kind() {
        let secret = || SecretString::from("s3cret".to_owned());
        let all = [
            Credential::Bearer(secret()),
            Credential::Basic {
                username: "s3cret".into(),
                password: secret(),
            },
            Credential::ApiKey {
                place: CredentialPlace::Query("s3cret".into()),
                key: secret(),
            },
            Credential::OAuth2(Box::new(OAuth2::new(
                url::Url::parse("https://s3cret.example/").unwrap(),
                "s3cret".into(),
                secret(),
                vec!["s3cret".into()],
            ))),
        ];
        assert_eq!(format!("{all:?}"), "[Bearer, Basic, ApiKey, OAuth2]");
    }
}
