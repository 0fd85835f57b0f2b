//! A client of an authorization server.

use std::hash::{Hash, Hasher};

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{Tokens, basic, form_encoded};

/// How a client authenticates at the token endpoint (RFC 6749 §2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// In the header `Authorization: Basic`, which every server must support.
    #[default]
    Basic,
    /// In the body of the request.
    Post,
}

/// A client that gets its tokens with the client credentials grant (RFC 6749 §4.4).
pub struct OAuth2 {
    /// The token endpoint.
    pub token_url: Url,
    /// The client's id.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: SecretString,
    /// The requested scopes.
    pub scopes: Vec<String>,
    /// How the client authenticates.
    pub client_auth: ClientAuth,
    /// The requested audience, which some servers require in addition to RFC 6749.
    pub audience: Option<String>,
    /// The issued tokens.
    pub tokens: Tokens,
}

impl OAuth2 {
    /// Creates a client without a token.
    pub fn new(
        token_url: Url,
        client_id: String,
        client_secret: SecretString,
        scopes: Vec<String>,
    ) -> Self {
        Self {
            token_url,
            client_id,
            client_secret,
            scopes,
            client_auth: ClientAuth::default(),
            audience: None,
            tokens: Tokens::default(),
        }
    }

    /// Sets how the client authenticates.
    #[must_use]
    pub fn with_client_auth(mut self, client_auth: ClientAuth) -> Self {
        self.client_auth = client_auth;
        self
    }

    /// Sets the requested audience.
    #[must_use]
    pub fn with_audience(mut self, audience: Option<String>) -> Self {
        self.audience = audience;
        self
    }

    /// Encodes the client's id and secret for `Authorization: Basic`, each form-encoded first (RFC 6749 §2.3.1).
    pub fn basic(&self) -> SecretString {
        let secret = form_encoded(self.client_secret.expose_secret());
        basic(&form_encoded(&self.client_id), &secret)
    }

    /// Returns the client's secret, alone and with the client's id.
    pub fn secrets(&self) -> Vec<SecretString> {
        vec![self.client_secret.clone(), self.basic()]
    }
}

impl Hash for OAuth2 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.token_url.as_str().hash(state);
        self.client_secret.expose_secret().hash(state);
        (&self.client_id, &self.scopes).hash(state);
        (self.client_auth, &self.audience).hash(state);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn id_and_secret_are_form_encoded_before_they_are_joined() {
        let client = OAuth2::new(
            Url::parse("https://as.example/token").unwrap(),
            "a:b".into(),
            "c d".to_owned().into(),
            Vec::new(),
        );
        // The Base64 of `a%3Ab:c+d`.
        assert_eq!(client.basic().expose_secret(), "YSUzQWI6Yytk");
    }
}
