//! A connection to a gateway: who is there is said, and envelopes go back and forth.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{ClientError, ClientErrorKind, Endpoint};
use collective::{
    Envelope, ErrorCode, Kind, LARGEST_FRAME, PROTOCOL_VERSION, SUBPROTOCOL, is_compatible,
};
use common::environment::Environment;
use egress::{
    Access, Net,
    websocket::{self, Dial, Frame, Receiver, Sender},
};

/// What the gateway said when it took us (000 §5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// What the gateway calls this connection.
    pub client_id: String,
    /// The agents it knows, by name.
    pub agents: Vec<String>,
    /// The version it speaks.
    pub protocol_version: String,
    /// The subprotocol it chose.
    pub subprotocol: Option<String>,
    /// It asked for a credential and took ours.
    pub authenticated: bool,
}

/// An open connection.
pub(super) struct ClientConnection {
    speaker: MessageSender,
    receiver: Receiver,
    door: Endpoint,
}

/// The half that speaks. Clones speak over the same connection.
#[derive(Clone)]
pub(super) struct MessageSender {
    sender: Sender,
    env: Arc<dyn Environment>,
}

impl MessageSender {
    /// Says it, with an id and the time where it has none.
    pub(super) async fn say(&self, envelope: Envelope) -> Result<(), ClientError> {
        let since_1970 = self.env.system_time().duration_since(UNIX_EPOCH);
        let now = u64::try_from(since_1970.unwrap_or_default().as_millis()).unwrap_or_default();
        let envelope = match envelope.id() {
            Some(_) => envelope,
            None => envelope.with("id", new_id(&*self.env)),
        };
        let text = envelope.with("timestamp", now).to_text();
        let sent = self.sender.text(text).await;
        sent.map_err(|error| ClientError::new(ClientErrorKind::Unreachable, error.to_string()))
    }

    /// Takes leave (000 §5.5) and closes, within a second.
    pub(super) async fn leave(&self) {
        let goodbye = Envelope::new(Kind::Disconnect, json!({"reason": "manual"}));
        let leave = async {
            let _ = self.say(goodbye).await;
            let _ = self.sender.close(1000, "").await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), leave).await;
    }
}

/// A new id of a message (000 §4.4).
pub(super) fn new_id(env: &dyn Environment) -> String {
    format!("msg-{}", env.uuid())
}

impl ClientConnection {
    /// Connects, proves who we are where there is a credential, and says which agents are served here.
    pub(super) async fn open(
        net: &dyn Net,
        door: &Endpoint,
        serves: &[&str],
        env: &Arc<dyn Environment>,
    ) -> Result<(Self, Welcome), ClientError> {
        let until = Instant::now() + door.timeout;
        let opened = timeout_at(until, Self::enter(net, door, serves, env)).await;
        opened.unwrap_or_else(|_| Err(ClientError::late(door, "greeted us")))
    }

    async fn enter(
        net: &dyn Net,
        door: &Endpoint,
        serves: &[&str],
        env: &Arc<dyn Environment>,
    ) -> Result<(Self, Welcome), ClientError> {
        let remote = door.allow_remote && door.url.scheme() == "wss";
        let dial = Dial {
            url: door.url.clone(),
            protocols: vec![SUBPROTOCOL.to_owned()],
            headers: HeaderMap::new(),
            access: match remote {
                true => Access::Private,
                false => Access::Loopback,
            },
            trust: door.trust.clone(),
            frame_bytes: LARGEST_FRAME,
        };
        let opened = websocket::connect(net, dial).await;
        let opened = opened.map_err(|error| ClientError::of_upgrade(error, door))?;
        let mut line = Self {
            speaker: MessageSender {
                sender: opened.sender,
                env: Arc::clone(env),
            },
            receiver: opened.receiver,
            door: door.clone(),
        };
        let authenticated = door.token.is_some();
        if let Some(token) = &door.token {
            let content = json!({"token": token.expose_secret()});
            line.speaker.say(Envelope::new(Kind::Auth, content)).await?;
            line.await_auth().await?;
        }
        let capabilities = json!({
            "supportedMessageTypes": ["message", "proposal", "vote", "decision", "status", "event", "error"],
            "supportedAgents": serves,
            "version": PROTOCOL_VERSION,
        });
        let content = json!({"action": "advertise", "capabilities": capabilities});
        line.speaker
            .say(Envelope::new(Kind::Handshake, content))
            .await?;
        let taken = line.await_acknowledge().await?;
        let names = taken.content()["availableAgents"].as_array();
        let names = names.into_iter().flatten().filter_map(Value::as_str);
        let welcome = Welcome {
            client_id: taken.said("clientId").unwrap_or_default().to_owned(),
            agents: names.map(str::to_owned).collect(),
            protocol_version: taken.said("protocolVersion").unwrap_or_default().to_owned(),
            subprotocol: opened.protocol,
            authenticated,
        };
        let version = welcome.protocol_version.as_str();
        if !is_compatible(version) {
            let code = ErrorCode::ProtocolError;
            let message = format!(
                "cannot speak with the gateway at `{}`: {code}: it names version `{version}` of a2a-v1, and this client speaks {PROTOCOL_VERSION}",
                door.shown()
            );
            return Err(ClientError::new(ClientErrorKind::Refused(code), message));
        }
        Ok((line, welcome))
    }

    /// The half that speaks.
    pub(super) fn speaker(&self) -> &MessageSender {
        &self.speaker
    }

    async fn await_auth(&mut self) -> Result<(), ClientError> {
        loop {
            let envelope = self.hear().await?;
            match envelope.kind() {
                Kind::AuthResponse => {
                    let status = envelope.said("status").unwrap_or_default();
                    if matches!(status, "ok" | "success" | "authenticated") {
                        return Ok(());
                    }
                    return Err(ClientError::of_error(&envelope));
                }
                Kind::Error => return Err(ClientError::of_error(&envelope)),
                _ => {}
            }
        }
    }

    async fn await_acknowledge(&mut self) -> Result<Envelope, ClientError> {
        loop {
            let envelope = self.hear().await?;
            match envelope.kind() {
                Kind::Handshake if envelope.said("action") == Some("acknowledge") => {
                    return Ok(envelope);
                }
                Kind::Error => return Err(ClientError::of_error(&envelope)),
                _ => {}
            }
        }
    }

    /// The next envelope. Whether we are there is answered on the way, and what is no envelope of `a2a-v1` is passed over.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn hear(&mut self) -> Result<Envelope, ClientError> {
        loop {
            let text = match self.receiver.next().await {
                Frame::Text(text) => text,
                Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
                Frame::Closed { code, reason } => {
                    return Err(ClientError::of_close(code, &reason, &self.door));
                }
                Frame::Broken(error) => return Err(ClientError::of_net(&error, &self.door)),
            };
            let envelope = match Envelope::read(&text) {
                Ok(envelope) => envelope,
                Err(_) if is_welcome(&text) => {
                    return Err(self.stranger("heretek-js", "is the archived JavaScript gateway"));
                }
                Err(_) => continue,
            };
            if envelope.field("event") == Some(&json!("connect.challenge")) {
                return Err(self.stranger("openclaw", "is OpenClaw's own gateway"));
            }
            if envelope.kind() == Kind::Ping {
                // Not waited for: what is heard must not depend on how fast the other side reads.
                let pong = Envelope::answer(Kind::Pong, json!({}), &envelope);
                let speaker = self.speaker.clone();
                tokio::spawn(async move { speaker.say(pong).await });
                continue;
            }
            return Ok(envelope);
        }
    }

    fn stranger(&self, dialect: &'static str, is: &str) -> ClientError {
        let place = self.door.shown();
        ClientError::new(
            ClientErrorKind::Stranger(Some(dialect)),
            format!(
                "`{place}` {is}, which does not speak a2a-v1; start one that does with `remote-agent gateway`, on another port"
            ),
        )
    }
}

/// What the JavaScript gateway begins with.
fn is_welcome(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    value["type"] == "welcome" && value["gateway"].is_object()
}
