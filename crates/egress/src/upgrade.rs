//! HTTP connections that upgrade to another protocol.

use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use super::error::place;
use super::{ByteStream, NetError, NetFault, Request, Sent};

/// A bidirectional stream of bytes.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The response to an upgrade request.
pub struct Upgrade {
    /// The status: 101 if the upgrade succeeded.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The connection, if the upgrade succeeded. Dropping it closes it.
    pub stream: Option<Box<dyn Duplex>>,
    /// The body, if the upgrade failed.
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
    // Fails only between schemes with and without a host. All of these have one.
    let _ = url.set_scheme(scheme);
}

/// Returns the error of a network without WebSockets.
pub(super) fn unsupported(request: &Request) -> NetError {
    NetError::new(
        NetFault::Protocol,
        Sent::No,
        format!(
            "this network supports no upgrade of connections to `{}`",
            place(&request.url)
        ),
    )
}
