//! Frames of protocol 4, and what the gateway's errors mean: requests out, responses and events in.
//!
//! A gateway sends the events of every run to every operator, so most frames concern no call of this client. The reader
//! parses a frame in two steps: first the addressee, without copies, and the payload only if a call waits for it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use a2a::ShapeError;
use base::json::JsonError;
use collective::ErrorCode;
use egress::{NetError, Sent};
use peer::{Delivered, PeerError, PeerErrorKind, excerpt};

/// The code of an answer that this client could not read. No gateway sends it.
const UNREADABLE: &str = "\u{0}";

/// A received frame. It borrows from the frame's text.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// A response to a request, possibly one of several.
    Response {
        /// The id of the request.
        id: Cow<'a, str>,
        /// The result or the error.
        answer: Result<&'a RawValue, RpcError>,
    },
    /// An event.
    Event {
        /// The event's name: `agent`, `chat`, `tick` and others.
        name: Cow<'a, str>,
        /// The content of the event.
        payload: Option<&'a RawValue>,
    },
    /// A frame of an unknown kind.
    Other,
}

/// Why the gateway refused a request.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct RpcError {
    /// The error code: `INVALID_REQUEST`, `UNAVAILABLE`, `FORBIDDEN` and others.
    #[serde(default)]
    pub code: String,
    /// The reason, for people.
    #[serde(default)]
    pub message: String,
    /// Details; `details.code` is more specific than `code`.
    #[serde(default)]
    pub details: Value,
}

impl RpcError {
    /// Returns the error of an answer that cannot be read.
    pub(super) fn unreadable(error: JsonError) -> Self {
        Self {
            code: UNREADABLE.to_owned(),
            message: format!("the gateway's answer cannot be read: {error}"),
            details: Value::Null,
        }
    }

    /// Returns whether this client could not read the answer.
    pub(super) fn is_unreadable(&self) -> bool {
        self.code == UNREADABLE
    }

    /// Returns `details.code`.
    fn detail(&self) -> &str {
        self.details
            .get("code")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct FrameHead<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    ok: Option<bool>,
    #[serde(borrow)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Parses a frame; `None` if it is invalid.
pub(super) fn read(text: &str) -> Option<Incoming<'_>> {
    let outline: FrameHead<'_> = serde_json::from_str(text).ok()?;
    Some(match outline.kind.as_deref() {
        Some("res") => Incoming::Response {
            id: outline.id?,
            answer: match (outline.ok, outline.payload, outline.error) {
                (Some(true), payload, _) => Ok(payload.unwrap_or(RawValue::NULL)),
                (_, _, error) => Err(error
                    .and_then(|error| serde_json::from_str(error.get()).ok())
                    .unwrap_or_default()),
            },
        },
        Some("event") => Incoming::Event {
            name: outline.event?,
            payload: outline.payload,
        },
        _ => Incoming::Other,
    })
}

/// Encodes a request as a frame.
pub(super) fn request(id: &str, method: &str, params: &Value) -> String {
    json!({ "type": "req", "id": id, "method": method, "params": params }).to_string()
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum RequestError {
    /// The gateway refused the request.
    Refused(RpcError),
    /// The connection failed; the gateway may have received the request.
    Connection(PeerError),
}

impl RequestError {
    /// Converts it to the error of a call to `agent`.
    pub(super) fn into_peer_error(self, method: &str, agent: &str) -> PeerError {
        match self {
            Self::Refused(rpc_error) => request_error(&rpc_error, method, agent),
            Self::Connection(error) => error,
        }
    }
}

/// Converts the error of a refused handshake. `sent_token` states whether the client sent a token.
pub(super) fn connect_error(rpc_error: &RpcError, sent_token: bool) -> PeerError {
    let RpcError { message, .. } = rpc_error;
    // Without a token, the gateway requests a device identity instead.
    let requires_device =
        |detail: &str| detail.contains("PAIRING") || detail.starts_with("DEVICE_");
    let (code, what) = match (rpc_error.detail(), rpc_error.code.as_str()) {
        (detail, _)
            if matches!(
                detail,
                "AUTH_TOKEN_MISSING" | "AUTH_PASSWORD_MISSING" | "AUTH_REQUIRED"
            ) || (!sent_token && requires_device(detail)) =>
        {
            (
                ErrorCode::AuthRequired,
                "set `gateway.token` to the token of the gateway (`gateway.auth.token` in openclaw.json)",
            )
        }
        (detail, _) if detail.starts_with("AUTH_") => (
            ErrorCode::AuthFailed,
            "`gateway.token` must be the token of the gateway (`gateway.auth.token` in openclaw.json)",
        ),
        (detail, _) if requires_device(detail) => (
            ErrorCode::PermissionDenied,
            "without a device identity this gateway accepts only local connections; connect over loopback",
        ),
        _ if message.contains("protocol mismatch") => (
            ErrorCode::ProtocolError,
            "the gateway does not speak protocol 4; use OpenClaw 2026.9",
        ),
        (_, "UNAVAILABLE") => (
            ErrorCode::AgentBusy,
            "the gateway is starting or overloaded; try again",
        ),
        _ => (
            ErrorCode::ConnectionRefused,
            "the gateway refused the connection",
        ),
    };
    PeerError::new(
        PeerErrorKind::Gateway(code),
        format!("{what} (the gateway says: {})", excerpt(message)),
    )
    .undelivered()
}

/// Converts a refused request to `agent`.
fn request_error(rpc_error: &RpcError, method: &str, agent: &str) -> PeerError {
    let RpcError { code, message, .. } = rpc_error;
    if rpc_error.is_unreadable() {
        let kind = PeerErrorKind::Gateway(ErrorCode::ProtocolError);
        let mut error = PeerError::new(kind, format!("`{method}`: {}", excerpt(message)));
        error.delivered = Delivered::Unknown;
        return error;
    }
    let kind = match (code.as_str(), message.as_str()) {
        (_, text) if text.contains("unknown agent id") => ErrorCode::AgentNotFound,
        (_, text) if text.contains("Attachment") => ErrorCode::InvalidContent,
        ("FORBIDDEN", _) => ErrorCode::PermissionDenied,
        ("UNAVAILABLE", _) => ErrorCode::AgentBusy,
        ("INVALID_REQUEST", text) if text.contains("unauthorized") => ErrorCode::PermissionDenied,
        ("INVALID_REQUEST", _) => ErrorCode::InvalidContent,
        _ => ErrorCode::AgentError,
    };
    let message = match kind {
        ErrorCode::AgentNotFound => format!("the gateway has no agent `{agent}`"),
        _ => format!(
            "the gateway refused `{method}` for the agent `{agent}`: {}",
            excerpt(message)
        ),
    };
    let mut error = PeerError::new(PeerErrorKind::Gateway(kind), message);
    error.delivered = Delivered::Yes;
    error
}

/// Returns the error of a connection that ended during an operation.
pub(super) fn connection_lost(reason: &str) -> PeerError {
    PeerError::new(
        PeerErrorKind::Gateway(ErrorCode::ConnectionReset),
        format!("the connection to the gateway broke: {reason}"),
    )
}

/// Returns the error of a connection that was lost during the send of a message.
pub(super) fn not_sent(error: &NetError) -> PeerError {
    let mut lost = connection_lost(&error.to_string());
    if error.sent() == Sent::No {
        lost.delivered = Delivered::No;
    }
    lost
}

/// Returns the error of a response with an unexpected shape.
pub(super) fn invalid_shape(what: ShapeError) -> PeerError {
    PeerError::new(
        PeerErrorKind::Gateway(ErrorCode::ProtocolError),
        format!("the gateway's answer cannot be used: {what}"),
    )
}

/// Explains a close code.
pub(super) fn closed(code: Option<u16>, reason: &str) -> String {
    let suffix = if reason.is_empty() {
        String::new()
    } else {
        format!(" (`{}`)", excerpt(reason))
    };
    match code {
        Some(1000) => format!("the gateway closed the connection{suffix}"),
        Some(1001 | 1012) => format!("the gateway shut down or restarts{suffix}"),
        Some(1002) => format!("the gateway does not speak protocol 4{suffix}"),
        Some(1008) => format!("the gateway does not allow the connection{suffix}"),
        Some(1009) => format!("a message was too large for the gateway{suffix}"),
        Some(1013) => format!("the gateway is overloaded{suffix}"),
        Some(code) => format!("the gateway closed the connection with code {code}{suffix}"),
        None => format!("the gateway closed the connection without a code{suffix}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn refusal_keeps_detailed_code() {
        let text = r#"{"type":"res","id":"1","ok":false,"error":{"code":"INVALID_REQUEST","message":"unauthorized: gateway token mismatch","details":{"code":"AUTH_TOKEN_MISMATCH"}}}"#;
        let Some(Incoming::Response { id, answer }) = read(text) else {
            panic!("no response")
        };
        let rpc_error = answer.unwrap_err();
        assert_eq!(
            (&*id, &*rpc_error.code, rpc_error.detail()),
            ("1", "INVALID_REQUEST", "AUTH_TOKEN_MISMATCH")
        );
    }

    #[test]
    fn response_without_payload_is_null() {
        let Some(Incoming::Response { answer, .. }) = read(r#"{"type":"res","id":"1","ok":true}"#)
        else {
            panic!("no response")
        };
        assert_eq!(answer.unwrap().get(), "null");
    }

    #[test]
    fn frame_must_be_an_object() {
        for text in [
            "",
            "[]",
            "null",
            "7",
            r#"{"type":"res"}"#,
            r#"{"type":"event"}"#,
        ] {
            assert!(read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn unknown_frame_kind_is_ignored() {
        assert!(matches!(
            read(r#"{"type":"weather"}"#),
            Some(Incoming::Other)
        ));
        assert!(matches!(read("{}"), Some(Incoming::Other)));
    }
}

#[cfg(test)]
mod errors_tests {
    use serde_json::json;

    use super::*;

    fn rpc_error(code: &str, message: &str, detail: &str) -> RpcError {
        RpcError {
            code: code.into(),
            message: message.into(),
            details: json!({ "code": detail }),
        }
    }

    #[test]
    fn invalid_token_names_the_setting() {
        let error = connect_error(
            &rpc_error("INVALID_REQUEST", "unauthorized", "AUTH_TOKEN_MISMATCH"),
            true,
        );
        assert_eq!(error.kind, PeerErrorKind::Gateway(ErrorCode::AuthFailed));
        assert!(error.message.contains("gateway.token"), "{error}");
        assert_eq!(error.delivered, Delivered::No);
    }

    #[test]
    fn device_request_without_token_is_missing_token() {
        let pairing = rpc_error(
            "NOT_PAIRED",
            "device identity required",
            "DEVICE_IDENTITY_REQUIRED",
        );
        let error = connect_error(&pairing, false);
        assert_eq!(error.kind, PeerErrorKind::Gateway(ErrorCode::AuthRequired));
        assert!(error.message.contains("set `gateway.token`"), "{error}");
    }

    #[test]
    fn connection_refusals_map_to_errors() {
        let code =
            |code, message, detail| match connect_error(&rpc_error(code, message, detail), true)
                .kind
            {
                PeerErrorKind::Gateway(code) => code.number(),
                _ => 0,
            };
        assert_eq!(
            code("INVALID_REQUEST", "unauthorized", "AUTH_TOKEN_MISSING"),
            5001
        );
        assert_eq!(code("INVALID_REQUEST", "protocol mismatch", ""), 1004);
        assert_eq!(
            code("NOT_PAIRED", "pairing required", "PAIRING_REQUIRED"),
            5004
        );
        assert_eq!(code("UNAVAILABLE", "starting", ""), 3003);
        assert_eq!(code("INVALID_REQUEST", "invalid connect params", ""), 1001);
    }

    #[test]
    fn request_refusals_map_to_errors() {
        let number =
            |code, message| match request_error(&rpc_error(code, message, ""), "agent", "ghost")
                .kind
            {
                PeerErrorKind::Gateway(code) => code.number(),
                _ => 0,
            };
        assert_eq!(
            number(
                "INVALID_REQUEST",
                "invalid agent params: unknown agent id \"ghost\""
            ),
            3001
        );
        assert_eq!(
            number(
                "INVALID_REQUEST",
                "UnsupportedAttachmentError: attachment a.txt"
            ),
            2005
        );
        assert_eq!(number("FORBIDDEN", "missing scope: operator.write"), 5004);
        assert_eq!(number("INVALID_REQUEST", "unauthorized"), 5004);
        assert_eq!(number("UNAVAILABLE", "queue is full"), 3003);
        assert_eq!(number("INTERNAL", "exploded"), 3004);
    }

    #[test]
    fn request_cut_in_flight_is_uncertain() {
        assert_eq!(
            connection_lost("it went away").delivered,
            Delivered::Unknown
        );
    }
}
