//! Errors of HTTP and of the network as errors of the peer.

use std::borrow::Cow;

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};

use egress::{NetError, NetFault, Sent, status_text};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::peer_secrets::PeerSecrets;
use super::response_json;

/// Returns the error for a status other than 2xx, with an excerpt of the body.
pub(super) fn from_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    secrets: &PeerSecrets,
) -> PeerError {
    if status.is_redirection() {
        let to = headers
            .get(LOCATION)
            .and_then(|v| v.to_str().ok())
            .map_or("nowhere", |to| {
                to.split(['?', '#']).next().unwrap_or_default()
            });
        let to = secrets.scrub(to);
        let message = format!(
            "the peer responded {} with a redirect to `{}`, which is not followed; if that is the agent's address, set `endpoint` of the target to it",
            status_text(status),
            excerpt(&to)
        );
        let error = PeerError::new(PeerErrorKind::RedirectRefused, message);
        // 303 refers to the result of a request that was executed (RFC 9110 §15.4.4); other redirects are no work.
        return if status == StatusCode::SEE_OTHER {
            error
        } else {
            error.undelivered()
        };
    }
    let message = error_message(body).map_or_else(|| String::from_utf8_lossy(body), Cow::Owned);
    let text = excerpt(&secrets.scrub(message));
    let message = if text.is_empty() {
        format!("the peer responded {}", status_text(status))
    } else {
        format!("the peer responded {}: {text}", status_text(status))
    };
    PeerError::new(PeerErrorKind::HttpStatus, message)
}

/// Returns the message in an error body of HTTP+JSON, JSON-RPC or `application/problem+json`.
fn error_message(body: &[u8]) -> Option<String> {
    let json = response_json::error_body(body)?;
    let mut messages = ["/error/message", "/message", "/detail"]
        .iter()
        .filter_map(|place| json.pointer(place)?.as_str());
    messages.next().map(str::to_owned)
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
    let kind = match error.fault() {
        NetFault::Dns => PeerErrorKind::Dns,
        NetFault::Unreachable => PeerErrorKind::Unreachable,
        NetFault::Tls => PeerErrorKind::Tls,
        NetFault::AddressRefused => PeerErrorKind::AddressRefused,
        NetFault::TokenUnavailable => PeerErrorKind::TokenUnavailable,
        NetFault::ProxyAuth => PeerErrorKind::ProxyAuthRequired,
        NetFault::Cut => PeerErrorKind::Cut,
        NetFault::TooLarge => PeerErrorKind::TooLarge,
        NetFault::EventTooLarge => PeerErrorKind::EventTooLarge,
        NetFault::Protocol => PeerErrorKind::InvalidResponse,
    };
    let peer_error = PeerError::new(kind, error.to_string());
    if error.sent() == Sent::No {
        peer_error.undelivered()
    } else {
        peer_error
    }
}
