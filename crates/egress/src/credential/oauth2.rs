//! A client of an authorization server, and its tokens.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::HeaderValue;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::Instant;
use url::Url;

use super::{basic, form_encoded};

/// The number of recent tokens to redact: a peer may repeat a token that it received earlier.
const RECENT_TOKENS: usize = 8;

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

/// The tokens of a client: the current one, and those to redact.
#[derive(Default)]
pub struct Tokens {
    current: Mutex<Option<Token>>,
    issued: Mutex<Arc<[SecretString]>>,
    /// The lock of the call that fetches a token, so that only one request runs at a time. Contains the error of the last
    /// attempt.
    pub refresh: tokio::sync::Mutex<Option<TokenError>>,
    /// The number of finished attempts.
    pub ended: AtomicU64,
}

/// Why there is no token.
#[derive(Clone)]
pub struct TokenError {
    /// The policy forbids the server's address.
    pub address_refused: bool,
    /// The reason as a sentence, without a secret.
    pub reason: String,
}

/// An access token.
#[derive(Clone)]
pub struct Token {
    /// The value of `Authorization`.
    pub header: HeaderValue,
    /// When to replace it.
    pub renew_at: Instant,
}

impl Tokens {
    /// Returns the token if it is valid at `now`.
    pub fn current(&self, now: Instant) -> Option<Token> {
        let current = self.current.lock();
        current
            .as_ref()
            .filter(|token| now < token.renew_at)
            .cloned()
    }

    /// Stores `token`, whose text is `secret`, in place of the previous one.
    pub fn keep(&self, token: Token, secret: SecretString) {
        let mut issued = self.issued.lock();
        let older = issued.len().saturating_sub(RECENT_TOKENS - 1);
        *issued = issued[older..].iter().cloned().chain([secret]).collect();
        *self.current.lock() = Some(token);
    }

    /// Removes a refused token, unless another one has replaced it.
    pub fn discard(&self, token: &Token) {
        let mut current = self.current.lock();
        if current
            .as_ref()
            .is_some_and(|current| current.header == token.header)
        {
            *current = None;
        }
    }

    /// Returns the newest tokens, the newest last.
    pub fn issued(&self) -> Arc<[SecretString]> {
        Arc::clone(&self.issued.lock())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    fn token(text: &str, now: Instant) -> Token {
        Token {
            header: text.parse().unwrap(),
            renew_at: now + Duration::from_secs(1),
        }
    }

    #[test]
    fn late_refusal_keeps_the_newer_token() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        let first = token("first", now);
        tokens.keep(first.clone(), "first".to_owned().into());
        tokens.keep(token("second", now), "second".to_owned().into());
        tokens.discard(&first);
        assert_eq!(tokens.current(now).unwrap().header, "second");
    }

    #[test]
    fn token_is_used_until_it_expires() {
        let (tokens, now) = (Tokens::default(), Instant::now());
        for i in 0..20 {
            let text = format!("token {i}");
            tokens.keep(token(&text, now), text.into());
        }
        assert!(tokens.current(now + Duration::from_secs(1)).is_none());
        let issued = tokens.issued();
        let newest = issued.last().unwrap().expose_secret();
        assert_eq!((issued.len(), newest), (RECENT_TOKENS, "token 19"));
    }

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
