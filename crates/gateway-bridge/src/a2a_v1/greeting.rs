//! From an open connection to one that is ready (000 §5): the credential first, then who we are.

use std::sync::Arc;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::dial::{Dialled, broken, failed};
use crate::ledger::Ledger;
use crate::settings::{Settings, without_token};
use collective::{CloseCode, Envelope, ErrorCode, Kind, PROTOCOL_VERSION, is_compatible};
use common::environment::Environment;
use common::log::Log;
use egress::websocket::{Frame, Receiver};
use peer::excerpt;

use super::Ungreeted;
use super::errors;
use super::line::{A2A_V1, Line};

/// How long a gateway that was shown a credential has to say what it thinks of it. One that says nothing needs none, and
/// shows that with its acknowledgement.
const JUDGES: Duration = Duration::from_secs(1);

/// The words for a credential that holds.
const HOLDS: [&str; 3] = ["ok", "success", "authenticated"];

/// What we understand. Which agents we serve is nobody's business: none.
const UNDERSTOOD: [Kind; 12] = [
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

/// Greets the gateway.
pub(super) async fn greet(
    dialled: Dialled,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    ledger: Arc<Ledger>,
) -> Result<(Line, Receiver), Ungreeted> {
    let Dialled {
        socket,
        first,
        until,
        ..
    } = dialled;
    let mut heard = Heard {
        receiver: socket.receiver,
        first,
        settings: Arc::clone(&settings),
    };
    let line = Line::new(&A2A_V1, socket.sender, settings, env, log, ledger);
    let greeted = timeout_at(until, shake(&line, &mut heard)).await;
    let greeted = greeted.unwrap_or_else(|_| Err(unacknowledged(&line.settings).into()));
    if let Err(error) = greeted {
        let code = match &error {
            Ungreeted::OpenClaw => CloseCode::Normal,
            Ungreeted::Failed(_) => CloseCode::Policy,
        };
        line.refuse(code, "").await;
        return Err(error);
    }
    Ok((line, heard.receiver))
}

async fn shake(line: &Line, heard: &mut Heard) -> Result<(), Ungreeted> {
    if let Some(token) = &line.settings.token {
        let auth = json!({"token": token.expose_secret()});
        line.tell(line.envelope(Kind::Auth, auth)).await?;
        let judged = timeout_at(Instant::now() + JUDGES, heard.judgement()).await;
        judged.unwrap_or(Ok(()))?;
    }
    let advertise = json!({
        "action": "advertise",
        "capabilities": {
            "supportedMessageTypes": UNDERSTOOD.map(Kind::as_str),
            "version": PROTOCOL_VERSION,
        },
    });
    line.tell(line.envelope(Kind::Handshake, advertise)).await?;
    let acknowledged = heard.acknowledgement().await?;
    version(&acknowledged, &line.settings)?;
    let names = acknowledged
        .content()
        .get("availableAgents")
        .and_then(Value::as_array);
    line.roll
        .begin(names.into_iter().flatten().filter_map(Value::as_str));
    Ok(())
}

/// What a gateway says while it is greeted.
struct Heard {
    receiver: Receiver,
    first: Option<String>,
    settings: Arc<Settings>,
}

impl Heard {
    /// What the gateway thinks of the credential.
    async fn judgement(&mut self) -> Result<(), Ungreeted> {
        loop {
            let envelope = self.next().await?;
            if envelope.kind() == Kind::AuthResponse {
                return judged(&envelope, &self.settings);
            }
        }
    }

    async fn acknowledgement(&mut self) -> Result<Envelope, Ungreeted> {
        loop {
            let envelope = self.next().await?;
            match envelope.kind() {
                Kind::AuthResponse => judged(&envelope, &self.settings)?,
                Kind::Handshake if envelope.said("action") == Some("acknowledge") => {
                    return Ok(envelope);
                }
                _ => {}
            }
        }
    }

    /// The next message. An error ends the greeting.
    async fn next(&mut self) -> Result<Envelope, Ungreeted> {
        loop {
            let text = match self.first.take() {
                Some(text) => text,
                None => match self.receiver.next().await {
                    Frame::Text(text) => text,
                    Frame::Binary(_) | Frame::Ping | Frame::Pong => continue,
                    Frame::Closed { code, .. } => return Err(closed(code, &self.settings).into()),
                    Frame::Broken(error) => return Err(broken(&error, &self.settings).into()),
                },
            };
            let text = without_token(&text, &self.settings);
            let Ok(envelope) = Envelope::read(&text) else {
                continue;
            };
            match envelope.kind() {
                Kind::Event if is_challenge(&envelope) => return Err(Ungreeted::OpenClaw),
                Kind::Error => {
                    let error = errors::read(&envelope);
                    return Err(error.of_greeting(&self.settings).into());
                }
                Kind::Disconnect => return Err(closed(None, &self.settings).into()),
                _ => return Ok(envelope),
            }
        }
    }
}

/// The first word of the OpenClaw gateway, come late.
fn is_challenge(envelope: &Envelope) -> bool {
    envelope.field("event").and_then(Value::as_str) == Some("connect.challenge")
}

fn judged(envelope: &Envelope, settings: &Settings) -> Result<(), Ungreeted> {
    let status = envelope.said("status").unwrap_or_default();
    if HOLDS.iter().any(|word| word.eq_ignore_ascii_case(status)) {
        return Ok(());
    }
    let error = errors::of_content(envelope).unwrap_or(ErrorCode::AuthFailed);
    let what = match error {
        ErrorCode::TokenExpired => "has expired; put a fresh one into `gateway.token`",
        _ => "is not taken; see `gateway.token`",
    };
    let message = format!(
        "the credential for the gateway at `{}` {what}",
        settings.shown()
    );
    Err(failed(error, message).into())
}

fn version(acknowledged: &Envelope, settings: &Settings) -> Result<(), Ungreeted> {
    let said = acknowledged.said("protocolVersion").unwrap_or_default();
    if is_compatible(said) {
        return Ok(());
    }
    let said = excerpt(if said.is_empty() { "no version" } else { said });
    let message = format!(
        "the gateway at `{}` speaks {said} of a2a-v1, and only versions 1.x are spoken here",
        settings.shown()
    );
    Err(failed(ErrorCode::ProtocolError, message).into())
}

fn closed(code: Option<u16>, settings: &Settings) -> peer::PeerError {
    let shown = settings.shown();
    let why = code.and_then(CloseCode::from_number);
    match why {
        Some(CloseCode::Policy | CloseCode::Unauthorized) if settings.token.is_some() => failed(
            ErrorCode::AuthFailed,
            format!(
                "the gateway at `{shown}` ended the connection while it was greeted; see `gateway.token`"
            ),
        ),
        Some(CloseCode::Policy | CloseCode::Unauthorized) => failed(
            ErrorCode::AuthRequired,
            format!(
                "the gateway at `{shown}` ended the connection while it was greeted, as one does that wants a credential; set `gateway.token`"
            ),
        ),
        _ => failed(
            ErrorCode::ConnectionRefused,
            format!("the gateway at `{shown}` ended the connection while it was greeted"),
        ),
    }
}

fn unacknowledged(settings: &Settings) -> peer::PeerError {
    failed(
        ErrorCode::ConnectionTimeout,
        format!(
            "`{}` took the connection, but has not acknowledged the handshake of a2a-v1 within {} ms: it speaks something else, or is not well",
            settings.shown(),
            settings.timeout.as_millis()
        ),
    )
}
