//! Who may ask, and what they show for it.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;

use crate::caller::ANYBODY;
use crate::refusal::{Reason, Refusal};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The peer's name.
    pub name: Arc<str>,
    /// Whether it has shown a credential.
    pub authenticated: bool,
    /// Whether its credential is an operator's.
    pub operator: bool,
}

/// The peers that may ask.
pub struct Peers {
    /// Whether everybody has to show a token. It does not change: a server that loses its last peer does not open.
    asks: bool,
    known: RwLock<Arc<[Peer]>>,
}

impl Peers {
    /// Nobody has to show anything. For a server that only its own machine can reach.
    pub fn anybody() -> Self {
        Self {
            asks: false,
            known: RwLock::new(Arc::new([])),
        }
    }

    /// Those alone.
    pub fn only(peers: Vec<Peer>) -> Self {
        Self {
            asks: true,
            known: RwLock::new(peers.into()),
        }
    }

    /// From now on those alone, if anybody has to show a token at all.
    pub fn replace(&self, peers: Vec<Peer>) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = peers.into();
    }

    /// Whether a token has to be shown.
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Who asks, by what its headers show. Every peer is looked at to its end, so that time tells nothing.
    ///
    /// # Errors
    /// No token is shown, or one that is nobody's. Does not repeat it.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Who, Refusal> {
        if !self.asks {
            return Ok(Who {
                name: ANYBODY.into(),
                authenticated: false,
                operator: false,
            });
        }
        let shown = Digest::of(token(headers)?);
        let known = Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner));
        let mut found = None;
        for peer in known.iter() {
            if bool::from(peer.digest.0.ct_eq(&shown.0)) {
                found = Some(peer);
            }
        }
        let peer = found.ok_or_else(|| {
            refused("this server does not know the token; ask its operator for one (`remote-agent serve peers add NAME`)")
        })?;
        Ok(Who {
            name: peer.name.as_str().into(),
            authenticated: true,
            operator: peer.operator,
        })
    }
}

/// The bearer token (RFC 6750 §2.1) of a request.
fn token(headers: &HeaderMap) -> Result<&str, Refusal> {
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

fn refused(text: &'static str) -> Refusal {
    Refusal::new(Reason::Unauthenticated, text)
}

#[cfg(test)]
mod tests;
