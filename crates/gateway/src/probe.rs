//! Who answers at a port that is taken.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use url::Url;

use collective::{LARGEST_FRAME, SUBPROTOCOL};
use egress::websocket::{self, Dial, Frame, WsError};
use egress::{Access, Net};

/// How long a gateway may take to speak first, and to acknowledge.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How long a gateway that speaks first may take to do so.
const FIRST_WORD: Duration = Duration::from_millis(250);

/// What a client says first in `a2a-v1` (000 §5.2).
const ADVERTISE: &str = r#"{"type":"handshake","content":{"action":"advertise","capabilities":{"supportedMessageTypes":[],"version":"1.0.0"}}}"#;

/// Who answers at a port. As a text it says so, and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    /// The OpenClaw gateway.
    OpenClaw,
    /// A gateway of `a2a-v1`.
    A2aV1,
    /// The JavaScript gateway.
    HeretekJs,
    /// A web server, with this status.
    Web(u16),
    /// A WebSocket that says nothing we know.
    Unknown,
    /// Something that does not answer, or not in HTTP.
    Silent,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenClaw => f.write_str(
                "the OpenClaw gateway answers there. Use it as it is (`gateway.dialect: \"openclaw\"`), or give this gateway another port, such as 18790",
            ),
            Self::A2aV1 => f.write_str(
                "a gateway of a2a-v1 answers there already. Use that one, stop it, or give this gateway another port",
            ),
            Self::HeretekJs => f.write_str(
                "the JavaScript gateway answers there. Stop it, or give this gateway another port",
            ),
            Self::Web(status) => write!(
                f,
                "a web server answers there (HTTP {status}). Give this gateway another port"
            ),
            Self::Unknown => f.write_str(
                "a WebSocket server answers there that speaks no protocol known here. Give this gateway another port",
            ),
            Self::Silent => f.write_str(
                "something has it that does not answer. Find out what it is, or give this gateway another port",
            ),
        }
    }
}

/// Asks who answers at `address`.
pub async fn who_answers(net: &dyn Net, address: SocketAddr) -> Occupant {
    let asked = tokio::time::timeout(2 * PATIENCE, ask(net, address));
    asked.await.ok().flatten().unwrap_or(Occupant::Silent)
}

async fn ask(net: &dyn Net, address: SocketAddr) -> Option<Occupant> {
    match ask_at(net, address, "/").await? {
        // That one is at a path of its own.
        Occupant::Web(400) => match ask_at(net, address, "/a2a").await? {
            Occupant::HeretekJs => Some(Occupant::HeretekJs),
            _ => Some(Occupant::Web(400)),
        },
        occupant => Some(occupant),
    }
}

async fn ask_at(net: &dyn Net, address: SocketAddr, path: &str) -> Option<Occupant> {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let address = SocketAddr::new(ip, address.port());
    let dial = Dial {
        url: Url::parse(&format!("ws://{address}{path}")).ok()?,
        protocols: vec![SUBPROTOCOL.to_owned()],
        headers: HeaderMap::new(),
        // It is one of this machine's own addresses.
        access: Access::Private,
        trust: None,
        frame_bytes: LARGEST_FRAME,
    };
    let mut opened = match websocket::connect(net, dial).await {
        Ok(opened) => opened,
        Err(WsError::NoUpgrade { status, .. }) => return Some(Occupant::Web(status.as_u16())),
        Err(_) => return None,
    };
    let first = tokio::time::timeout(FIRST_WORD, opened.receiver.next()).await;
    let frame = match first {
        Ok(frame) => frame,
        Err(_) => {
            opened.sender.text(ADVERTISE.to_owned()).await.ok()?;
            let answer = tokio::time::timeout(PATIENCE, opened.receiver.next()).await;
            answer.unwrap_or(Frame::Binary(0))
        }
    };
    let _ = opened.sender.close(1000, "").await;
    Some(known(&frame))
}

/// Who says such a thing.
fn known(frame: &Frame) -> Occupant {
    let Frame::Text(text) = frame else {
        return Occupant::Unknown;
    };
    let said: Value = serde_json::from_str(text).unwrap_or_default();
    match said["type"].as_str() {
        Some("event") if said["event"] == "connect.challenge" => Occupant::OpenClaw,
        Some("welcome") if said["gateway"].is_object() => Occupant::HeretekJs,
        Some("handshake") if said["content"]["action"] == "acknowledge" => Occupant::A2aV1,
        // It wants to know who asks, in the words of the registry.
        Some("error") if said["content"]["code"] == 5001 => Occupant::A2aV1,
        _ => Occupant::Unknown,
    }
}

#[cfg(test)]
mod tests;
