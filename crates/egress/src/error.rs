//! Errors of the network.

use base::text::one_line;
use http::StatusCode;
use serde_json::Value;
use url::Url;

/// The maximum length of a message, in bytes: some causes quote the other side.
const MESSAGE_BYTES: usize = 400;

/// Why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetFault {
    /// The host's name has no address.
    Dns,
    /// No connection could be opened.
    Unreachable,
    /// The TLS handshake failed.
    Tls,
    /// The request's [`AddressPolicy`](super::AddressPolicy) forbids the host's address.
    AddressRefused,
    /// The authorization server, or the command of a credential, gave none.
    TokenUnavailable,
    /// The proxy requires credentials, or others.
    ProxyAuth,
    /// The connection broke before the response was complete.
    Cut,
    /// The response exceeds the caller's limit.
    TooLarge,
    /// One event of a stream exceeds the caller's limit.
    EventTooLarge,
    /// The request cannot be sent, or the response is not valid HTTP.
    Protocol,
}

/// Whether bytes of the request may have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sent {
    /// No byte left: the request may be sent again.
    No,
    /// Bytes may have been sent, and the peer may have acted on them.
    Unknown,
}

/// A failed exchange. Its text contains hosts and ports, never a header's value, a body, user info or a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NetError {
    fault: NetFault,
    sent: Sent,
    message: Box<str>,
}

impl NetError {
    /// Creates an error. Control characters in `message` become spaces, and a long message is cut.
    pub fn new(fault: NetFault, sent: Sent, message: impl AsRef<str>) -> Self {
        let message = message.as_ref();
        let message = &message[..message.floor_char_boundary(MESSAGE_BYTES)];
        Self {
            fault,
            sent,
            message: one_line(message).into_boxed_str(),
        }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn fault(&self) -> NetFault {
        self.fault
    }

    /// Returns whether bytes of the request may have been sent.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }
}

/// Returns scheme, host and port of a URL, the parts that errors may show.
pub(super) fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Returns a status for a message: its number, and its name if it has one.
#[must_use]
pub fn status_text(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(name) => format!("{} {name}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// Where the JSON of an error has its reason: in A2A and JSON-RPC, OAuth (RFC 6749 §5.2), problem documents (RFC 9457 §3.1),
/// and the forms of identity providers and gateways.
const REASON_PLACES: [&str; 8] = [
    "/error/message",
    "/error_description",
    "/errorSummary",
    "/message",
    "/detail",
    "/fault/faultstring",
    "/Error",
    "/ErrorMessage",
];

/// Returns the reason in JSON that is an error, or that should be something else and may say why it is not.
#[must_use]
pub fn stated_reason(json: &Value) -> Option<&str> {
    let mut places = REASON_PLACES.iter();
    places.find_map(|place| json.pointer(place)?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_without_a_name_is_its_number() {
        let text = |status| status_text(StatusCode::from_u16(status).unwrap_or_default());
        assert_eq!(text(404), "404 Not Found");
        assert_eq!(text(524), "524");
    }

    #[test]
    fn message_is_one_short_line() {
        let error = NetError::new(
            NetFault::Tls,
            Sent::No,
            format!("a\nb\u{1b}[31m{}", "é".repeat(900)),
        );
        let text = error.to_string();
        assert!(text.starts_with("a bé"), "{text}");
        assert!(text.len() <= MESSAGE_BYTES);
    }
}
