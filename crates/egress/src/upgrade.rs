//! Connections that change their protocol.

use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use super::error::place;
use super::{ByteStream, NetError, NetFault, Request, Sent};

/// A connection whose bytes go both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The answer to a request to change the protocol.
pub struct Upgrade {
    /// The status: 101 where the protocol is changed.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The connection, where the protocol is changed. Dropping it closes it.
    pub stream: Option<Box<dyn Duplex>>,
    /// The body where it is not.
    pub body: ByteStream,
}

impl std::fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upgrade")
            .field("status", &self.status)
            .field("headers", &super::names(&self.headers))
            .field("changed", &self.stream.is_some())
            .finish_non_exhaustive()
    }
}

/// Sets the HTTP scheme of a WebSocket handshake (RFC 6455 §3).
pub(super) fn over_http(url: &mut Url) {
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        _ => return,
    };
    // Fails only between schemes with and without a host, and all of these have one.
    let _ = url.set_scheme(scheme);
}

/// Returns the error of a network without WebSockets.
pub(super) fn unsupported(request: &Request) -> NetError {
    NetError::new(
        NetFault::Protocol,
        Sent::No,
        format!(
            "no connection to `{}` can change its protocol on this network",
            place(&request.url)
        ),
    )
}
