//! A client's connection to a gateway.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{ClientError, ClientErrorKind, Endpoint};
use crate::a2a_v1::{
    HandshakeIo, Introduction, available_agents, new_id, shake_hands, unix_millis,
};
use crate::dial::access;
use collective::{
    Envelope, ErrorCode, FRAME_LIMITS, Greeting, Kind, MAX_FRAME_BYTES, PROTOCOL_VERSION,
    SUBPROTOCOL,
};
use common::environment::Environment;
use egress::{
    HttpClient,
    websocket::{self, Dial, Frame, Receiver, Sender},
};

/// The acknowledgement of the gateway (Heretek A2A §5.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The id of this connection.
    pub client_id: String,
    /// The names of the available agents.
    pub agents: Vec<String>,
    /// The protocol version of the gateway.
    pub protocol_version: String,
    /// The WebSocket subprotocol that the gateway selected.
    pub subprotocol: Option<String>,
    /// Whether the client authenticated.
    pub authenticated: bool,
}

/// An open connection.
pub struct ClientConnection {
    sender: MessageSender,
    receiver: Receiver,
    endpoint: Endpoint,
    /// The time of the last received frame, or of the last ping if that is later.
    silent_since: Instant,
    /// The number of pings since the last frame.
    pings: u32,
}

/// The number of heartbeats without a frame after which the client considers the connection lost.
const MAX_SILENT_HEARTBEATS: u32 = 3;

/// The sending half of a connection. Clones share the connection.
#[derive(Clone)]
pub struct MessageSender {
    socket: Sender,
    env: Arc<dyn Environment>,
}

impl MessageSender {
    /// Sends an envelope with the current time, and with a new id if it has none.
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn send(&self, envelope: Envelope) -> Result<(), ClientError> {
        let envelope = match envelope.id() {
            Some(_) => envelope,
            None => envelope.with("id", new_id(&*self.env)),
        };
        let text = envelope
            .with("timestamp", unix_millis(&*self.env))
            .to_text();
        let sent = self.socket.text(text).await;
        sent.map_err(|error| ClientError::new(ClientErrorKind::Unreachable, error.to_string()))
    }

    /// Sends a disconnect (Heretek A2A §5.5) and closes, within a second.
    pub(super) async fn disconnect(&self) {
        let message = Envelope::new(Kind::Disconnect, json!({"reason": "manual"}));
        let disconnect = async {
            let _ = self.send(message).await;
            let _ = self.socket.close(1000, "").await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), disconnect).await;
    }
}

impl ClientConnection {
    /// Connects, authenticates if the endpoint has a credential, and advertises the agents of this client.
    pub(super) async fn open(
        net: &dyn HttpClient,
        endpoint: &Endpoint,
        agents: &[&str],
        env: &Arc<dyn Environment>,
    ) -> Result<(Self, Welcome), ClientError> {
        let deadline = Instant::now() + endpoint.timeout;
        let opened = timeout_at(deadline, Self::handshake(net, endpoint, agents, env)).await;
        opened.unwrap_or_else(|_| Err(ClientError::timeout(endpoint, "complete the handshake")))
    }

    async fn handshake(
        net: &dyn HttpClient,
        endpoint: &Endpoint,
        agents: &[&str],
        env: &Arc<dyn Environment>,
    ) -> Result<(Self, Welcome), ClientError> {
        let dial = Dial {
            url: endpoint.url.clone(),
            protocols: vec![SUBPROTOCOL.to_owned()],
            headers: HeaderMap::new(),
            access: access(&endpoint.url, endpoint.allow_remote),
            trust: endpoint.trust.clone(),
            frame_bytes: MAX_FRAME_BYTES,
        };
        let opened = websocket::connect(net, dial).await;
        let opened = opened.map_err(|error| ClientError::from_upgrade(error, endpoint))?;
        let mut connection = Self {
            sender: MessageSender {
                socket: opened.sender,
                env: Arc::clone(env),
            },
            receiver: opened.receiver,
            endpoint: endpoint.clone(),
            silent_since: Instant::now(),
            pings: 0,
        };
        let introduction = Introduction {
            token: endpoint.token.as_ref(),
            auth_timeout: None,
            capabilities: json!({
                "supportedMessageTypes": ["message", "proposal", "vote", "decision", "status", "event", "error"],
                "supportedAgents": agents,
                "version": PROTOCOL_VERSION,
            }),
        };
        let acknowledgement = shake_hands(&mut connection, introduction).await?;
        let text = |field| {
            let text = acknowledgement.content_str(field);
            text.unwrap_or_default().to_owned()
        };
        let names = available_agents(&acknowledgement);
        let welcome = Welcome {
            client_id: text("clientId"),
            agents: names.map(str::to_owned).collect(),
            protocol_version: text("protocolVersion"),
            subprotocol: opened.protocol,
            authenticated: endpoint.token.is_some(),
        };
        Ok((connection, welcome))
    }

    /// Returns the sending half.
    pub fn sender(&self) -> &MessageSender {
        &self.sender
    }

    /// Receives the next frame. Sends a ping after each heartbeat without a frame.
    ///
    /// # Errors
    /// No frame arrived during three heartbeats. The gateway is unreachable, and its machine did not close the connection.
    async fn next_frame(&mut self) -> Result<Frame, ClientError> {
        loop {
            let due = self.silent_since + self.endpoint.heartbeat;
            let received = timeout_at(due, self.receiver.next()).await;
            self.silent_since = Instant::now();
            if let Ok(frame) = received {
                self.pings = 0;
                return Ok(frame);
            }
            self.pings += 1;
            if self.pings >= MAX_SILENT_HEARTBEATS {
                let silence = self.endpoint.heartbeat * self.pings;
                let message = format!(
                    "the gateway at `{}` has not answered for {:.1} s, not even a ping",
                    self.endpoint.display_url(),
                    silence.as_secs_f64()
                );
                return Err(ClientError::new(ClientErrorKind::Unreachable, message));
            }
            // Spawned, because a blocked write must not delay the deadline.
            let socket = self.sender.socket.clone();
            tokio::spawn(async move { socket.ping().await });
        }
    }

    /// Receives the next envelope. Replies to pings, and skips frames that are not envelopes.
    ///
    /// This method is cancel safe.
    ///
    /// # Errors
    /// The connection was lost, or the server is not an `a2a-v1` gateway.
    pub async fn recv(&mut self) -> Result<Envelope, ClientError> {
        loop {
            let text = match self.next_frame().await? {
                Frame::Text(text) => text,
                Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
                Frame::Closed { code, reason } => {
                    return Err(ClientError::from_close(code, &reason, &self.endpoint));
                }
                Frame::Broken(error) => return Err(ClientError::from_net(&error, &self.endpoint)),
            };
            let Ok(frame) = common::json::from_str::<Value>(&text, FRAME_LIMITS) else {
                continue;
            };
            if let Some(greeting) = Greeting::from_frame(&frame) {
                return Err(self.unexpected_server(greeting));
            }
            let Ok(envelope) = Envelope::from_value(frame) else {
                continue;
            };
            if envelope.kind() == Kind::Ping {
                // Spawned, because receiving must not block while the gateway does not read.
                let pong = Envelope::answer(Kind::Pong, json!({}), &envelope);
                let sender = self.sender.clone();
                tokio::spawn(async move { sender.send(pong).await });
                continue;
            }
            return Ok(envelope);
        }
    }

    fn unexpected_server(&self, greeting: Greeting) -> ClientError {
        let (dialect, description) = match greeting {
            Greeting::OpenClaw => ("openclaw", "is OpenClaw's own gateway"),
            Greeting::HeretekJs => ("heretek-js", "is the archived JavaScript gateway"),
        };
        let place = self.endpoint.display_url();
        ClientError::new(
            ClientErrorKind::WrongServer(Some(dialect)),
            format!(
                "`{place}` {description}, which does not support a2a-v1; start a gateway that does with `remote-agent gateway`, on another port"
            ),
        )
    }
}

impl HandshakeIo for ClientConnection {
    type Error = ClientError;

    async fn send(&mut self, kind: Kind, content: Value) -> Result<(), ClientError> {
        self.sender.send(Envelope::new(kind, content)).await
    }

    async fn next(&mut self) -> Result<Envelope, ClientError> {
        let envelope = self.recv().await?;
        match envelope.kind() {
            Kind::Error => Err(ClientError::from_error(&envelope)),
            _ => Ok(envelope),
        }
    }

    fn refused_credential(&self, response: &Envelope) -> ClientError {
        ClientError::from_error(response)
    }

    fn unsupported_version(&self, version: &str) -> ClientError {
        let code = ErrorCode::ProtocolError;
        let message = format!(
            "unsupported gateway at `{}`: {code}: it speaks version `{version}` of a2a-v1, and this client speaks {PROTOCOL_VERSION}",
            self.endpoint.display_url()
        );
        ClientError::new(ClientErrorKind::Refused(code), message)
    }
}
