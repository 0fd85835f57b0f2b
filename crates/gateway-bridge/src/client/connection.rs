//! A client's connection to a gateway, and its errors.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::a2a_v1::{
    HandshakeIo, Introduction, available_agents, new_id, protocol_version, shake_hands,
};
use crate::dial::access;
use crate::signer::{Signer, marks_signatures, without_foreign_mark};
use base::environment::Environment;
use collective::{
    CloseCode, Envelope, ErrorCode, FRAME_LIMITS, Greeting, Kind, MAX_FRAME_BYTES,
    PROTOCOL_VERSION, SUBPROTOCOL,
};
use egress::websocket::{Dial, Frame, Receiver, Sender, WsError};
use egress::{HttpClient, NetError, NetFault, websocket};
use peer::excerpt;

use super::Endpoint;

/// The number of heartbeats without a frame after which the client considers the connection lost.
const MAX_SILENT_HEARTBEATS: u32 = 3;

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
    /// Whether the gateway sets the status of signatures itself.
    marks_signatures: bool,
}

/// The sending half of a connection. Clones share the connection.
#[derive(Clone)]
pub struct MessageSender {
    socket: Sender,
    env: Arc<dyn Environment>,
    signer: Option<Signer>,
}

impl MessageSender {
    /// Sends an envelope with the current time, and with a new id if it has none. Signs it if the client has a key.
    ///
    /// # Errors
    /// The connection was lost, or the message cannot be signed.
    pub async fn send(&self, envelope: Envelope) -> Result<(), ClientError> {
        let envelope = match envelope.id() {
            Some(_) => envelope,
            None => envelope.with("id", new_id(&*self.env)),
        };
        let mut envelope = envelope.with("timestamp", self.env.unix_millis());
        if let Some(signer) = &self.signer {
            envelope = signer.sign(envelope).map_err(|reason| {
                let message = format!("cannot sign the message: {reason}");
                ClientError::new(ClientErrorKind::Refused(ErrorCode::InvalidContent), message)
            })?;
        }
        self.relay(envelope).await
    }

    /// Sends an envelope of another sender unchanged. Its `ttl` counts from its own time.
    ///
    /// # Errors
    /// The connection was lost.
    pub async fn relay(&self, envelope: Envelope) -> Result<(), ClientError> {
        let sent = self.socket.text(envelope.to_text()).await;
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
                signer: endpoint.signer.clone(),
            },
            receiver: opened.receiver,
            endpoint: endpoint.clone(),
            silent_since: Instant::now(),
            pings: 0,
            marks_signatures: false,
        };
        // Without a credential, a gateway knows a client by the agent that it serves.
        let own = endpoint.signer.as_ref().map(Signer::name);
        let own = own.filter(|_| agents.is_empty() && endpoint.token.is_none());
        let agents: Vec<&str> = agents.iter().copied().chain(own).collect();
        let introduction = Introduction {
            token: endpoint.token.as_ref(),
            auth_timeout: None,
            capabilities: json!({
                "supportedMessageTypes": ["message", "proposal", "vote", "decision", "status", "event", "error"],
                "supportedAgents": agents,
                "version": PROTOCOL_VERSION,
            }),
            signer: endpoint.signer.as_ref(),
        };
        let acknowledgement = shake_hands(&mut connection, introduction).await?;
        connection.marks_signatures = marks_signatures(&acknowledgement);
        let client_id = acknowledgement.content_str("clientId");
        let names = available_agents(&acknowledgement);
        let welcome = Welcome {
            client_id: client_id.unwrap_or_default().to_owned(),
            agents: names.map(str::to_owned).collect(),
            protocol_version: protocol_version(&acknowledgement).unwrap_or_default(),
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
            let Ok(frame) = base::json::from_str::<Value>(&text, FRAME_LIMITS) else {
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
            return Ok(without_foreign_mark(envelope, self.marks_signatures));
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

    fn unsupported_version(&self, version: Option<&str>) -> ClientError {
        let code = ErrorCode::ProtocolError;
        let what = match version {
            Some(version) => format!("speaks version `{}` of a2a-v1", excerpt(version)),
            None => "names no version of a2a-v1 (`protocolVersion`)".to_owned(),
        };
        let message = format!(
            "unsupported gateway at `{}`: {code}: it {what}, and this client speaks {PROTOCOL_VERSION}",
            self.endpoint.display_url()
        );
        ClientError::new(ClientErrorKind::Refused(code), message)
    }
}

/// An error of a gateway client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// The kind.
    pub kind: ClientErrorKind,
    /// The failed action, the cause and a hint, as a sentence without a full stop.
    pub message: String,
}

/// The kind of a [`ClientError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientErrorKind {
    /// The client cannot connect, or the connection was lost.
    Unreachable,
    /// The server is not an `a2a-v1` gateway. Contains its dialect, if known.
    WrongServer(Option<&'static str>),
    /// The gateway did not respond in time.
    Timeout,
    /// The gateway responded with this error code.
    Refused(ErrorCode),
}

impl ClientError {
    /// Returns the event of a connection that this error ended, as JSON. The client reconnects after `wait`.
    pub(super) fn lost_json(&self, wait: Duration) -> Value {
        let wait = base::environment::millis(wait);
        json!({"happened": "lost", "message": self.message, "againInMs": wait})
    }

    /// Creates an error, whose message is one line: a quoted text of the gateway or an agent cannot look like another message.
    pub(super) fn new(kind: ClientErrorKind, message: impl Into<String>) -> Self {
        let message = base::text::one_line(&message.into());
        Self { kind, message }
    }

    /// Returns whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ClientErrorKind::Unreachable | ClientErrorKind::Timeout => true,
            ClientErrorKind::WrongServer(_) => false,
            ClientErrorKind::Refused(code) => code == ErrorCode::AgentBusy,
        }
    }

    pub(super) fn timeout(endpoint: &Endpoint, action: &str) -> Self {
        let (place, millis) = (endpoint.display_url(), endpoint.timeout.as_millis());
        Self::new(
            ClientErrorKind::Timeout,
            format!("the gateway at `{place}` did not {action} within {millis} ms"),
        )
    }

    /// Converts an error message of the gateway.
    pub fn from_error(error: &Envelope) -> Self {
        let stated = error.stated_error();
        let label = stated.label().unwrap_or_else(|| "an error".to_owned());
        let text = stated
            .text
            .or(stated.name.filter(|_| stated.code.is_some()));
        let text = text.map_or_else(String::new, |text| format!(": {text}"));
        Self::new(
            ClientErrorKind::Refused(stated.code.unwrap_or(ErrorCode::ProtocolError)),
            format!("the gateway responded with {label}{text}"),
        )
    }

    fn from_net(error: &NetError, endpoint: &Endpoint) -> Self {
        let next = match error.fault() {
            NetFault::AddressRefused if endpoint.url.scheme() == "wss" => {
                "; allow gateways on other machines first"
            }
            NetFault::AddressRefused => {
                "; allow gateways on other machines first, and use a `wss` URL"
            }
            NetFault::Unreachable => {
                "; check the address, or start a gateway with `remote-agent gateway`"
            }
            _ => "",
        };
        let kind = match error.fault() {
            NetFault::AddressRefused | NetFault::Tls => ClientErrorKind::WrongServer(None),
            _ => ClientErrorKind::Unreachable,
        };
        Self::new(kind, format!("{error}{next}"))
    }

    /// Converts a close frame.
    fn from_close(code: Option<u16>, reason: &str, endpoint: &Endpoint) -> Self {
        let place = endpoint.display_url();
        let known = code.and_then(CloseCode::from_number);
        let code = code.map_or_else(|| "no code".to_owned(), |code| code.to_string());
        let reason = match reason {
            "" => String::new(),
            reason => format!(", \"{reason}\""),
        };
        let message = format!("the gateway at `{place}` closed the connection ({code}{reason})");
        match known {
            Some(CloseCode::Policy | CloseCode::Unauthorized) => Self::new(
                ClientErrorKind::Refused(ErrorCode::PermissionDenied),
                format!("{message}: it refused the operation or the credential; check both"),
            ),
            _ => Self::new(ClientErrorKind::Unreachable, message),
        }
    }

    /// Converts the error of a failed upgrade.
    fn from_upgrade(error: WsError, endpoint: &Endpoint) -> Self {
        let place = endpoint.display_url();
        match error {
            WsError::Net(error) => Self::from_net(&error, endpoint),
            WsError::Handshake(error) => Self::new(
                ClientErrorKind::WrongServer(None),
                format!("`{place}` sent an invalid upgrade response: {error}"),
            ),
            WsError::NoUpgrade {
                status,
                content_type,
            } => {
                let page = status.is_success() && content_type.as_deref() == Some("text/html");
                let message = match status {
                    _ if page => format!(
                        "`{place}` is a web page, such as OpenClaw's Control UI, not a gateway; check path and port"
                    ),
                    StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                        format!("`{place}` requires a credential (HTTP {})", status.as_u16())
                    }
                    StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                        let message = format!(
                            "`{place}` accepts no connection at the moment (HTTP {}); try again later",
                            status.as_u16()
                        );
                        return Self::new(ClientErrorKind::Unreachable, message);
                    }
                    status => format!(
                        "`{place}` responds with HTTP {} and no WebSocket; check path and port",
                        status.as_u16()
                    ),
                };
                Self::new(ClientErrorKind::WrongServer(None), message)
            }
        }
    }
}
