//! The handshake on an open connection (Heretek A2A §5): credential first, then capabilities. [`shake_hands`] is the handshake of
//! every client, and [`connect`] that of the bridge.

use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::time::{timeout, timeout_at};

use crate::dial::{DialedSocket, broken, explain_close, failed, is_temporary_close};
use crate::pending_tasks::PendingTasks;
use crate::settings::{Settings, without_token};
use crate::signer::{Signer, marks_signatures};
use base::environment::Environment;
use base::log::Log;
use collective::{
    CloseCode, Envelope, ErrorCode, FRAME_LIMITS, Greeting, Kind, PROTOCOL_VERSION, SUBPROTOCOL,
    is_compatible,
};
use egress::websocket::{Frame, Receiver};
use peer::excerpt;

use super::connection::{A2A_V1, A2aV1Connection};
use super::{HandshakeError, read_error};

/// The time to wait for a response to the credential. A gateway without authentication sends its acknowledgement
/// instead.
const AUTH_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The status values of an accepted credential.
const ACCEPTED_AUTH_STATUSES: [&str; 3] = ["ok", "success", "authenticated"];

/// The message types that the bridge supports. It serves no agents.
const SUPPORTED_KINDS: [Kind; 12] = [
    Kind::Message,
    Kind::Status,
    Kind::Error,
    Kind::Event,
    Kind::Discovery,
    Kind::Ping,
    Kind::Pong,
    Kind::AuthResponse,
    Kind::Disconnect,
    Kind::Decision,
    Kind::Vote,
    Kind::Response,
];

/// The two directions of a socket during the handshake, and the errors of the client.
pub(crate) trait HandshakeIo {
    type Error;

    /// Sends an envelope with a fresh id and the current time.
    async fn send(&mut self, kind: Kind, content: Value) -> Result<(), Self::Error>;

    /// Returns the next message. An error message ends the handshake.
    async fn next(&mut self) -> Result<Envelope, Self::Error>;

    /// Returns the error of a credential that `response` refuses.
    fn refused_credential(&self, response: &Envelope) -> Self::Error;

    /// Returns the error of a gateway that speaks another version of `a2a-v1`, or names none.
    fn unsupported_version(&self, version: Option<&str>) -> Self::Error;
}

/// What a client tells the gateway.
pub(crate) struct Introduction<'a> {
    pub(crate) token: Option<&'a SecretString>,
    /// How long to wait for the response to the credential before the client advertises its capabilities; `None` waits on.
    pub(crate) auth_timeout: Option<Duration>,
    pub(crate) capabilities: Value,
    pub(crate) signer: Option<&'a Signer>,
}

/// Performs the handshake, and returns the acknowledgement of the gateway. The caller sets the timeout.
pub(crate) async fn shake_hands<I: HandshakeIo>(
    io: &mut I,
    introduction: Introduction<'_>,
) -> Result<Envelope, I::Error> {
    if let Some(token) = introduction.token {
        let content = json!({"token": token.expose_secret()});
        io.send(Kind::Auth, content).await?;
        let authenticated = await_auth_response(io);
        match introduction.auth_timeout {
            Some(limit) => timeout(limit, authenticated).await.unwrap_or(Ok(()))?,
            None => authenticated.await?,
        }
    }
    let mut content = json!({"action": "advertise", "capabilities": introduction.capabilities});
    if let Some(signer) = introduction.signer {
        content["keys"] = signer.public_keys();
    }
    io.send(Kind::Handshake, content).await?;
    loop {
        let envelope = io.next().await?;
        match envelope.kind() {
            Kind::AuthResponse => check_auth(io, &envelope)?,
            Kind::Handshake if envelope.content_str("action") == Some("acknowledge") => {
                let version = protocol_version(&envelope);
                return match version.as_deref() {
                    Some(version) if is_compatible(version) => Ok(envelope),
                    version => Err(io.unsupported_version(version)),
                };
            }
            _ => {}
        }
    }
}

async fn await_auth_response<I: HandshakeIo>(io: &mut I) -> Result<(), I::Error> {
    loop {
        let envelope = io.next().await?;
        if envelope.kind() == Kind::AuthResponse {
            return check_auth(io, &envelope);
        }
    }
}

fn check_auth<I: HandshakeIo>(io: &I, response: &Envelope) -> Result<(), I::Error> {
    let status = response.content_str("status").unwrap_or_default();
    let is_accepted = |accepted: &&str| accepted.eq_ignore_ascii_case(status);
    match ACCEPTED_AUTH_STATUSES.iter().any(is_accepted) {
        true => Ok(()),
        false => Err(io.refused_credential(response)),
    }
}

/// Returns the version that an acknowledgement names, as text. A number counts by its value.
pub(crate) fn protocol_version(acknowledgement: &Envelope) -> Option<String> {
    match &acknowledgement.content()["protocolVersion"] {
        Value::Null => None,
        Value::String(version) => {
            Some(version.trim().to_owned()).filter(|version| !version.is_empty())
        }
        odd => Some(odd.to_string()),
    }
}

/// Returns the agents that an acknowledgement names.
pub(crate) fn available_agents(acknowledgement: &Envelope) -> impl Iterator<Item = &str> {
    let names = acknowledgement.content()["availableAgents"].as_array();
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Performs the handshake of the bridge.
pub(super) async fn connect(
    dialed: DialedSocket,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    tasks: Arc<PendingTasks>,
) -> Result<(A2aV1Connection, Receiver), HandshakeError> {
    let DialedSocket {
        socket,
        first,
        until,
        ..
    } = dialed;
    let mut io = BridgeHandshake {
        connection: A2aV1Connection::new(&A2A_V1, socket.sender, settings, env, log, tasks),
        receiver: socket.receiver,
        first,
    };
    let settings = Arc::clone(&io.connection.settings);
    let introduction = Introduction {
        token: settings.token.as_ref(),
        auth_timeout: Some(AUTH_RESPONSE_TIMEOUT),
        capabilities: json!({
            "supportedMessageTypes": SUPPORTED_KINDS.map(Kind::as_str),
            "version": PROTOCOL_VERSION,
        }),
        signer: settings.signer.as_ref(),
    };
    let acknowledged = timeout_at(until, shake_hands(&mut io, introduction)).await;
    match acknowledged.unwrap_or_else(|_| Err(acknowledgement_timeout(&settings).into())) {
        Ok(acknowledgement) => {
            let names = available_agents(&acknowledgement);
            io.connection.agents.seed(names);
            io.connection.marks_signatures = marks_signatures(&acknowledgement);
            Ok((io.connection, io.receiver))
        }
        Err(error) => {
            let code = match &error {
                HandshakeError::OpenClaw => CloseCode::Normal,
                HandshakeError::Peer(_) => CloseCode::Policy,
            };
            io.connection.close_with(code, "").await;
            Err(error)
        }
    }
}

/// The connection of the bridge during the handshake.
struct BridgeHandshake {
    connection: A2aV1Connection,
    receiver: Receiver,
    /// A message that the gateway sent before the handshake.
    first: Option<String>,
}

impl HandshakeIo for BridgeHandshake {
    type Error = HandshakeError;

    async fn send(&mut self, kind: Kind, content: Value) -> Result<(), HandshakeError> {
        let envelope = self.connection.envelope(kind, content);
        Ok(self.connection.send(envelope).await?)
    }

    async fn next(&mut self) -> Result<Envelope, HandshakeError> {
        let settings = &self.connection.settings;
        loop {
            let text = match self.first.take() {
                Some(text) => text,
                None => match self.receiver.next().await {
                    Frame::Text(text) => text,
                    Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
                    Frame::Closed { code, reason } => {
                        let reason = without_token(&reason, settings);
                        let why = explain_close(code, &reason, SUBPROTOCOL);
                        return Err(closed_error(code, &why, settings).into());
                    }
                    Frame::Broken(error) => return Err(broken(&error, settings).into()),
                },
            };
            let text = without_token(&text, settings);
            let Ok(frame) = base::json::from_str::<Value>(&text, FRAME_LIMITS) else {
                continue;
            };
            // The greeting of the OpenClaw gateway may come late.
            if Greeting::from_frame(&frame) == Some(Greeting::OpenClaw) {
                return Err(HandshakeError::OpenClaw);
            }
            let Ok(envelope) = Envelope::from_value(frame) else {
                continue;
            };
            match envelope.kind() {
                Kind::Error => {
                    let error = read_error(&envelope);
                    return Err(error.during_handshake(settings).into());
                }
                Kind::Disconnect => {
                    let reason = envelope.content_str("reason").unwrap_or("no reason");
                    let why = format!("it disconnected ({})", excerpt(reason));
                    return Err(closed_error(None, &why, settings).into());
                }
                _ => return Ok(envelope),
            }
        }
    }

    fn refused_credential(&self, response: &Envelope) -> HandshakeError {
        let error = response.error_code().unwrap_or(ErrorCode::AuthFailed);
        let what = match error {
            ErrorCode::TokenExpired => "has expired",
            _ => "was refused",
        };
        let message = format!(
            "the credential for the gateway at `{}` {what}",
            self.connection.settings.display_url()
        );
        failed(error, message).into()
    }

    fn unsupported_version(&self, version: Option<&str>) -> HandshakeError {
        let shown = self.connection.settings.display_url();
        let message = match version.map(excerpt) {
            Some(version) => format!(
                "the gateway at `{shown}` speaks version {version} of a2a-v1; only versions 1.x are supported"
            ),
            None => format!(
                "the gateway at `{shown}` acknowledges the handshake without its version (`protocolVersion`); only versions 1.x of a2a-v1 are supported"
            ),
        };
        failed(ErrorCode::ProtocolError, message).into()
    }
}

/// Returns the error of a gateway that ended the connection during the handshake; `why` says how.
fn closed_error(code: Option<u16>, why: &str, settings: &Settings) -> peer::PeerError {
    let close_code = code.and_then(CloseCode::from_number);
    let (error, next) = match close_code {
        Some(CloseCode::Policy | CloseCode::Unauthorized) if settings.token.is_some() => {
            (ErrorCode::AuthFailed, "")
        }
        Some(CloseCode::Policy | CloseCode::Unauthorized) => {
            (ErrorCode::AuthRequired, "; it may require a credential")
        }
        _ if is_temporary_close(code) => (ErrorCode::ConnectionRefused, "; try again later"),
        _ => (ErrorCode::ConnectionRefused, ""),
    };
    let shown = settings.display_url();
    failed(
        error,
        format!("the gateway at `{shown}` ended the connection during the handshake: {why}{next}"),
    )
}

fn acknowledgement_timeout(settings: &Settings) -> peer::PeerError {
    failed(
        ErrorCode::ConnectionTimeout,
        format!(
            "`{}` accepted the connection but did not acknowledge the a2a-v1 handshake within {} ms; check that it speaks a2a-v1 and responds",
            settings.display_url(),
            settings.timeout.as_millis()
        ),
    )
}
