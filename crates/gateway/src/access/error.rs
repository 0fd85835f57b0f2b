//! Errors of authentication and authorization.

use std::fmt;

use collective::ErrorCode;

/// A refused credential or operation. The error never contains a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessError {
    /// The code in the error registry, from 5001 to 5004.
    pub code: ErrorCode,
    /// The refused action, the reason and a hint, as a sentence without a full stop. The gateway may send it to the client.
    pub message: String,
}

impl AccessError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for AccessError {}
