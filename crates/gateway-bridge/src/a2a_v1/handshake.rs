//! The handshake on an open connection (Heretek A2A §5): credential first, then capabilities.

use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::dial::{DialedSocket, broken, failed};
use crate::pending_tasks::PendingTasks;
use crate::settings::{Settings, without_token};
use base::environment::Environment;
use base::log::Log;
use collective::{CloseCode, Envelope, ErrorCode, Kind, PROTOCOL_VERSION, is_compatible};
use egress::websocket::{Frame, Receiver};
use peer::excerpt;

use super::HandshakeError;
use super::connection::{A2A_V1, A2aV1Connection};
use super::errors;

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

/// Performs the handshake.
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
    let mut reader = HandshakeReader {
        receiver: socket.receiver,
        first,
        settings: Arc::clone(&settings),
    };
    let connection = A2aV1Connection::new(&A2A_V1, socket.sender, settings, env, log, tasks);
    let result = timeout_at(until, perform_handshake(&connection, &mut reader)).await;
    let result =
        result.unwrap_or_else(|_| Err(acknowledgement_timeout(&connection.settings).into()));
    if let Err(error) = result {
        let code = match &error {
            HandshakeError::OpenClaw => CloseCode::Normal,
            HandshakeError::Peer(_) => CloseCode::Policy,
        };
        connection.close_with(code, "").await;
        return Err(error);
    }
    Ok((connection, reader.receiver))
}

async fn perform_handshake(
    connection: &A2aV1Connection,
    reader: &mut HandshakeReader,
) -> Result<(), HandshakeError> {
    if let Some(token) = &connection.settings.token {
        let auth = json!({"token": token.expose_secret()});
        connection
            .send(connection.envelope(Kind::Auth, auth))
            .await?;
        let check_auth =
            timeout_at(Instant::now() + AUTH_RESPONSE_TIMEOUT, reader.auth_result()).await;
        check_auth.unwrap_or(Ok(()))?;
    }
    let content = json!({
        "action": "advertise",
        "capabilities": {
            "supportedMessageTypes": SUPPORTED_KINDS.map(Kind::as_str),
            "version": PROTOCOL_VERSION,
        },
    });
    connection
        .send(connection.envelope(Kind::Handshake, content))
        .await?;
    let acknowledgement = reader.acknowledgement().await?;
    check_version(&acknowledgement, &connection.settings)?;
    let names = acknowledgement
        .content()
        .get("availableAgents")
        .and_then(Value::as_array);
    connection
        .agents
        .seed(names.into_iter().flatten().filter_map(Value::as_str));
    Ok(())
}

/// Reads what the gateway sends during the handshake.
struct HandshakeReader {
    receiver: Receiver,
    first: Option<String>,
    settings: Arc<Settings>,
}

impl HandshakeReader {
    /// Waits for the response to the credential.
    async fn auth_result(&mut self) -> Result<(), HandshakeError> {
        loop {
            let envelope = self.next().await?;
            if envelope.kind() == Kind::AuthResponse {
                return check_auth(&envelope, &self.settings);
            }
        }
    }

    async fn acknowledgement(&mut self) -> Result<Envelope, HandshakeError> {
        loop {
            let envelope = self.next().await?;
            match envelope.kind() {
                Kind::AuthResponse => check_auth(&envelope, &self.settings)?,
                Kind::Handshake if envelope.content_str("action") == Some("acknowledge") => {
                    return Ok(envelope);
                }
                _ => {}
            }
        }
    }

    /// Returns the next message. An error message ends the handshake.
    async fn next(&mut self) -> Result<Envelope, HandshakeError> {
        loop {
            let text = match self.first.take() {
                Some(text) => text,
                None => match self.receiver.next().await {
                    Frame::Text(text) => text,
                    Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
                    Frame::Closed { code, .. } => {
                        return Err(closed_error(code, &self.settings).into());
                    }
                    Frame::Broken(error) => return Err(broken(&error, &self.settings).into()),
                },
            };
            let text = without_token(&text, &self.settings);
            let Ok(envelope) = Envelope::parse(&text) else {
                continue;
            };
            match envelope.kind() {
                Kind::Event if is_challenge(&envelope) => return Err(HandshakeError::OpenClaw),
                Kind::Error => {
                    let error = errors::read(&envelope);
                    return Err(error.during_handshake(&self.settings).into());
                }
                Kind::Disconnect => return Err(closed_error(None, &self.settings).into()),
                _ => return Ok(envelope),
            }
        }
    }
}

/// Returns whether this is a late challenge of the OpenClaw gateway.
fn is_challenge(envelope: &Envelope) -> bool {
    envelope.field("event").and_then(Value::as_str) == Some("connect.challenge")
}

fn check_auth(envelope: &Envelope, settings: &Settings) -> Result<(), HandshakeError> {
    let status = envelope.content_str("status").unwrap_or_default();
    if ACCEPTED_AUTH_STATUSES
        .iter()
        .any(|accepted| accepted.eq_ignore_ascii_case(status))
    {
        return Ok(());
    }
    let error = errors::code_in_content(envelope).unwrap_or(ErrorCode::AuthFailed);
    let what = match error {
        ErrorCode::TokenExpired => "has expired; put a fresh one into `gateway.token`",
        _ => "was refused; check `gateway.token`",
    };
    let message = format!(
        "the credential for the gateway at `{}` {what}",
        settings.display_url()
    );
    Err(failed(error, message).into())
}

fn check_version(acknowledgement: &Envelope, settings: &Settings) -> Result<(), HandshakeError> {
    let version = acknowledgement
        .content_str("protocolVersion")
        .unwrap_or_default();
    if is_compatible(version) {
        return Ok(());
    }
    let version = excerpt(if version.is_empty() {
        "no version"
    } else {
        version
    });
    let message = format!(
        "the gateway at `{}` speaks version {version} of a2a-v1; only versions 1.x are supported",
        settings.display_url()
    );
    Err(failed(ErrorCode::ProtocolError, message).into())
}

fn closed_error(code: Option<u16>, settings: &Settings) -> peer::PeerError {
    let shown = settings.display_url();
    let close_code = code.and_then(CloseCode::from_number);
    match close_code {
        Some(CloseCode::Policy | CloseCode::Unauthorized) if settings.token.is_some() => failed(
            ErrorCode::AuthFailed,
            format!(
                "the gateway at `{shown}` ended the connection during the handshake; check `gateway.token`"
            ),
        ),
        Some(CloseCode::Policy | CloseCode::Unauthorized) => failed(
            ErrorCode::AuthRequired,
            format!(
                "the gateway at `{shown}` ended the connection during the handshake and may require a credential; set `gateway.token`"
            ),
        ),
        _ => failed(
            ErrorCode::ConnectionRefused,
            format!("the gateway at `{shown}` ended the connection during the handshake"),
        ),
    }
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
