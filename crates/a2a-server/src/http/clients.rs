//! The clients of the server and their bearer tokens.

use parking_lot::RwLock;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
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
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
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
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A client with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    /// The name of the client, which owns its tasks and contexts.
    pub name: String,
    /// The digest of the client's token.
    pub digest: TokenDigest,
    /// Whether the client may see and cancel the tasks of all clients.
    pub operator: bool,
}

/// The identity behind a request: an authenticated client, or [`ANONYMOUS_CLIENT`] if the server requires no token.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The client's name.
    pub name: Arc<str>,
    /// Whether the request carried a valid token.
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
            anonymous: Arc::new(Principal {
                name: ANONYMOUS_CLIENT.into(),
                authenticated: false,
                operator: false,
                // Never cancelled, because no token can be revoked.
                revoked: CancellationToken::new(),
            }),
        }
    }

    /// Replaces all clients. Ends the requests and streams whose token is no longer valid.
    pub fn replace(&self, clients: Vec<RegisteredClient>) {
        let mut entries = self.entries.write();
        let old = std::mem::replace(&mut *entries, Arc::new([]));
        let has_same_token = |old: &Entry, client: &RegisteredClient| {
            old.client.name == client.name
                && old.client.digest == client.digest
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

    /// Returns whether a request needs a token.
    pub fn requires_token(&self) -> bool {
        self.requires_token
    }

    /// Returns the principal of a request. Compares the token in constant time with the token of every client.
    ///
    /// # Errors
    /// The token is missing or unknown. The error does not contain the token.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Arc<Principal>, A2aError> {
        if !self.requires_token {
            return Ok(Arc::clone(&self.anonymous));
        }
        let digest = TokenDigest::new(token(headers)?);
        let entries = Arc::clone(&self.entries.read());
        let mut found = None;
        for entry in entries.iter() {
            if bool::from(entry.client.digest.0.ct_eq(&digest.0)) {
                found = Some(entry);
            }
        }
        found.map(|entry| Arc::clone(&entry.principal)).ok_or_else(|| {
            unauthenticated("unknown bearer token; ask the server's operator for one (`remote-agent serve clients add NAME`)")
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
