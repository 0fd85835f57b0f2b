//! Frames of the JavaScript gateway, and the equivalent `a2a-v1` envelopes.

use serde_json::{Value, json};

use base::json;
use collective::{Envelope, EnvelopeError, ErrorCode, FRAME_LIMITS, GATEWAY, Kind};

/// Encodes an envelope in this gateway's dialect.
pub(super) fn encode(envelope: Envelope) -> String {
    match envelope.kind() {
        Kind::Discovery => json!({"type": "discover"}).to_string(),
        // The gateway forwards messages unchanged and looks for the correlation id outside the content; agents look in
        // either place.
        Kind::Message => {
            let correlation_id = envelope.correlation_id().map(str::to_owned);
            envelope.with("correlationId", correlation_id).to_text()
        }
        _ => envelope.to_text(),
    }
}

/// Converts a frame of this gateway to an envelope.
pub(super) fn decode(frame: &str) -> Result<Envelope, EnvelopeError> {
    let Ok(value) = json::from_str::<Value>(frame, FRAME_LIMITS) else {
        return Envelope::parse(frame);
    };
    match value.get("type").and_then(Value::as_str) {
        Some("discover") => {
            let agents = agents(&value);
            Ok(Envelope::new(Kind::Discovery, json!({"agents": agents})))
        }
        Some("error") => Envelope::from_value(with_code(value)),
        _ => Envelope::from_value(value),
    }
}

/// Returns the agents that are or were connected.
fn agents(discovered: &Value) -> Vec<Value> {
    let connected = names(discovered, "connectedAgents");
    let offline = names(discovered, "registeredAgents").into_iter();
    let offline = offline.filter(|name| !connected.contains(name));
    let offline: Vec<_> = offline
        .map(|name| json!({"name": name, "status": "offline"}))
        .collect();
    let online = connected
        .iter()
        .map(|name| json!({"name": name, "status": "online"}));
    online.chain(offline).collect()
}

/// Returns the names in a list of names or of objects with a name.
pub(super) fn names(frame: &Value, field: &str) -> Vec<String> {
    let listed = frame
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let named = listed.filter_map(|one| {
        one.as_str()
            .or_else(|| one.get("agentId").and_then(Value::as_str))
    });
    named.map(str::to_owned).collect()
}

/// Adds an error code of the registry: this gateway sends only texts.
fn with_code(mut error: Value) -> Value {
    let text = error
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let code = match &*text {
        text if text.ends_with("is not connected") => ErrorCode::AgentOffline,
        "Invalid JSON format" => ErrorCode::InvalidJson,
        "Target agent required" | "Agent ID required for registration" => ErrorCode::MissingField,
        "Unauthorized" => ErrorCode::AuthFailed,
        _ => return error,
    };
    // These are the texts of the gateway itself, which adds the sender to the frames of agents.
    if error.get("from").is_none() {
        error["from"] = GATEWAY.into();
    }
    error["content"] = json!({"error": code.name(), "message": text, "code": code.number()});
    error
}
