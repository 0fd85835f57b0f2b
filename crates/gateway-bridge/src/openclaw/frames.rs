//! Frames of protocol 4: requests out, responses and events in.
//!
//! A gateway sends the events of every run to every operator, so most frames concern no call of this client. The reader
//! parses a frame in two steps: first the addressee, without copies, and the payload only if a call waits for it.

use std::borrow::Cow;

use base::json::JsonError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

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
    pub(super) fn detail(&self) -> &str {
        self.details
            .get("code")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// The code of an answer that this client could not read. No gateway sends it.
const UNREADABLE: &str = "\u{0}";

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
