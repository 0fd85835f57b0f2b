//! Refused credentials and operations.

use std::fmt;

use collective::ErrorCode;

/// Why a credential or an operation is refused. Never shows a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessError {
    /// 5001 to 5004.
    pub code: ErrorCode,
    /// What was refused, why, and what to do, as a sentence without a full stop. The other side may see it.
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
