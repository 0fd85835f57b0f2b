//! Translates between envelopes of `a2a-v1` and messages of other protocols (Heretek A2A §12), in pure functions.
//!
//! Writing and reading returns the original envelope: fields that the other protocol lacks are in an extra field that
//! others may ignore. Every result passes [`validate`](super::validate).

mod a2a;
mod fipa;
#[cfg(test)]
mod testing;

pub use a2a::{TranslationContext, from_a2a, to_a2a};
pub use fipa::{from_fipa, to_fipa};

use super::{Envelope, EnvelopeError, ErrorCode, Kind};

fn refused<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, EnvelopeError> {
    Err(EnvelopeError {
        code,
        message: message.into(),
        correlation_id: None,
        id: None,
    })
}

/// Checks that a translation contains no credential, which only the gateway may receive.
fn without_credential(envelope: &Envelope) -> Result<(), EnvelopeError> {
    match envelope.kind() {
        Kind::Auth => refused(
            ErrorCode::InvalidContent,
            "a message of the type `auth` contains a credential and is not translated",
        ),
        _ => super::validate(envelope),
    }
}
