//! Errors as gateways write them, in any of the ways that are met.

use serde_json::Value;

use crate::settings::Settings;
use collective::{Envelope, ErrorCode};
use peer::{Delivered, PeerError, PeerErrorKind, excerpt};

/// An error that a gateway told.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) code: ErrorCode,
    message: String,
    delivered: Delivered,
}

/// Reads an error: `content.error`, `content.code`, or one beside the content (001 "Error Message Format", and as the
/// JavaScript gateway writes it).
pub(crate) fn read(envelope: &Envelope) -> Told {
    let beside = envelope.field("error").and_then(Value::as_str);
    let details = envelope.field("details").and_then(Value::as_str);
    let text = envelope
        .said("message")
        .or(details)
        .or(beside)
        .or(envelope.said("error"));
    let text = text.map(excerpt).unwrap_or_default();
    let queued = [envelope.field("queued"), envelope.content().get("queued")];
    if queued.contains(&Some(&Value::Bool(true))) {
        return Told {
            code: ErrorCode::AgentOffline,
            message: format!("{text} (the gateway says queued, which is no delivery)"),
            delivered: Delivered::No,
        };
    }
    let by_name = beside.and_then(ErrorCode::from_name);
    let by_gateway = envelope
        .from()
        .is_none_or(|from| from == collective::GATEWAY);
    let code = of_content(envelope).or(by_name).unwrap_or(if by_gateway {
        ErrorCode::ProtocolError
    } else {
        ErrorCode::AgentError
    });
    Told {
        code,
        message: text,
        delivered: delivered(code),
    }
}

/// The error that the content names, by its word or else its number.
pub(super) fn of_content(envelope: &Envelope) -> Option<ErrorCode> {
    let by_name = envelope.said("error").and_then(ErrorCode::from_name);
    let number = envelope.content().get("code").and_then(Value::as_u64);
    by_name.or_else(|| number.and_then(ErrorCode::from_number))
}

/// Whether the agent has seen a message that is answered so: what the gateway refuses it does not hand on.
fn delivered(code: ErrorCode) -> Delivered {
    match code.number() {
        1000..=1999 => Delivered::Unknown,
        3004 => Delivered::Yes,
        _ => Delivered::No,
    }
}

impl Told {
    /// The error for whoever called.
    pub(crate) fn into_error(self) -> PeerError {
        let said = if self.message.is_empty() {
            self.code.meaning().trim_end_matches('.')
        } else {
            &self.message
        };
        let message = format!("the gateway answers {}: {said}", self.code);
        let mut error = PeerError::new(PeerErrorKind::Gateway(self.code), message);
        error.delivered = self.delivered;
        error
    }

    /// The same where the gateway was greeted.
    pub(super) fn of_greeting(self, settings: &Settings) -> PeerError {
        let next = match self.code {
            ErrorCode::AuthRequired => "; set `gateway.token`",
            ErrorCode::AuthFailed | ErrorCode::TokenExpired => "; see `gateway.token`",
            _ => "",
        };
        let mut error = self.into_error().undelivered();
        error.message = format!(
            "{}, while it was greeted at `{}`{next}",
            error.message,
            settings.shown()
        );
        error
    }
}
