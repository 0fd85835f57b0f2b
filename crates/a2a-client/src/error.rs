//! Errors of the network, of HTTP and in the bodies of HTTP+JSON as errors of the peer.
//!
//! Servers use many forms of a body (A2A 1.0 §11.6): `google.rpc.Status` below `error` with an `ErrorInfo` among its details, a
//! problem document (RFC 9457), `{code, message}` bare or below `error`, and `{detail}`. Errors of A2A get their JSON-RPC code, so
//! that an error is the same over both bindings. Servers in front of the agent use the same forms without its codes and reasons.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use a2a::ErrorReason;
use base::json::encoded_bytes;
use egress::{NetError, Sent, redirect, stated_reason, status_text};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use peer::{PeerError, PeerErrorKind, excerpt};
use serde_json::Value;

use super::peer_secrets::PeerSecrets;
use super::response_json;

/// Returns the error for a status other than 2xx, with an excerpt of the body. `setting` is the one for another address.
pub(super) fn from_status(
    setting: &str,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    secrets: &PeerSecrets,
) -> PeerError {
    if status.is_redirection() {
        let status_text = status_text(status);
        let error = match redirect::location(headers) {
            Some(to) => {
                // HTTP+JSON adds the path of the operation to its address.
                let operation = to
                    .rsplit_once("/message:")
                    .or_else(|| to.rsplit_once("/tasks/"));
                let address = match operation.filter(|_| setting == "endpoint") {
                    Some((address, _)) => format!("`{}`", excerpt(&secrets.scrub(address))),
                    None => "it".to_owned(),
                };
                PeerError::new(
                    PeerErrorKind::RedirectRefused,
                    format!(
                        "the peer responded {status_text} with a redirect to `{}`, which is not followed; if that is the agent's address, set `{setting}` of the target to {address}",
                        excerpt(&secrets.scrub(&*to))
                    ),
                )
            }
            None => PeerError::new(
                PeerErrorKind::HttpStatus,
                format!("the peer responded {status_text}, a redirect that names no address"),
            ),
        };
        // 303 refers to the result of a request that was executed (RFC 9110 §15.4.4). Before other redirects nothing
        // was executed.
        return if status == StatusCode::SEE_OTHER {
            error
        } else {
            error.undelivered()
        };
    }
    let json = response_json::error_body(body);
    let message = json.as_ref().and_then(stated_reason);
    let message = message.map_or_else(|| String::from_utf8_lossy(body), Cow::Borrowed);
    let text = excerpt(&secrets.scrub(message));
    let message = if text.is_empty() {
        format!("the peer responded {}", status_text(status))
    } else {
        format!("the peer responded {}: {text}", status_text(status))
    };
    PeerError::new(PeerErrorKind::HttpStatus, message)
}

/// Returns the content type of a response, for a message.
pub(super) fn content_type(headers: &HeaderMap, secrets: &PeerSecrets) -> String {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    excerpt(&kind.map_or("no content type".into(), |kind| secrets.scrub(kind)))
}

/// Converts an error of the network.
pub(super) fn from_net(error: NetError) -> PeerError {
    let peer_error = PeerError::new(error.fault().into(), error.to_string());
    if error.sent() == Sent::No {
        peer_error.undelivered()
    } else {
        peer_error
    }
}

/// The maximum size of a peer's error data in a [`PeerError`], in bytes of JSON.
pub(super) const MAX_ERROR_DATA: usize = 4096;

/// Errors that do not confirm the version of a request: some servers respond to unknown methods with a general error
/// (JSON-RPC 2.0 §5.1: parse error, invalid request, internal error).
const GENERIC_REASONS: [ErrorReason; 5] = [
    ErrorReason::MethodNotFound,
    ErrorReason::VersionNotSupported,
    ErrorReason::ParseError,
    ErrorReason::InvalidRequest,
    ErrorReason::InternalError,
];

/// Returns whether `error` has the code of `reason`.
pub(super) fn has_reason(error: &PeerError, reason: ErrorReason) -> bool {
    error.rpc_code == Some(reason.code().into())
}

/// Returns whether only a peer that supports the version of the request responds like this.
pub(super) fn confirms_version<T>(answer: &Result<T, PeerError>) -> bool {
    match answer {
        Ok(_) => true,
        Err(error) => {
            // A2A and JSON-RPC have negative codes only.
            error.rpc_code.is_some_and(|code| code < 0)
                && !GENERIC_REASONS
                    .iter()
                    .any(|reason| has_reason(error, *reason))
        }
    }
}

/// Texts of web frameworks for an unknown path, which are not errors of the protocol.
const UNKNOWN_PATH: [&str; 2] = ["Not Found", "Method Not Allowed"];

/// Returns the code of an error. Some servers send it as a string.
pub(super) fn code(error: &Value) -> Option<i64> {
    match error.get("code")? {
        Value::String(code) => code.trim().parse().ok(),
        code => code.as_i64(),
    }
}

/// Returns the HTTP status that an error has as its code.
pub(super) fn status_of(code: Option<i64>) -> Option<u16> {
    let code = u16::try_from(code?).ok()?;
    (400..600).contains(&code).then_some(code)
}

/// Returns whether a response with this status may come from a server in front of the agent, such as a gateway.
pub(super) fn may_be_of_gateway(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 408 | 429 | 502..=599)
}

/// Returns whether the error in a body has a code or reason of A2A or JSON-RPC.
pub(super) fn names_a2a_error(body: &Value) -> bool {
    let error = inner(body);
    code(error).is_some_and(|code| code < 0)
        || reason(error).is_some()
        || error.get("data").and_then(reason_in).is_some()
}

/// Returns whether the error in a body has a code or reason of A2A, JSON-RPC or `google.rpc`, which agents send and web servers
/// do not. Below `error`, a status of `google.rpc` has the HTTP status as its code, and its own name as `status`.
pub(super) fn names_protocol_error(body: &Value) -> bool {
    let error = inner(body);
    let code = code(error);
    names_a2a_error(body)
        || code.is_some_and(|code| GOOGLE_CODES.contains(&code))
        || (code.is_some() && body.get("error").is_some() && error["status"].is_string())
}

/// The codes of `google.rpc.Code` for errors.
const GOOGLE_CODES: RangeInclusive<i64> = 1..=16;

/// Returns the object with the members of the error in a body.
fn inner(body: &Value) -> &Value {
    body.get("error").filter(|e| e.is_object()).unwrap_or(body)
}

/// Returns the error in a body, if there is one. `status` is that of its response, and the number of an error without a code.
pub(super) fn parse(
    body: &Value,
    status: Option<StatusCode>,
    secrets: &PeerSecrets,
) -> Option<PeerError> {
    let inner = inner(body);
    let text = |key: &str| inner.get(key).and_then(Value::as_str);
    let code = code(inner);
    let reason = reason(inner);
    let reason = reason.as_deref();
    let is_specific = text("title").is_some() || reason.is_some() || code.is_some();
    let of_peer = |text: &&str| is_specific || !UNKNOWN_PATH.contains(text);
    let message = text("message").or(text("detail")).filter(of_peer);
    let message = message.or(reason);
    if code.is_none() && message.is_none() {
        return None;
    }
    let rpc_code = code
        .filter(|code| *code < 0)
        .or_else(|| reason.and_then(rpc_code));
    let number = rpc_code
        .or(code)
        .or(status.map(|status| status.as_u16().into()))
        .map(|code| format!(" {code}"))
        .unwrap_or_default();
    let message = match message {
        Some(text) => format!(": {}", excerpt(&secrets.scrub(text))),
        None => " without a message".to_owned(),
    };
    let mut error = PeerError::new(
        PeerErrorKind::Rpc,
        format!("the peer responded with error{number}{message}"),
    );
    error.rpc_code = rpc_code;
    error.http_status = status_of(code);
    error.kind = kind_of(reason, error.http_status);
    error.rpc_data = inner
        .get("details")
        .filter(|details| details.is_array() && encoded_bytes(details) <= MAX_ERROR_DATA)
        .cloned()
        .map(|mut details| {
            secrets.scrub_error(&mut details);
            details
        });
    Some(error)
}

/// Returns the reason of an A2A error: from its details, or else from the type of a problem document.
fn reason(error: &Value) -> Option<Cow<'_, str>> {
    let reason = error.get("details").and_then(reason_in);
    reason.map(Cow::Borrowed).or_else(|| {
        let kind = error.get("type").and_then(Value::as_str)?;
        let slug = kind.trim_end_matches('/').rsplit('/').next()?;
        let name = slug.to_ascii_uppercase().replace('-', "_");
        let known = ErrorReason::from_name(&name).is_some_and(ErrorReason::is_of_a2a);
        known.then_some(Cow::Owned(name))
    })
}

/// Returns the reason of the `ErrorInfo` among the details of an error (A2A 1.0 §9.5, §11.6).
pub(super) fn reason_in(details: &Value) -> Option<&str> {
    let mut details = details.as_array()?.iter();
    details.find_map(|detail| detail.get("reason").and_then(Value::as_str))
}

/// Returns the kind of an error with this reason, or this HTTP status as its code. A peer may require a credential in a
/// response or in a stream.
pub(super) fn kind_of(reason: Option<&str>, http_status: Option<u16>) -> PeerErrorKind {
    match (reason.and_then(ErrorReason::from_name), http_status) {
        (Some(ErrorReason::Unauthenticated), _) | (None, Some(401 | 403)) => {
            PeerErrorKind::AuthRequired
        }
        _ => PeerErrorKind::Rpc,
    }
}

fn rpc_code(reason: &str) -> Option<i64> {
    let known = ErrorReason::from_name(reason).filter(|known| known.is_of_a2a());
    known.map(|known| known.code().into())
}

#[cfg(test)]
mod error_body_tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http::header::LOCATION;
    use peer::{CardLocation, PeerConfig};
    use serde_json::json;

    fn parsed(body: Value) -> Option<(Option<i64>, String)> {
        parsed_with(None, body)
    }

    fn parsed_with(status: Option<StatusCode>, body: Value) -> Option<(Option<i64>, String)> {
        let url = url::Url::parse("http://a.example/").unwrap();
        let secrets = PeerSecrets::new(&PeerConfig::new(url, CardLocation::Path("/card".into())));
        parse(&body, status, &secrets).map(|error| (error.rpc_code, error.message))
    }

    #[test]
    fn protocol_error_has_its_code_in_every_form() {
        let status = json!({"error": {
            "code": 404, "status": "NOT_FOUND", "message": "no such task",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org"}]
        }});
        let problem = json!({
            "type": "https://a2a-protocol.org/errors/task-not-found", "title": "Task not found", "status": 404, "detail": "no such task"
        });
        let bare = json!({"code": -32001, "message": "no such task"});
        for body in [status, problem, bare] {
            let (code, message) = parsed(body.clone()).unwrap();
            assert_eq!(code, Some(-32001), "{body}");
            assert_eq!(
                message,
                "the peer responded with error -32001: no such task"
            );
        }
    }

    #[test]
    fn other_errors_keep_their_message() {
        assert_eq!(
            parsed(json!({"error": {"code": 400, "message": "odd"}})),
            Some((None, "the peer responded with error 400: odd".into()))
        );
        assert_eq!(
            parsed(json!({"detail": "the task is gone"})),
            Some((
                None,
                "the peer responded with error: the task is gone".into()
            ))
        );
    }

    #[test]
    fn error_without_a_code_has_the_status() {
        for (body, text) in [
            (json!({"detail": "too long"}), "error 413: too long"),
            (json!({"message": "too long"}), "error 413: too long"),
            (
                json!({"code": 3, "message": "too long"}),
                "error 3: too long",
            ),
            (json!({"code": -32602}), "error -32602 without a message"),
        ] {
            let found = parsed_with(Some(StatusCode::PAYLOAD_TOO_LARGE), body).unwrap();
            assert_eq!(found.1, format!("the peer responded with {text}"));
        }
        let unknown_path = json!({"detail": "Not Found"});
        assert_eq!(parsed_with(Some(StatusCode::NOT_FOUND), unknown_path), None);
    }

    #[test]
    fn redirect_without_an_address_has_its_own_text() {
        let url = url::Url::parse("http://a.example/").unwrap();
        let secrets = PeerSecrets::new(&PeerConfig::new(url, CardLocation::Path("/card".into())));
        for (location, kind) in [
            (None, PeerErrorKind::HttpStatus),
            (Some(""), PeerErrorKind::HttpStatus),
            (Some("https://b.example/"), PeerErrorKind::RedirectRefused),
            (Some("https://b.example/é"), PeerErrorKind::RedirectRefused),
        ] {
            let mut headers = HeaderMap::new();
            let location_value =
                location.map(|to| http::HeaderValue::from_bytes(to.as_bytes()).unwrap());
            headers.extend(location_value.map(|to| (LOCATION, to)));
            let error = from_status("endpoint", StatusCode::FOUND, &headers, b"", &secrets);
            assert_eq!(error.kind, kind, "{location:?}");
            assert!(!error.message.contains("nowhere") && !error.message.contains("``"));
        }
    }

    #[test]
    fn status_has_the_reason_of_a_server_in_front_of_the_agent() {
        let url = url::Url::parse("http://a.example/").unwrap();
        let secrets = PeerSecrets::new(&PeerConfig::new(url, CardLocation::Path("/card".into())));
        for (body, reason) in [
            (r#"{"fault": {"faultstring": "no quota"}}"#, "no quota"),
            (
                r#"{"title": "Bad", "errors": []}"#,
                r#"{"title": "Bad", "errors": []}"#,
            ),
        ] {
            let status = StatusCode::FORBIDDEN;
            let headers = HeaderMap::new();
            let error = from_status("endpoint", status, &headers, body.as_bytes(), &secrets);
            let expected = format!("the peer responded 403 Forbidden: {reason}");
            assert_eq!(error.message, expected);
        }
    }

    #[test]
    fn framework_404_is_not_a_protocol_error() {
        assert_eq!(parsed(json!({"detail": "Not Found"})), None);
        assert_eq!(parsed(json!({"message": "Not Found"})), None);
        assert_eq!(parsed(json!({"error": "Not found"})), None);
        assert_eq!(parsed(json!({})), None);
    }
}
