//! The clients of this server, and their bearer tokens.

use parking_lot::RwLock;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use crate::call_context::ANONYMOUS_CLIENT;
use a2a::{A2aError, ErrorReason};

/// The SHA-256 of a token. A token has 128 random bits or more, so a fast hash is as good as a slow one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Computes the digest of a token.
    pub fn new(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }

    /// Parses 64 hexadecimal digits.
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

/// A client that the server accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    /// Its name, which owns its tasks and contexts.
    pub name: String,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// Whether it may see and end the tasks of all clients.
    pub operator: bool,
}

/// The identity behind a request: an authenticated client, or [`ANONYMOUS_CLIENT`] if the server requires no token.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The client's name.
    pub name: Arc<str>,
    /// Whether the request carried a valid token.
    pub authenticated: bool,
    /// Whether the client may see and end the tasks of all clients.
    pub operator: bool,
    /// Cancelled when the token becomes invalid, which ends requests and event streams that began with it. A page of tasks that
    /// is being sent is completed.
    pub revoked: CancellationToken,
}

/// The clients that the server accepts, replaced while it runs.
pub struct ClientRegistry {
    /// Fixed at construction: a server that loses its last client keeps requiring tokens.
    requires_token: bool,
    entries: RwLock<Arc<[Entry]>>,
    /// The principal of a request without a token, if the server requires none.
    anonymous: Principal,
}

/// A client and the principal of its requests.
struct Entry {
    client: RegisteredClient,
    principal: Principal,
}

impl Entry {
    fn new(client: RegisteredClient, revoked: CancellationToken) -> Self {
        let principal = Principal {
            name: client.name.as_str().into(),
            authenticated: true,
            operator: client.operator,
            revoked,
        };
        Self { client, principal }
    }
}

impl ClientRegistry {
    /// Creates a registry that accepts requests without a token, for a server that only its own machine can reach.
    pub fn open() -> Self {
        Self::with(false, Vec::new())
    }

    /// Creates a registry that accepts these clients and requires their tokens.
    pub fn new(clients: Vec<RegisteredClient>) -> Self {
        Self::with(true, clients)
    }

    fn with(requires_token: bool, clients: Vec<RegisteredClient>) -> Self {
        let clients = clients.into_iter();
        let entries = clients.map(|client| Entry::new(client, CancellationToken::new()));
        Self {
            requires_token,
            entries: RwLock::new(entries.collect()),
            anonymous: Principal {
                name: ANONYMOUS_CLIENT.into(),
                authenticated: false,
                operator: false,
                // Never cancelled, because there is no token to revoke.
                revoked: CancellationToken::new(),
            },
        }
    }

    /// Replaces all clients. Ends the requests and streams whose token is not in the new list.
    pub fn replace(&self, clients: Vec<RegisteredClient>) {
        let mut entries = self.entries.write();
        let old = std::mem::replace(&mut *entries, Arc::new([]));
        let stays = |old: &Entry, client: &RegisteredClient| {
            old.client.name == client.name && old.client.digest == client.digest
        };
        *entries = clients
            .into_iter()
            .map(|client| {
                let before = old.iter().find(|old| stays(old, &client));
                let revoked =
                    before.map_or_else(CancellationToken::new, |old| old.principal.revoked.clone());
                Entry::new(client, revoked)
            })
            .collect();
        for gone in old.iter() {
            if !entries.iter().any(|kept| stays(gone, &kept.client)) {
                gone.principal.revoked.cancel();
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

    /// Identifies the client of a request. Compares the token with every client's in constant time.
    ///
    /// # Errors
    /// The token is missing or unknown. The error does not repeat it.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Principal, A2aError> {
        if !self.requires_token {
            return Ok(self.anonymous.clone());
        }
        let shown = TokenDigest::new(token(headers)?);
        let entries = Arc::clone(&self.entries.read());
        let mut found = None;
        for entry in entries.iter() {
            if bool::from(entry.client.digest.0.ct_eq(&shown.0)) {
                found = Some(entry);
            }
        }
        found.map(|entry| entry.principal.clone()).ok_or_else(|| {
            refused("unknown bearer token; ask the server's operator for one (`remote-agent serve clients add NAME`)")
        })
    }
}

/// Returns the bearer token (RFC 6750 §2.1) of a request.
fn token(headers: &HeaderMap) -> Result<&str, A2aError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return Err(refused(
            "authentication required; send one header `Authorization: Bearer TOKEN`",
        ));
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(refused(
            "unsupported authentication scheme; send the token as `Authorization: Bearer TOKEN`",
        ));
    }
    Ok(token.trim())
}

/// Returns the error of a request whose token was revoked meanwhile.
pub(super) fn revoked() -> A2aError {
    refused("the token of this request was revoked; ask the server's operator for a new one")
}

fn refused(text: &'static str) -> A2aError {
    A2aError::new(ErrorReason::Unauthenticated, text)
}

#[cfg(test)]
mod tests;
