//! Gateways of other protocols on the port of one that speaks `a2a-v1`.

use serde_json::Value;

/// A gateway that greets its client, by its first frame. A gateway of `a2a-v1` waits for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// `connect.challenge` of OpenClaw's own gateway.
    OpenClaw,
    /// `welcome` of the archived JavaScript gateway.
    HeretekJs,
}

impl Greeting {
    /// Returns the greeting in a frame.
    pub fn from_frame(frame: &Value) -> Option<Self> {
        match frame["type"].as_str()? {
            "event" if frame["event"] == "connect.challenge" => Some(Self::OpenClaw),
            "welcome" if frame["gateway"].is_object() => Some(Self::HeretekJs),
            _ => None,
        }
    }
}
