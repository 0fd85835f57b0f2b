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

use crate::named;

named! {
    /// A signature algorithm.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    enum Algorithm {
        Es256 = "ES256",
        Rs256 = "RS256",
        EdDsa = "EdDSA",
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
