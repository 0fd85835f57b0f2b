//! A client that reports the events of a gateway.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{ClientError, connection::ClientConnection};
use crate::a2a_v1::new_id;
use base::environment::Environment;
use collective::{Channel, Envelope, Kind};

/// The channels that the client subscribes to. The gateway handles the subscriptions in this order.
const CHANNELS: [Channel; 2] = [Channel::Status, Channel::Events];

/// An observation of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// The client connected, with this id.
    Connected(String),
    /// The connection failed; the client connects again after the delay.
    Lost(ClientError, Duration),
    /// The current status of an agent, or a change of it.
    Status(Value),
    /// An event of the gateway.
    Event(Value),
}

/// Subscribes to a gateway, and reports what it sends.
pub(super) struct Watcher<'a, O> {
    content: bool,
    env: &'a dyn Environment,
    observe: &'a O,
    /// The cursor of the last received event. After a lost connection, the watcher requests the events that it missed, as far
    /// as the gateway still has them.
    cursor: Mutex<Option<String>>,
}

impl<'a, O: Fn(&Observation) + Sync> Watcher<'a, O> {
    /// Creates a watcher. With `content`, events include the texts of messages.
    pub(super) fn new(content: bool, env: &'a dyn Environment, observe: &'a O) -> Self {
        Self {
            content,
            env,
            observe,
            cursor: Mutex::default(),
        }
    }

    /// Subscribes and reports observations until the connection is lost.
    pub(super) async fn run(&self, mut connection: ClientConnection) -> Result<(), ClientError> {
        let observe = self.observe;
        let mut requests = Vec::new();
        for channel in CHANNELS {
            let mut content = json!({"channel": channel.as_str()});
            if channel == Channel::Events {
                content["content"] = self.content.into();
                if let Some(cursor) = &*self.cursor.lock() {
                    content["after"] = cursor.as_str().into();
                }
            }
            let id = new_id(self.env);
            let request = Envelope::new(Kind::Subscribe, content).with("id", id.as_str());
            connection.sender().send(request).await?;
            requests.push(id);
        }
        loop {
            let envelope = connection.recv().await?;
            let content = envelope.content();
            let channel = envelope.content_str("channel").and_then(Channel::from_name);
            match envelope.kind() {
                Kind::Status => observe(&Observation::Status(content.clone())),
                Kind::Event | Kind::Subscribe if channel == Some(Channel::Events) => {
                    if let Some(cursor) = envelope.content_str("cursor") {
                        *self.cursor.lock() = Some(cursor.to_owned());
                    }
                    if envelope.kind() == Kind::Event {
                        observe(&Observation::Event(content.clone()));
                    }
                }
                Kind::Error
                    if envelope
                        .parent_id()
                        .is_some_and(|id| requests.iter().any(|request| request == id)) =>
                {
                    return Err(ClientError::from_error(&envelope));
                }
                _ => {}
            }
        }
    }
}

impl Observation {
    /// Returns the observation as JSON, for programs.
    pub fn json(&self) -> Value {
        match self {
            Self::Connected(client) => json!({"happened": "connected", "clientId": client}),
            Self::Lost(error, wait) => error.lost_json(*wait),
            Self::Status(content) => {
                let mut status = content.clone();
                status["happened"] = "status".into();
                status
            }
            Self::Event(content) => {
                let mut event = content.clone();
                if let Some(fields) = event.as_object_mut() {
                    fields.remove("event");
                    fields.remove("channel");
                }
                event
            }
        }
    }
}

impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(client) => write!(f, "{:<10} as {client}", "connected"),
            Self::Lost(error, wait) => {
                write!(
                    f,
                    "{:<10} {error}; again in {:.1} s",
                    "lost",
                    wait.as_secs_f64()
                )
            }
            Self::Status(content) => {
                let (agent, status) = (&content["agent"], &content["status"]);
                let change = Field(status);
                write!(f, "{:<10} {} {change}", "status", Field(agent))?;
                match content["previous"].as_str() {
                    Some(previous) => write!(f, " (was {previous})"),
                    None => Ok(()),
                }
            }
            Self::Event(event) => write_event(f, event),
        }
    }
}

fn write_event(f: &mut fmt::Formatter<'_>, event: &Value) -> fmt::Result {
    let field = |name: &str| Field(&event[name]);
    let happened = event["happened"].as_str().unwrap_or("event");
    if let Some(missed) = event["missed"].as_u64() {
        writeln!(
            f,
            "{:<10} {}: this client read too slowly",
            "missed",
            base::text::counted(missed, "event", "events")
        )?;
    }
    write!(f, "{happened:<10} ")?;
    match happened {
        "proposal" => write!(f, "{} by {}", field("proposalId"), field("from"))?,
        "vote" => {
            let (id, member, vote) = (field("proposalId"), field("from"), field("vote"));
            write!(f, "{id} {member} {vote}")?;
            if let Some(confidence) = event["confidence"].as_f64() {
                write!(f, " (confidence {confidence})")?;
            }
        }
        "late-vote" => {
            let (id, member, vote) = (field("proposalId"), field("from"), field("vote"));
            write!(f, "{id} {member} {vote}, after the decision")?;
        }
        "decision" => {
            write!(f, "{} {}", field("proposalId"), field("result"))?;
            if event["consensus"] == false {
                f.write_str(", without consensus")?;
            }
            let missing = event["missing"].as_array().into_iter().flatten();
            let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
            if !missing.is_empty() {
                write!(f, ", missing {}", missing.join(", "))?;
            }
        }
        _ => {
            write!(f, "{} -> {}", field("from"), field("to"))?;
            if happened == "refused" {
                write!(f, " {} {} {}", field("type"), field("code"), field("error"))?;
            } else if event["error"].is_string() {
                write!(f, " {}", field("error"))?;
            }
            if event["sessionId"].is_string() {
                write!(f, " in {}", field("sessionId"))?;
            }
        }
    }
    match event["text"].as_str() {
        Some(text) => write!(f, ": {text}"),
        None => Ok(()),
    }
}

/// Formats a field of an event. A missing field is `-`.
struct Field<'a>(&'a Value);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => f.write_str(text),
            Value::Null => f.write_str("-"),
            other => write!(f, "{other}"),
        }
    }
}
