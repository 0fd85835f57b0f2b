//! Errors of the HTTP client.

use std::error::Error as StdError;
use std::io;

use url::Url;

use super::error::place;
use super::resolver::ResolveError;
use super::{NetError, NetFault, Sent};

/// Returns the error for a request that this system cannot send.
pub(super) fn unusable(fault: NetFault, what: &str, reason: &dyn StdError) -> NetError {
    let message = format!("{what} cannot be set up on this system: {reason}");
    NetError::new(fault, Sent::No, message)
}

/// reqwest uses one TLS configuration for both ends of a tunnel. So the proxy would receive the peer's client
/// certificate, and would be trusted by the peer's authorities.
pub(super) fn not_proxied(url: &Url) -> NetError {
    let message = format!(
        "cannot connect to `{}` through an `https` proxy: the proxy would be trusted by the target's CA and receive its client certificate; use an `http` proxy or add the host to NO_PROXY",
        place(url)
    );
    NetError::new(NetFault::Tls, Sent::No, message)
}

/// Returns the error for a request without a response head.
pub(super) fn before_response(
    error: &reqwest::Error,
    url: &Url,
    without_roots: Option<&str>,
) -> NetError {
    let place = place(url);
    let cause = Cause::find(error);
    if error.is_builder() {
        let message = format!("the request to `{place}` cannot be built: {}", cause.last);
        return NetError::new(NetFault::Protocol, Sent::No, message);
    }
    if !error.is_connect() {
        return match cause.kind {
            Kind::Tls(text) => NetError::new(
                NetFault::Tls,
                Sent::Unknown,
                format!("the TLS connection to `{place}` failed: {text}"),
            ),
            Kind::Malformed(text) => NetError::new(
                NetFault::Protocol,
                Sent::Unknown,
                format!("the response of `{place}` is not HTTP: {text}"),
            ),
            _ => NetError::new(
                NetFault::Cut,
                Sent::Unknown,
                format!(
                    "the connection to `{place}` broke off before the response: {}",
                    cause.last
                ),
            ),
        };
    }
    match cause.kind {
        Kind::Refused(text) => NetError::new(
            NetFault::AddressRefused,
            Sent::No,
            format!("`{place}` is not allowed: {text}"),
        ),
        Kind::NoAddress(text) => NetError::new(
            NetFault::Dns,
            Sent::No,
            format!("the host of `{place}` cannot be resolved: {text}"),
        ),
        Kind::Tls(text) => {
            let note = match without_roots {
                Some(reason) => {
                    format!(
                        " (no certificate authority could be loaded from this system: {reason})"
                    )
                }
                None => String::new(),
            };
            NetError::new(
                NetFault::Tls,
                Sent::No,
                format!("no TLS connection to `{place}`: {text}{note}"),
            )
        }
        // The TCP connection was open, so the TLS handshake broke off.
        Kind::Io(io) if matches!(url.scheme(), "https" | "wss") && is_cut(io) => NetError::new(
            NetFault::Tls,
            Sent::No,
            format!("the TLS handshake with `{place}` broke off: {}", cause.last),
        ),
        _ => NetError::new(
            NetFault::Unreachable,
            Sent::No,
            format!("cannot connect to `{place}`: {}", cause.last),
        ),
    }
}

/// Returns the error for a name that was not resolved in time.
pub(super) fn unresolved(url: &Url) -> NetError {
    let message = format!(
        "cannot connect to `{}`: name resolution timed out",
        place(url)
    );
    NetError::new(NetFault::Unreachable, Sent::No, message)
}

/// Returns the error for an incomplete body.
pub(super) fn in_body(error: &reqwest::Error, url: &Url) -> NetError {
    let (place, cause) = (place(url), Cause::find(error));
    NetError::new(
        NetFault::Cut,
        Sent::Unknown,
        format!("the response of `{place}` broke off: {}", cause.last),
    )
}

/// Returns the error of an upgrade that failed after the peer accepted it.
pub(super) fn upgrade_failed(error: &reqwest::Error, url: &Url) -> NetError {
    let (place, cause) = (place(url), Cause::find(error));
    let message = format!("cannot upgrade the connection to `{place}`: {}", cause.last);
    NetError::new(NetFault::Protocol, Sent::Unknown, message)
}

fn is_cut(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as K;
    matches!(
        kind,
        K::UnexpectedEof
            | K::ConnectionReset
            | K::ConnectionAborted
            | K::BrokenPipe
            | K::InvalidData
    )
}

enum Kind {
    Refused(String),
    NoAddress(String),
    Tls(String),
    /// The head of the response is invalid.
    Malformed(String),
    Io(io::ErrorKind),
    Other,
}

/// The most specific error of a chain and the text of the last one. Outer errors contain only the place.
struct Cause {
    kind: Kind,
    last: String,
}

impl Cause {
    fn find(error: &reqwest::Error) -> Self {
        let mut cause = Cause {
            kind: Kind::Other,
            last: "the request failed".to_owned(),
        };
        let mut next = error.source();
        while let Some(link) = next {
            // reqwest's own errors print the URL.
            if !link.is::<reqwest::Error>() {
                cause.last = link.to_string();
            }
            cause.classify(link);
            // The source of an I/O error is the source of the error that it wraps.
            let wrapped = link
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            next = match wrapped {
                Some(inner) => Some(inner as &(dyn StdError + 'static)),
                None => link.source(),
            };
        }
        if error.is_timeout() {
            "it took too long".clone_into(&mut cause.last);
        }
        cause
    }

    fn classify(&mut self, link: &(dyn StdError + 'static)) {
        if let Some(error) = link.downcast_ref::<ResolveError>() {
            self.kind = match error {
                ResolveError::NotPublic(_) | ResolveError::NotLoopback => {
                    Kind::Refused(error.to_string())
                }
                ResolveError::Empty | ResolveError::System(_) => Kind::NoAddress(error.to_string()),
                ResolveError::Proxy(_) => Kind::Other,
            };
        } else if let Some(error) = link.downcast_ref::<rustls::Error>() {
            self.kind = Kind::Tls(error.to_string());
        } else if let Some(error) = link.downcast_ref::<io::Error>() {
            // Inner errors are more specific: outer ones may only wrap them.
            if matches!(self.kind, Kind::Other | Kind::Io(_)) {
                self.kind = Kind::Io(error.kind());
            }
        } else if link.downcast_ref().is_some_and(malformed) {
            self.kind = Kind::Malformed(self.last.clone());
        }
    }
}

/// Returns whether the response is malformed. hyper has no predicate for unexpected bytes, only a text.
fn malformed(error: &hyper::Error) -> bool {
    error.is_parse() || error.to_string().contains("unexpected message")
}
