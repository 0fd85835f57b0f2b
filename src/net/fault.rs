//! Errors of the HTTP client, told apart.

use std::error::Error as StdError;
use std::io;

use hyper_util::client::legacy;
use tokio::time::error::Elapsed;
use url::Url;

use super::error::place;
use super::resolve::ResolveError;
use super::{NetError, NetFault, Sent};

/// An error before the head of the response was there.
pub(super) fn before_response(
    error: &legacy::Error,
    url: &Url,
    without_roots: Option<&str>,
) -> NetError {
    let place = place(url);
    let cause = Cause::find(error);
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
                format!("`{place}` does not answer in HTTP: {text}"),
            ),
            _ => NetError::new(
                NetFault::Cut,
                Sent::Unknown,
                format!(
                    "the connection to `{place}` broke off before an answer came: {}",
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
                Some(why) => {
                    format!(" (no certificate authority could be loaded from this system: {why})")
                }
                None => String::new(),
            };
            NetError::new(
                NetFault::Tls,
                Sent::No,
                format!("no TLS connection to `{place}`: {text}{note}"),
            )
        }
        // The TCP connection stood, so what broke off was the handshake.
        Kind::Io(io) if matches!(url.scheme(), "https" | "wss") && broken_off(io) => NetError::new(
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

/// A name that was not looked up in time. Nobody has been connected.
pub(super) fn unresolved(url: &Url) -> NetError {
    let message = format!(
        "cannot connect to `{}`: its name is not resolved in time",
        place(url)
    );
    NetError::new(NetFault::Unreachable, Sent::No, message)
}

/// An error in the middle of a body: whichever it is, the body is not whole.
pub(super) fn in_body(error: &hyper::Error, url: &Url) -> NetError {
    let (place, cause) = (place(url), Cause::find(error));
    NetError::new(
        NetFault::Cut,
        Sent::Unknown,
        format!("the answer of `{place}` broke off: {}", cause.last),
    )
}

fn broken_off(kind: io::ErrorKind) -> bool {
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
    /// The client could not parse the head of the answer.
    Malformed(String),
    Io(io::ErrorKind),
    Other,
}

/// The telling link of a chain of errors, and the text of the last one: the outer links say only where it happened.
struct Cause {
    kind: Kind,
    last: String,
}

impl Cause {
    fn find(error: &(dyn StdError + 'static)) -> Self {
        let mut cause = Cause {
            kind: Kind::Other,
            last: String::new(),
        };
        let mut next = Some(error);
        while let Some(link) = next {
            cause.last = link.to_string();
            cause.look_at(link);
            // An I/O error names as its source not what it wraps but the source of that.
            let wrapped = link
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            next = match wrapped {
                Some(inner) => Some(inner as &(dyn StdError + 'static)),
                None => link.source(),
            };
        }
        cause
    }

    fn look_at(&mut self, link: &(dyn StdError + 'static)) {
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
            // The inner ones are more exact: outer ones may be mere wrappings.
            if matches!(self.kind, Kind::Other | Kind::Io(_)) {
                self.kind = Kind::Io(error.kind());
            }
        } else if link.downcast_ref().is_some_and(malformed) {
            self.kind = Kind::Malformed(self.last.clone());
        } else if link.is::<Elapsed>() {
            "it took too long".clone_into(&mut self.last);
        }
    }
}

/// Whether what came cannot be read as an answer. That bytes came unasked has no name in the library, only words.
fn malformed(error: &hyper::Error) -> bool {
    error.is_parse() || error.to_string().contains("unexpected message")
}
