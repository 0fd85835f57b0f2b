//! Reads the error formats of the supported gateways.

use serde_json::Value;

use crate::settings::Settings;
use collective::{Envelope, ErrorCode};
use peer::{Delivered, PeerError, PeerErrorKind, excerpt};

/// An error message of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct GatewayError {
    pub(crate) code: ErrorCode,
    message: String,
    /// Whether the gateway itself refused the message.
    pub(crate) is_refusal: bool,
    delivered: Delivered,
}

/// Reads an error from `content.error`, `content.code`, or the envelope itself (Heretek Architecture, "Error Message
/// Format", and the format of the JavaScript gateway).
pub(crate) fn read(envelope: &Envelope) -> GatewayError {
    let error_field = envelope.field("error").and_then(Value::as_str);
    let details = envelope.field("details").and_then(Value::as_str);
    let text = envelope
        .content_str("message")
        .or(details)
        .or(error_field)
        .or(envelope.content_str("error"));
    let text = text.map(excerpt).unwrap_or_default();
    // A gateway sets the sender of what it forwards. Without a sender, an agent may have sent the error.
    let is_refusal = envelope.from() == Some(collective::GATEWAY);
    let queued = [envelope.field("queued"), envelope.content().get("queued")];
    if queued.contains(&Some(&Value::Bool(true))) {
        return GatewayError {
            code: ErrorCode::AgentOffline,
            message: format!("{text} (the gateway queued the message; that is not a delivery)"),
            is_refusal,
            delivered: match is_refusal {
                true => Delivered::No,
                false => Delivered::Unknown,
            },
        };
    }
    let by_gateway = is_refusal || envelope.from().is_none();
    let code = envelope.error_code().unwrap_or(match by_gateway {
        true => ErrorCode::ProtocolError,
        false => ErrorCode::AgentError,
    });
    GatewayError {
        code,
        message: text,
        is_refusal,
        delivered: match envelope.from() {
            Some(collective::GATEWAY) => delivered(code),
            Some(_) => Delivered::Yes,
            None => delivered_or_unknown(code),
        },
    }
}

/// Returns whether the agent has received the message. A gateway does not forward a message that it refuses.
fn delivered(code: ErrorCode) -> Delivered {
    match code.number() {
        1000..=1999 => Delivered::Unknown,
        3004 => Delivered::Yes,
        _ => Delivered::No,
    }
}

/// Returns whether the agent has received the message, for an error without a sender.
fn delivered_or_unknown(code: ErrorCode) -> Delivered {
    match delivered(code) {
        Delivered::No => Delivered::Unknown,
        other => other,
    }
}

impl GatewayError {
    /// Converts it to the error of the call.
    pub(crate) fn into_error(self) -> PeerError {
        let text = if self.message.is_empty() {
            self.code.meaning().trim_end_matches('.')
        } else {
            &self.message
        };
        let sender = match self.delivered {
            Delivered::Yes if !self.is_refusal => "agent",
            _ => "gateway",
        };
        let message = format!("the {sender} answers {}: {text}", self.code);
        let mut error = PeerError::new(PeerErrorKind::Gateway(self.code), message);
        error.delivered = self.delivered;
        error
    }

    /// Converts it to the error of a failed handshake.
    pub(super) fn during_handshake(self, settings: &Settings) -> PeerError {
        let next = match self.code {
            ErrorCode::AuthRequired => "; set `gateway.token`",
            ErrorCode::AuthFailed | ErrorCode::TokenExpired => "; check `gateway.token`",
            _ => "",
        };
        let mut error = self.into_error().undelivered();
        error.message = format!(
            "{}, during the handshake with `{}`{next}",
            error.message,
            settings.display_url()
        );
        error
    }
}
