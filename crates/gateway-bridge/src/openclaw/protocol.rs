//! Frames of protocol 4, and what the gateway's errors mean: requests out, responses and events in.
//!
//! A gateway sends the events of every run to every operator, so most frames concern no call of this client. The reader
//! parses a frame in two steps: first the addressee, without copies, and the payload only if a call waits for it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use a2a::ShapeError;
use base::json::{self, JsonError};
use collective::{ErrorCode, FRAME_LIMITS};
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
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RpcError {
    /// The error code: `INVALID_REQUEST`, `UNAVAILABLE`, `FORBIDDEN` and others; empty if there is none.
    code: String,
    /// The reason, for people; empty if there is none.
    message: String,
    /// `details.code`, which is more specific than `code`; empty if there is none.
    detail: String,
    /// Whether the same request may succeed later, if the gateway says so.
    retryable: Option<bool>,
}

impl RpcError {
    /// Reads the error of a response. Reads each member by itself, so that an odd one does not hide the others.
    fn read(error: Option<&RawValue>) -> Self {
        let error: Value = match error.map(|error| json::from_str(error.get(), FRAME_LIMITS)) {
            Some(Ok(error)) => error,
            Some(Err(error)) => return Self::unreadable(error),
            None => return Self::default(),
        };
        let details = &error["details"];
        let code = |value: &Value| match value {
            Value::String(code) => code.trim().to_ascii_uppercase(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let message = match (error_text(&error), &error["message"]) {
            (Some(text), _) => text.to_owned(),
            (None, Value::Null | Value::String(_)) => String::new(),
            (None, odd) => error_text(odd).map_or_else(|| odd.to_string(), str::to_owned),
        };
        Self {
            code: code(&error["code"]),
            message,
            detail: code(&details["code"]),
            retryable: error["retryable"]
                .as_bool()
                .or(details["retryable"].as_bool()),
        }
    }

    /// Returns the error of an answer that cannot be read.
    pub(super) fn unreadable(error: JsonError) -> Self {
        Self {
            code: UNREADABLE.to_owned(),
            message: format!("the gateway's answer cannot be read: {error}"),
            ..Self::default()
        }
    }

    /// Returns whether this client could not read the answer.
    pub(super) fn is_unreadable(&self) -> bool {
        self.code == UNREADABLE
    }

    /// Returns the reason on one line. It is never empty.
    pub(super) fn text(&self) -> String {
        match (&*excerpt(&self.message), &*self.code) {
            ("", "") => "no reason given".to_owned(),
            ("", code) => format!("no reason given, code {}", excerpt(code)),
            (message, _) => message.to_owned(),
        }
    }

    /// Returns whether the gateway does not know what the request names, such as a deleted session.
    pub(super) fn is_invalid_request(&self) -> bool {
        self.code == "INVALID_REQUEST" && !self.is_retryable()
    }

    /// Returns whether the same request may succeed later: as the gateway says, otherwise by the code.
    pub(super) fn is_retryable(&self) -> bool {
        self.retryable
            .unwrap_or_else(|| self.code == "UNAVAILABLE" || self.limits_rate())
    }

    /// Returns whether the gateway limits the rate of requests or of attempts to authenticate.
    fn limits_rate(&self) -> bool {
        [&self.code, &self.detail]
            .iter()
            .any(|code| code.contains("RATE_LIMIT"))
    }
}

/// Returns the text of an error: the text itself, or that of its member `message` or `error`.
pub(super) fn error_text(error: &Value) -> Option<&str> {
    let places = [error, &error["message"], &error["error"]];
    let mut texts = places.into_iter().filter_map(Value::as_str);
    texts.find(|text| !text.trim().is_empty())
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
                // Some gateways describe the failure in the payload.
                (_, payload, error) => Err(RpcError::read(error.or(payload))),
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
    let (code, what) = match (rpc_error.detail.as_str(), rpc_error.code.as_str()) {
        _ if rpc_error.limits_rate() => (
            ErrorCode::AgentBusy,
            "the gateway limits how often a client may connect; try again later",
        ),
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
        _ if rpc_error.is_retryable() => (
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
        format!("{what} (the gateway says: {})", rpc_error.text()),
    )
    .undelivered()
}

/// Converts a refused request to `agent`.
fn request_error(rpc_error: &RpcError, method: &str, agent: &str) -> PeerError {
    let RpcError { code, message, .. } = rpc_error;
    if rpc_error.is_unreadable() {
        let kind = PeerErrorKind::Gateway(ErrorCode::ProtocolError);
        let mut error = PeerError::new(kind, format!("`{method}`: {}", rpc_error.text()));
        error.delivered = Delivered::Unknown;
        return error;
    }
    let kind = match (code.as_str(), message.as_str()) {
        (_, text) if text.contains("unknown agent id") => ErrorCode::AgentNotFound,
        (_, text) if text.contains("Attachment") => ErrorCode::InvalidContent,
        ("FORBIDDEN", _) => ErrorCode::PermissionDenied,
        ("INVALID_REQUEST", text) if text.contains("unauthorized") => ErrorCode::PermissionDenied,
        _ if rpc_error.is_retryable() => ErrorCode::AgentBusy,
        ("INVALID_REQUEST", _) => ErrorCode::InvalidContent,
        _ => ErrorCode::AgentError,
    };
    let message = match kind {
        ErrorCode::AgentNotFound => format!("the gateway has no agent `{agent}`"),
        _ => format!(
            "the gateway refused `{method}` for the agent `{agent}`: {}",
            rpc_error.text()
        ),
    };
    let mut error = PeerError::new(PeerErrorKind::Gateway(kind), message);
    // A gateway does not start the run that it refuses. An error that is no refusal may come from the run.
    error.delivered = match kind {
        ErrorCode::AgentError if code != "UNAVAILABLE" => Delivered::Unknown,
        _ => Delivered::No,
    };
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
            (&*id, &*rpc_error.code, &*rpc_error.detail),
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
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Reads the error of a refused request.
    fn refused(error: &Value) -> RpcError {
        let frame = json!({"type": "res", "id": "1", "ok": false, "error": error}).to_string();
        match read(&frame) {
            Some(Incoming::Response { answer, .. }) => answer.unwrap_err(),
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn odd_member_of_an_error_does_not_hide_the_others() {
        for (error, text, code, detail) in [
            (json!("boom"), "boom", "", ""),
            (json!(null), "no reason given", "", ""),
            (json!({}), "no reason given", "", ""),
            (json!(["boom"]), "no reason given", "", ""),
            (json!({"code": 500, "message": "boom"}), "boom", "500", ""),
            (json!({"code": 500}), "no reason given, code 500", "500", ""),
            (
                json!({"code": "unavailable", "message": " "}),
                "no reason given, code UNAVAILABLE",
                "UNAVAILABLE",
                "",
            ),
            (
                json!({"code": "X", "message": {"t": "boom"}}),
                r#"{"t":"boom"}"#,
                "X",
                "",
            ),
            (
                json!({"code": "X", "message": {"message": "boom"}}),
                "boom",
                "X",
                "",
            ),
            (json!({"message": "boom", "details": "d"}), "boom", "", ""),
            (
                json!({"code": "INVALID_REQUEST", "message": null, "details": {"code": "AUTH_TOKEN_MISMATCH"}}),
                "no reason given, code INVALID_REQUEST",
                "INVALID_REQUEST",
                "AUTH_TOKEN_MISMATCH",
            ),
        ] {
            let read = refused(&error);
            assert_eq!(
                (&*read.text(), &*read.code, &*read.detail),
                (text, code, detail),
                "{error}"
            );
        }
    }

    #[test]
    fn refused_request_is_not_delivered_and_retryable_as_the_gateway_says() {
        for (error, number, delivered) in [
            (
                json!({"code": "UNAVAILABLE", "message": "overloaded", "retryable": true}),
                3003,
                Delivered::No,
            ),
            (
                json!({"code": "unavailable", "message": "overloaded"}),
                3003,
                Delivered::No,
            ),
            (
                json!({"code": "UNAVAILABLE", "message": "over", "retryable": false}),
                3004,
                Delivered::No,
            ),
            (
                json!({"code": "RATE_LIMITED", "message": "slow down"}),
                3003,
                Delivered::No,
            ),
            (
                json!({"code": "INTERNAL", "details": {"retryable": true}}),
                3003,
                Delivered::No,
            ),
            (
                json!({"code": "INVALID_REQUEST", "message": "no"}),
                2005,
                Delivered::No,
            ),
            (
                json!({"code": "FORBIDDEN", "message": "no"}),
                5004,
                Delivered::No,
            ),
            (
                json!({"code": "INVALID_REQUEST", "message": "unknown agent id \"x\""}),
                3001,
                Delivered::No,
            ),
            (
                json!({"code": "INTERNAL", "message": "exploded"}),
                3004,
                Delivered::Unknown,
            ),
            (json!("boom"), 3004, Delivered::Unknown),
        ] {
            let refusal = request_error(&refused(&error), "agent", "main");
            assert_eq!(
                (refusal.kind, refusal.delivered),
                (
                    PeerErrorKind::Gateway(ErrorCode::from_number(number).unwrap()),
                    delivered
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn limited_attempts_to_connect_do_not_blame_the_token() {
        let limited = rpc_error(
            "INVALID_REQUEST",
            "too many failed attempts",
            "AUTH_RATE_LIMITED",
        );
        for sent_token in [true, false] {
            let error = connect_error(&limited, sent_token);
            assert_eq!(error.kind, PeerErrorKind::Gateway(ErrorCode::AgentBusy));
            assert!(
                error.message.contains("try again later")
                    && !error.message.contains("gateway.token"),
                "{error}"
            );
        }
    }

    fn rpc_error(code: &str, message: &str, detail: &str) -> RpcError {
        RpcError {
            code: code.into(),
            message: message.into(),
            detail: detail.into(),
            retryable: None,
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
