//! The archived JavaScript gateway of the collective. It predates `a2a-v1` and spells the same messages differently.
//!
//! Used only if `gateway.dialect` is `heretek-js`. The client registers as an agent and receives replies under that
//! name. The gateway takes a message's sender from the URL, so it authenticates no sender. The rest is in `a2a_v1/`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::timeout_at;

use base::environment::Environment;
use base::json;
use base::log::Log;
use collective::{Envelope, EnvelopeError, ErrorCode, FRAME_LIMITS, GATEWAY, Kind};
use egress::websocket::{Frame, Opened};
use peer::{PeerError, excerpt};

use super::a2a_v1::{A2aV1Connection, DialectCodec};
use super::dial::{DialedSocket, broken, failed};
use super::pending_tasks::PendingTasks;
use super::settings::{Settings, without_token};
use super::{GatewayLink, a2a_v1, dial};

const HERETEK_JS: DialectCodec = DialectCodec {
    dialect: "heretek-js",
    has_triad: false,
    encode,
    decode,
};

/// Registers with the gateway and spawns the reader.
///
/// # Errors
/// The gateway did not accept the registration.
pub(super) async fn handshake(
    dialed: DialedSocket,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    tasks: Arc<PendingTasks>,
) -> Result<Arc<dyn GatewayLink>, PeerError> {
    let name = registration_name(&settings, &*env);
    let mut socket = dialed.socket;
    let registered = timeout_at(dialed.until, register(&mut socket, &name, &settings)).await;
    let names = registered.unwrap_or_else(|_| Err(dial::handshake_timeout(&settings)))?;
    let connection = A2aV1Connection::new(&HERETEK_JS, socket.sender, settings, env, log, tasks);
    connection.agents.set_own_name(&name);
    connection.agents.seed(
        names
            .iter()
            .map(String::as_str)
            .filter(|other| *other != name),
    );
    Ok(a2a_v1::spawn_reader(connection, socket.receiver))
}

/// Returns the name to register. A name in the URL takes precedence, because the gateway copies it into the client's
/// messages. Otherwise the name is random, because a second client with the same name would receive the messages of the
/// first.
fn registration_name(settings: &Settings, env: &dyn Environment) -> String {
    let mut query = settings.url.query_pairs();
    let named = query.find(|(field, value)| field == "agentId" && !value.is_empty());
    named.map_or_else(
        || format!("remote-agent-{}", env.uuid().simple()),
        |(_, name)| name.into_owned(),
    )
}

/// Registers, and returns the names of the connected agents.
async fn register(
    socket: &mut Opened,
    name: &str,
    settings: &Settings,
) -> Result<Vec<String>, PeerError> {
    let register = json!({"type": "register", "agentId": name, "metadata": {"role": "bridge"}});
    let sent = socket.sender.text(register.to_string()).await;
    sent.map_err(|error| broken(&error, settings))?;
    loop {
        let text = match socket.receiver.next().await {
            Frame::Text(text) => text,
            Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
            Frame::Closed { .. } => {
                return Err(registration_refused("it closed the connection", settings));
            }
            Frame::Broken(error) => return Err(broken(&error, settings)),
        };
        let text = without_token(&text, settings);
        let Ok(frame) = json::from_str::<Value>(&text, FRAME_LIMITS) else {
            continue;
        };
        match frame.get("type").and_then(Value::as_str) {
            Some("registered") => return Ok(names(&frame, "connectedAgents")),
            Some("error") => {
                let reason = frame
                    .get("error")
                    .and_then(Value::as_str)
                    .unwrap_or("an error");
                return Err(registration_refused(&excerpt(reason), settings));
            }
            _ => {}
        }
    }
}

fn registration_refused(reason: &str, settings: &Settings) -> PeerError {
    let message = format!(
        "the JavaScript gateway at `{}` refused the registration: {reason}",
        settings.display_url()
    );
    failed(ErrorCode::ConnectionRefused, message)
}

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

#[cfg(test)]
mod tests;
