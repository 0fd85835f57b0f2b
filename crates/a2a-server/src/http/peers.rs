//! Who may ask, and what they show for it.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;

use crate::caller::ANYBODY;
use crate::refusal::{A2aError, ErrorReason};

/// The SHA-256 of a token. A token has 128 random bits or more, so a fast hash is as good as a slow one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a token.
    pub fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }

    /// The digest that 64 hexadecimal digits write.
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

    /// It in 64 hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A peer that may ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name. Its tasks and contexts are kept under it.
    pub name: String,
    /// The digest of its token.
    pub digest: Digest,
    /// Whether it may see and end the tasks of all.
    pub operator: bool,
}

/// Who somebody is.
#[derive(Debug, Clone)]
pub struct Who {
    /// The peer's name.
    pub name: Arc<str>,
    /// Whether it has shown a credential.
    pub authenticated: bool,
    /// Whether its credential is an operator's.
    pub operator: bool,
    /// Cancelled once the credential is not valid any more. What was begun with it ends then.
    pub revoked: CancellationToken,
}

/// The peers that may ask.
pub struct Peers {
    /// Whether everybody has to show a token. It does not change: a server that loses its last peer does not open.
    asks: bool,
    known: RwLock<Arc<[Known]>>,
    /// Never cancelled: without tokens there is none to revoke.
    irrevocable: CancellationToken,
}

/// A peer, and what ends with its token.
struct Known {
    peer: Peer,
    revoked: CancellationToken,
}

fn all_new(peers: Vec<Peer>) -> Arc<[Known]> {
    let known = peers.into_iter().map(|peer| Known {
        peer,
        revoked: CancellationToken::new(),
    });
    known.collect()
}

impl Peers {
    /// Nobody has to show anything. For a server that only its own machine can reach.
    pub fn anybody() -> Self {
        Self {
            asks: false,
            known: RwLock::new(Arc::new([])),
            irrevocable: CancellationToken::new(),
        }
    }

    /// Those alone.
    pub fn only(peers: Vec<Peer>) -> Self {
        Self {
            asks: true,
            known: RwLock::new(all_new(peers)),
            irrevocable: CancellationToken::new(),
        }
    }

    /// From now on those alone, if anybody has to show a token at all. What was begun with a token that is not among theirs
    /// ends.
    pub fn replace(&self, peers: Vec<Peer>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *known, Arc::new([]));
        let stays =
            |old: &Known, peer: &Peer| old.peer.name == peer.name && old.peer.digest == peer.digest;
        *known = peers
            .into_iter()
            .map(|peer| {
                let before = old.iter().find(|old| stays(old, &peer));
                let revoked = before.map_or_else(CancellationToken::new, |old| old.revoked.clone());
                Known { peer, revoked }
            })
            .collect();
        for gone in old.iter() {
            if !known.iter().any(|known| stays(gone, &known.peer)) {
                gone.revoked.cancel();
            }
        }
    }

    /// The names of all.
    pub fn names(&self) -> HashSet<String> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|known| known.peer.name.clone()).collect()
    }

    /// Whether a token has to be shown.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Who asks, by what its headers show. Every peer is looked at to its end, so that time tells nothing.
    ///
    /// # Errors
    /// No token is shown, or one that is nobody's. Does not repeat it.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Who, A2aError> {
        if !self.asks {
            return Ok(Who {
                name: ANYBODY.into(),
                authenticated: false,
                operator: false,
                revoked: self.irrevocable.clone(),
            });
        }
        let shown = Digest::of(token(headers)?);
        let known = Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner));
        let mut found = None;
        for known in known.iter() {
            if bool::from(known.peer.digest.0.ct_eq(&shown.0)) {
                found = Some(known);
            }
        }
        let Known { peer, revoked } = found.ok_or_else(|| {
            refused("this server does not know the token; ask its operator for one (`remote-agent serve peers add NAME`)")
        })?;
        Ok(Who {
            name: peer.name.as_str().into(),
            authenticated: true,
            operator: peer.operator,
            revoked: revoked.clone(),
        })
    }
}

/// The bearer token (RFC 6750 §2.1) of a request.
fn token(headers: &HeaderMap) -> Result<&str, A2aError> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return Err(refused(
            "this server wants a bearer token; send it once, as `Authorization: Bearer TOKEN`",
        ));
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|text| text.trim().split_once(' '))
        .unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(refused(
            "this server takes bearer tokens alone; send yours as `Authorization: Bearer TOKEN`",
        ));
    }
    Ok(token.trim())
}

/// The token that a request was begun with is not valid any more.
pub(super) fn revoked() -> A2aError {
    refused(
        "the token of this request is not valid any more; ask the server's operator for a new one",
    )
}

fn refused(text: &'static str) -> A2aError {
    A2aError::new(ErrorReason::Unauthenticated, text)
}

#[cfg(test)]
mod tests;
