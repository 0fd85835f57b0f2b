//! Identifies the program that uses an occupied port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use url::Url;

use collective::{Greeting, MAX_FRAME_BYTES, SUBPROTOCOL};
use egress::websocket::{self, Dial, Frame, WsError};
use egress::{AddressPolicy, HttpClient};

/// The timeout of the WebSocket handshake and of the acknowledgement.
const REPLY_TIMEOUT: Duration = Duration::from_millis(1500);

/// The timeout for the greeting that some gateways send first.
const GREETING_TIMEOUT: Duration = Duration::from_millis(250);

/// The first message of a client in `a2a-v1` (Heretek A2A §5.2).
const ADVERTISE: &str = r#"{"type":"handshake","content":{"action":"advertise","capabilities":{"supportedMessageTypes":[],"version":"1.0.0"}}}"#;

/// The program that responds on a port. `Display` includes a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occupant {
    /// The OpenClaw gateway.
    OpenClaw,
    /// A gateway of `a2a-v1`.
    A2aV1,
    /// The JavaScript gateway.
    HeretekJs,
    /// A web server, which responded with this status.
    Web(u16),
    /// A WebSocket server of an unknown protocol.
    Unknown,
    /// A program that does not respond, or does not respond with HTTP.
    Silent,
}

impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenClaw => f.write_str(
                "the OpenClaw gateway answers there. Connect to it with `gateway.dialect: \"openclaw\"`, or give this gateway another port, such as 18790",
            ),
            Self::A2aV1 => f.write_str(
                "a gateway of a2a-v1 answers there already. Connect to that one, stop it, or give this gateway another port",
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
                "a program has it that does not answer. Find that program, or give this gateway another port",
            ),
        }
    }
}

/// Identifies the program that responds at `address`.
pub async fn identify_occupant(net: &dyn HttpClient, address: SocketAddr) -> Occupant {
    let occupant = tokio::time::timeout(2 * REPLY_TIMEOUT, probe(net, address));
    occupant.await.ok().flatten().unwrap_or(Occupant::Silent)
}

async fn probe(net: &dyn HttpClient, address: SocketAddr) -> Option<Occupant> {
    match probe_path(net, address, "/").await? {
        // The JavaScript gateway uses another path.
        Occupant::Web(400) => match probe_path(net, address, "/a2a").await? {
            Occupant::HeretekJs => Some(Occupant::HeretekJs),
            _ => Some(Occupant::Web(400)),
        },
        occupant => Some(occupant),
    }
}

async fn probe_path(net: &dyn HttpClient, address: SocketAddr, path: &str) -> Option<Occupant> {
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
        // `address` is on this machine.
        access: AddressPolicy::AnyAddress,
        trust: None,
        frame_bytes: MAX_FRAME_BYTES,
    };
    let mut opened = match websocket::connect(net, dial).await {
        Ok(opened) => opened,
        Err(WsError::NoUpgrade { status, .. }) => return Some(Occupant::Web(status.as_u16())),
        Err(_) => return None,
    };
    let first = tokio::time::timeout(GREETING_TIMEOUT, opened.receiver.next()).await;
    let frame = match first {
        Ok(frame) => frame,
        Err(_) => {
            opened.sender.text(ADVERTISE.to_owned()).await.ok()?;
            let answer = tokio::time::timeout(REPLY_TIMEOUT, opened.receiver.next()).await;
            answer.unwrap_or(Frame::Binary(0))
        }
    };
    let _ = opened.sender.close(1000, "").await;
    Some(recognize(&frame))
}

/// Identifies a gateway by its first message.
fn recognize(frame: &Frame) -> Occupant {
    let Frame::Text(text) = frame else {
        return Occupant::Unknown;
    };
    let message: Value = base::json::from_str(text, collective::FRAME_LIMITS).unwrap_or_default();
    match Greeting::from_frame(&message) {
        Some(Greeting::OpenClaw) => return Occupant::OpenClaw,
        Some(Greeting::HeretekJs) => return Occupant::HeretekJs,
        None => {}
    }
    match message["type"].as_str() {
        Some("handshake") if message["content"]["action"] == "acknowledge" => Occupant::A2aV1,
        // It requires authentication and responds with an error of the registry.
        Some("error") if message["content"]["code"] == 5001 => Occupant::A2aV1,
        _ => Occupant::Unknown,
    }
}

#[cfg(test)]
mod tests;
