//! Messages that the gateway sends unsolicited.

use serde_json::{Value, json};

use collective::{Envelope, GATEWAY, Kind};

use super::status::Status;

/// Builds the status message of an agent for subscribers (Heretek A2A §6.2).
pub(super) fn status(agent: &str, status: Status, previous: Option<Status>) -> String {
    let mut content = json!({"agent": agent, "status": status.as_str()});
    if let Some(previous) = previous {
        content["previous"] = previous.as_str().into();
    }
    Envelope::new(Kind::Status, content)
        .with("from", GATEWAY)
        .to_text()
}

/// Builds a `disconnect` (Heretek A2A §5.5).
pub(super) fn disconnect(reason: &str, message: &str) -> String {
    let content = json!({"reason": reason, "message": message});
    Envelope::new(Kind::Disconnect, content)
        .with("from", GATEWAY)
        .to_text()
}

/// Builds a ping.
pub(super) fn ping(id: &str, timestamp: u64) -> String {
    Envelope::new(Kind::Ping, json!({}))
        .with("id", id)
        .with("timestamp", timestamp)
        .to_text()
}

/// Builds an event for the subscribers of a channel.
pub(super) fn event(channel: &str, mut content: Value) -> String {
    content["event"] = channel.into();
    content["channel"] = channel.into();
    Envelope::new(Kind::Event, content)
        .with("from", GATEWAY)
        .to_text()
}
