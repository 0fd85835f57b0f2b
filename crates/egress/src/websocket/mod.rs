//! WebSockets (RFC 6455) over [`HttpClient`].
//!
//! `handshake.rs` requests the upgrade and checks the response. `socket.rs` sends and receives frames. The client
//! offers no extension and follows no redirect. A message above the limit closes the connection before it is buffered.
//! The caller sets timeouts: dropping a future or both halves closes the connection.

mod handshake;
mod socket;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::credential::Trust;

use super::{AddressPolicy, HttpClient, NetError};

pub use handshake::{accept, has_token};
pub use socket::{Frame, Receiver, Sender};

/// The target and the settings of a connection.
#[derive(Clone)]
pub struct Dial {
    /// The URL, `ws` or `wss`. User info is never sent.
    pub url: Url,
    /// The offered subprotocols in order of preference.
    pub protocols: Vec<String>,
    /// Headers in addition to those of the upgrade.
    pub headers: HeaderMap,
    /// The addresses that may be connected.
    pub access: AddressPolicy,
    /// The TLS trust, if it differs from that of the system.
    pub trust: Option<Arc<Trust>>,
    /// The maximum size of a received message, in bytes.
    pub frame_bytes: usize,
}

base::debug_fields!(self: Dial {
    origin = super::error::place(&self.url), protocols, headers = super::names(&self.headers),
    access,
});

/// The two halves of an open WebSocket.
#[derive(Debug)]
pub struct Opened {
    /// The sending half. Clones share the connection.
    pub sender: Sender,
    /// The receiving half.
    pub receiver: Receiver,
    /// The subprotocol that the server selected. Some servers echo any offer, so this proves nothing.
    pub protocol: Option<String>,
}

/// Why the WebSocket could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WsError {
    /// The exchange failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The server's response is not an upgrade.
    #[error("the response is HTTP {}, not an upgrade", status.as_u16())]
    NoUpgrade {
        /// The status.
        status: StatusCode,
        /// The media type of the response, in lower case and without parameters.
        content_type: Option<String>,
    },
    /// The server accepted the upgrade with an invalid handshake.
    #[error("invalid WebSocket handshake: {0}")]
    Handshake(&'static str),
}

/// Opens a WebSocket.
///
/// # Errors
/// The connection or the handshake failed.
pub async fn connect(net: &dyn HttpClient, dial: Dial) -> Result<Opened, WsError> {
    let frame_bytes = dial.frame_bytes;
    let (stream, protocol) = handshake::handshake(net, dial).await?;
    let (sender, receiver) = socket::from_upgraded(stream, frame_bytes).await;
    Ok(Opened {
        sender,
        receiver,
        protocol,
    })
}

#[cfg(test)]
mod tests;
