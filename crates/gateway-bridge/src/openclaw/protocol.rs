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
    /// Whether the response names a run, so that the gateway did not refuse the request: the run failed, perhaps earlier.
    is_of_run: bool,
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
            is_of_run: false,
        }
    }

    /// Reads the error of a response, which may be in the `payload` alone. A payload that names a run is its result.
    fn of_response(error: Option<&RawValue>, payload: Option<&RawValue>) -> Self {
        Self {
            is_of_run: payload.is_some_and(names_run),
            ..Self::read(error.or(payload))
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

/// Returns whether the payload of a response has the id of a run.
fn names_run(payload: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RunResult<'a> {
        #[serde(borrow)]
        run_id: Cow<'a, str>,
    }
    serde_json::from_str::<RunResult<'_>>(payload.get()).is_ok_and(|run| !run.run_id.is_empty())
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
                (_, payload, error) => Err(RpcError::of_response(error, payload)),
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
                "the gateway requires its token (`gateway.auth.token` in openclaw.json)",
            )
        }
        (detail, _) if detail.starts_with("AUTH_") => (
            ErrorCode::AuthFailed,
            "the gateway refuses the token: it is not `gateway.auth.token` in openclaw.json",
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
        _ if rpc_error.is_of_run => ErrorCode::AgentError,
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
        _ if rpc_error.is_of_run => {
            format!(
                "the run of the agent `{agent}` failed: {}",
                rpc_error.text()
            )
        }
        _ => format!(
            "the gateway refused `{method}` for the agent `{agent}`: {}",
            rpc_error.text()
        ),
    };
    let mut error = PeerError::new(PeerErrorKind::Gateway(kind), message);
    // A gateway does not start the run that it refuses. An error that is no refusal may come from the run.
    error.delivered = match kind {
        _ if rpc_error.is_of_run => Delivered::Yes,
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
mod errors_tests;
