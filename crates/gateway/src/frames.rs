//! Frames that the gateway writes of its own accord.

use serde_json::{Value, json};

use collective::{Envelope, GATEWAY, Kind};

use super::status::Status;

/// How an agent is, for who subscribed to it (000 §6.2).
pub(super) fn status(agent: &str, status: Status, previous: Option<Status>) -> String {
    let mut content = json!({"agent": agent, "status": status.as_str()});
    if let Some(previous) = previous {
        content["previous"] = previous.as_str().into();
    }
    Envelope::new(Kind::Status, content)
        .with("from", GATEWAY)
        .to_text()
}

/// The connection is about to end (000 §5.5).
pub(super) fn disconnect(reason: &str, message: &str) -> String {
    let content = json!({"reason": reason, "message": message});
    Envelope::new(Kind::Disconnect, content)
        .with("from", GATEWAY)
        .to_text()
}

/// Are you there?
pub(super) fn ping(id: &str, timestamp: u64) -> String {
    Envelope::new(Kind::Ping, json!({}))
        .with("id", id)
        .with("timestamp", timestamp)
        .to_text()
}

/// Something happened, for who subscribed to the channel. `content` is what the event is about.
pub(super) fn event(channel: &str, mut content: Value) -> String {
    content["event"] = channel.into();
    content["channel"] = channel.into();
    Envelope::new(Kind::Event, content)
        .with("from", GATEWAY)
        .to_text()
}
