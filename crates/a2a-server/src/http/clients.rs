//! The clients of the server: their bearer tokens, certificates, and tokens of issuers.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base::text::hex;
use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use crate::service::{ANONYMOUS_CLIENT, CallContext};
use a2a::Version;
use a2a::{A2aError, ErrorReason};

/// The SHA-256 of a token. Tokens have at least 128 random bits, so a slow hash would add no security.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Computes the digest of a token.
    pub fn new(token: &str) -> Self {
        Self::of(token.as_bytes())
    }

    /// Computes the digest of a certificate.
    fn of(content: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, content).as_ref());
        Self(bytes)
    }

    /// Parses 64 hexadecimal digits; `None` if the text is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                *byte = (*byte << 4) | u8::try_from(char::from(*digit).to_digit(16)?).ok()?;
            }
        }
        Some(Self(bytes))
    }

    /// Returns the digest as 64 hexadecimal digits.
    pub fn hex(self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// How a client proves who it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// A bearer token with this digest.
    Token(TokenDigest),
    /// A TLS certificate whose DER has this digest.
    Certificate(TokenDigest),
    /// A JSON Web Token.
    Issued {
        /// Its issuer (`iss`), without a slash at the end.
        issuer: String,
        /// Its audience (`aud`).
        audience: String,
        /// Claims that it has, or lists that contain the values.
        claims: Map<String, Value>,
    },
}

impl Proof {
    /// Returns whether the verified claims of a token are this proof.
    fn fits(&self, token: &Map<String, Value>) -> bool {
        let Self::Issued {
            issuer,
            audience,
            claims,
        } = self
        else {
            return false;
        };
        let has = |name: &str, value: &Value| match token.get(name) {
            Some(Value::Array(all)) => all.contains(value),
            one => one == Some(value),
        };
        let from = token.get("iss").and_then(Value::as_str);
        from.is_some_and(|from| from.trim_end_matches('/') == issuer)
            && has("aud", &Value::from(&**audience))
            && claims.iter().all(|(name, value)| has(name, value))
    }
}

/// Verifies tokens of issuers such as OpenID providers.
pub trait TokenIssuers: Send + Sync {
    /// Verifies issuer, time and signature of a token, and returns its claims.
    ///
    /// The error says why it is not valid, and does not contain it.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Map<String, Value>, String>>;
}

/// A client that the server accepts.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisteredClient {
    /// The name of the client, which owns its tasks and contexts.
    pub name: String,
    /// What identifies the client.
    pub proof: Proof,
    /// Whether the client may see and cancel the tasks of all clients.
    pub operator: bool,
}

/// The identity behind a request: an authenticated client, or [`ANONYMOUS_CLIENT`] if the server requires no token.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The client's name.
    pub name: Arc<str>,
    /// Whether the request proved who the client is.
    pub authenticated: bool,
    /// Whether the client may see and cancel the tasks of all clients.
    pub operator: bool,
    /// Cancelled when the token becomes invalid. This ends the requests and event streams that started with it, except
    /// for a page of tasks that the server is already sending.
    pub revoked: CancellationToken,
}

impl Principal {
    /// Returns the context of a request of this principal.
    pub(super) fn call_context(&self, version: Version, agent: Option<String>) -> CallContext {
        CallContext {
            client: self.name.to_string(),
            authenticated: self.authenticated,
            version,
            agent,
        }
    }
}

/// The clients that the server accepts. They can be replaced while the server runs.
pub struct ClientRegistry {
    /// Constant, so that a server without remaining clients still requires tokens.
    requires_token: bool,
    entries: RwLock<Arc<[Entry]>>,
    issuers: Option<Arc<dyn TokenIssuers>>,
    /// The principal of requests to a server that requires no token.
    anonymous: Arc<Principal>,
}

/// A client with the principal of its requests.
struct Entry {
    client: RegisteredClient,
    principal: Arc<Principal>,
}

impl Entry {
    fn new(client: RegisteredClient, revoked: CancellationToken) -> Self {
        let principal = Principal {
            name: client.name.as_str().into(),
            authenticated: true,
            operator: client.operator,
            revoked,
        };
        Self {
            client,
            principal: Arc::new(principal),
        }
    }
}

impl ClientRegistry {
    /// Creates a registry that requires no token, for a server that is reachable only from its own machine.
    pub fn open() -> Self {
        Self::with(false, Vec::new())
    }

    /// Creates a registry that requires a token of one of these clients.
    pub fn new(clients: Vec<RegisteredClient>) -> Self {
        Self::with(true, clients)
    }

    fn with(requires_token: bool, clients: Vec<RegisteredClient>) -> Self {
        let clients = clients.into_iter();
        let entries = clients.map(|client| Entry::new(client, CancellationToken::new()));
        Self {
            requires_token,
            entries: RwLock::new(entries.collect()),
            issuers: None,
            anonymous: Arc::new(Principal {
                name: ANONYMOUS_CLIENT.into(),
                authenticated: false,
                operator: false,
                // Never cancelled, because no token can be revoked.
                revoked: CancellationToken::new(),
            }),
        }
    }

    /// Sets what verifies the tokens of issuers.
    #[must_use]
    pub fn with_issuers(mut self, issuers: Arc<dyn TokenIssuers>) -> Self {
        self.issuers = Some(issuers);
        self
    }

    /// Replaces all clients. Ends the requests and streams whose token is no longer valid.
    pub fn replace(&self, clients: Vec<RegisteredClient>) {
        let mut entries = self.entries.write();
        let old = std::mem::replace(&mut *entries, Arc::new([]));
        let has_same_token = |old: &Entry, client: &RegisteredClient| {
            old.client.name == client.name
                && old.client.proof == client.proof
                // Requests with the rights of an operator end with these.
                && (client.operator || !old.client.operator)
        };
        *entries = clients
            .into_iter()
            .map(|client| {
                let before = old.iter().find(|old| has_same_token(old, &client));
                let revoked =
                    before.map_or_else(CancellationToken::new, |old| old.principal.revoked.clone());
                Entry::new(client, revoked)
            })
            .collect();
        for old in old.iter() {
            if !entries.iter().any(|new| has_same_token(old, &new.client)) {
                old.principal.revoked.cancel();
            }
        }
    }

    /// Returns the names of all clients.
    pub fn names(&self) -> HashSet<String> {
        let entries = self.entries.read();
        entries
            .iter()
            .map(|entry| entry.client.name.clone())
            .collect()
    }

    /// Returns whether a certificate identifies any of the clients.
    pub fn take_certificates(&self) -> bool {
        let entries = self.entries.read();
        let mut proofs = entries.iter().map(|entry| &entry.client.proof);
        proofs.any(|proof| matches!(proof, Proof::Certificate(_)))
    }

    /// Returns whether a request needs a token.
    pub fn requires_token(&self) -> bool {
        self.requires_token
    }

    /// Returns the principal of a request, by its token or else by the certificate of its connection in DER. Compares digests in
    /// constant time with those of every client.
    ///
    /// # Errors
    /// Neither identifies a client. The error does not contain the token.
    pub fn identify(
        &self,
        headers: &HeaderMap,
        certificate: Option<&[u8]>,
    ) -> Result<Arc<Principal>, A2aError> {
        if !self.requires_token {
            return Ok(Arc::clone(&self.anonymous));
        }
        let by_certificate = certificate.filter(|_| !headers.contains_key(AUTHORIZATION));
        let shown = match by_certificate {
            Some(der) => Proof::Certificate(TokenDigest::of(der)),
            None => Proof::Token(TokenDigest::new(token(headers)?)),
        };
        let entries = Arc::clone(&self.entries.read());
        let mut found = None;
        for entry in entries.iter() {
            let is_same = match (&entry.client.proof, &shown) {
                (Proof::Token(own), Proof::Token(shown))
                | (Proof::Certificate(own), Proof::Certificate(shown)) => own.0.ct_eq(&shown.0),
                _ => continue,
            };
            if bool::from(is_same) {
                found = Some(entry);
            }
        }
        found.map(|entry| Arc::clone(&entry.principal)).ok_or_else(|| match shown {
            Proof::Certificate(_) => unauthenticated(
                "the client certificate is that of no client; send a bearer token, or ask the server's operator to list its SHA-256",
            ),
            _ => unauthenticated("unknown bearer token; ask the server's operator for one (`remote-agent serve clients add NAME`)"),
        })
    }

    /// Returns the token of a request that may be one of an issuer.
    pub(super) fn issued_token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        self.issuers.as_ref()?;
        let token = token(headers).ok()?;
        (token.matches('.').count() == 2).then_some(token)
    }

    /// Returns the principal of a token of an issuer.
    ///
    /// # Errors
    /// The token is not valid, or identifies no client. The error does not contain it.
    pub(super) async fn identify_issued(&self, token: &str) -> Result<Arc<Principal>, A2aError> {
        let Some(issuers) = &self.issuers else {
            return Err(unauthenticated("this server accepts no tokens of issuers"));
        };
        let claims = issuers.verify(token).await;
        let claims =
            claims.map_err(|problem| A2aError::new(ErrorReason::Unauthenticated, problem))?;
        let entries = Arc::clone(&self.entries.read());
        let mut entries = entries.iter();
        let found = entries.find(|entry| entry.client.proof.fits(&claims));
        found.map(|entry| Arc::clone(&entry.principal)).ok_or_else(|| {
            unauthenticated("the token is valid, but no client of this server has its issuer, audience and claims; ask the server's operator")
        })
    }
}

/// Returns the bearer token (RFC 6750 §2.1) of a request.
fn token(headers: &HeaderMap) -> Result<&str, A2aError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return Err(unauthenticated(
            "authentication required; send one header `Authorization: Bearer TOKEN`",
        ));
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(unauthenticated(
            "unsupported authentication scheme; send the token as `Authorization: Bearer TOKEN`",
        ));
    }
    Ok(token.trim())
}

/// Returns the error of a request whose token was revoked while the server processed it.
pub(super) fn revoked() -> A2aError {
    unauthenticated(
        "the token of this request was revoked; ask the server's operator for a new one",
    )
}

fn unauthenticated(text: &'static str) -> A2aError {
    A2aError::new(ErrorReason::Unauthenticated, text)
}

#[cfg(test)]
mod tests;
