//! Credentials, and how they go along with a request.

use std::fmt;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

/// What proves to a peer who calls. `Debug` shows its kind alone.
pub enum Credential {
    /// `Authorization: Bearer` (RFC 6750).
    Bearer(SecretString),
}

impl Credential {
    /// The header that carries it.
    pub fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let Self::Bearer(token) = self;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).ok()?;
        value.set_sensitive(true);
        Some((AUTHORIZATION, value))
    }

    /// Every text that must not be shown.
    pub fn secrets(&self) -> Vec<SecretString> {
        let Self::Bearer(token) = self;
        vec![token.clone()]
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer",
        })
    }
}
