//! JSON Web Signatures (RFC 7515) and their public keys (RFC 7517).
//!
//! Three algorithms are supported: `ES256`, `RS256` (RFC 7518 §3) and `EdDSA` with Ed25519 (RFC 8037). A header with `none`
//! or an algorithm of shared secrets is an error.

mod keys;
mod signature;
mod signing;
mod token;

pub use keys::{Key, KeySet};
pub use signature::Signature;
pub use signing::SigningKey;
pub use token::{TimeError, Token};

use std::fmt;
use std::str::FromStr;

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Algorithm {
    Es256,
    Rs256,
    EdDsa,
}

impl FromStr for Algorithm {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "ES256" => Ok(Self::Es256),
            "RS256" => Ok(Self::Rs256),
            "EdDSA" => Ok(Self::EdDsa),
            _ => Err(()),
        }
    }
}

impl Algorithm {
    fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
