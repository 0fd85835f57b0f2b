//! WebSockets (RFC 6455) over [`Net`].
//!
//! `handshake.rs` asks for the upgrade and checks the answer; `socket.rs` carries frames. No extension is offered, no
//! redirect followed, and a message above the cap ends the connection before it is held in memory. Time limits are the
//! caller's: dropping a future or both halves closes the connection.

mod handshake;
mod socket;

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::credential::Trust;

use super::{Access, Net, NetError};

pub use handshake::accept;
pub use socket::{Frame, Receiver, Sender};

/// The target and the settings of a connection.
#[derive(Clone)]
pub struct Dial {
    /// The address, `ws` or `wss`. User info is never sent.
    pub url: Url,
    /// The subprotocols that are offered, most wanted first.
    pub protocols: Vec<String>,
    /// Headers beside those of the upgrade.
    pub headers: HeaderMap,
    /// Which addresses may be connected.
    pub access: Access,
    /// The TLS trust, if it differs from that of the system.
    pub trust: Option<Arc<Trust>>,
    /// The largest message that is taken, in bytes.
    pub frame_bytes: usize,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial")
            .field("origin", &super::error::place(&self.url))
            .field("protocols", &self.protocols)
            .field("headers", &super::names(&self.headers))
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

/// An open WebSocket in its two halves.
#[derive(Debug)]
pub struct Opened {
    /// The half that sends. Clones send over the same connection.
    pub sender: Sender,
    /// The half that receives.
    pub receiver: Receiver,
    /// The subprotocol that the server chose. Some servers repeat whatever is offered, so this proves nothing.
    pub protocol: Option<String>,
}

/// Why there is no WebSocket.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WsError {
    /// The exchange failed.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The server answered, and not with an upgrade.
    #[error("the answer is HTTP {}, not an upgrade", status.as_u16())]
    NoUpgrade {
        /// The status.
        status: StatusCode,
        /// The media type of what it answered with, in lower case and without parameters.
        content_type: Option<String>,
    },
    /// The server answered with an upgrade that is no WebSocket as it was asked for.
    #[error("the upgrade is not a WebSocket as it was asked for: {0}")]
    Handshake(&'static str),
}

/// Opens a WebSocket.
///
/// # Errors
/// Why there is none.
pub async fn connect(net: &dyn Net, dial: Dial) -> Result<Opened, WsError> {
    let frame_bytes = dial.frame_bytes;
    let (stream, protocol) = handshake::shake(net, dial).await?;
    let (sender, receiver) = socket::over(stream, frame_bytes).await;
    Ok(Opened {
        sender,
        receiver,
        protocol,
    })
}

#[cfg(test)]
mod tests;
