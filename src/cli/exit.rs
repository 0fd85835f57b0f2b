//! How the command ends.

use std::process::ExitCode;

use serde::Deserialize;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// Something failed that has no code of its own.
    Failed = 1,
    /// The command line, the request or the configuration is wrong.
    Usage = 2,
    /// The peer cannot be reached, or may not be.
    Unreachable = 3,
    /// The peer wants other credentials.
    Auth = 4,
    /// Time ran out.
    Timeout = 5,
    /// Ctrl-C, as shells tell it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The code for a call that ended with `envelope`.
    #[must_use]
    pub fn of_envelope(envelope: &str) -> Self {
        #[derive(Deserialize)]
        struct Envelope {
            ok: bool,
            error: Option<Error>,
        }
        #[derive(Deserialize)]
        struct Error {
            reason: Option<String>,
        }
        let Ok(envelope) = serde_json::from_str::<Envelope>(envelope) else {
            return Self::Failed;
        };
        if envelope.ok {
            return Self::Ok;
        }
        match envelope.error.and_then(|error| error.reason).as_deref() {
            Some("unreachable" | "dns" | "tls" | "address_refused" | "card_unavailable") => {
                Self::Unreachable
            }
            Some("invalid_request" | "contradiction") => Self::Usage,
            Some("auth_required") => Self::Auth,
            Some("timeout") => Self::Timeout,
            _ => Self::Failed,
        }
    }
}

/// Why the command stops before its work is done. The message goes to standard error.
#[derive(Debug)]
pub struct Failure {
    /// A sentence: what failed, why, what to do.
    pub message: String,
    /// The code to end with.
    pub exit: Exit,
}

impl Failure {
    /// A failure that ends with 1.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit: Exit::Failed,
        }
    }

    /// A mistake in the command line or the configuration, which ends with 2.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit: Exit::Usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(reason: &str) -> u8 {
        let envelope =
            serde_json::json!({"ok": false, "error": {"code": "A2A_SDK_ERROR", "reason": reason}});
        Exit::of_envelope(&envelope.to_string()) as u8
    }

    #[test]
    fn the_reason_of_an_error_decides_the_exit_code() {
        let codes = [
            "unreachable",
            "dns",
            "tls",
            "address_refused",
            "card_unavailable",
            "auth_required",
            "timeout",
            "invalid_request",
            "contradiction",
            "aborted",
        ]
        .map(code_of);
        assert_eq!(codes, [3, 3, 3, 3, 3, 4, 5, 2, 2, 1]);
    }

    #[test]
    fn a_good_envelope_is_zero_and_what_is_none_is_one() {
        assert_eq!(Exit::of_envelope(r#"{"ok":true,"summary":{}}"#), Exit::Ok);
        assert_eq!(Exit::of_envelope("oops"), Exit::Failed);
    }
}
