//! Gateways that speak `a2a-v1`: JSON envelopes over a WebSocket, agents behind a gateway, and a triad that votes.
//!
//! `handshake.rs` authenticates and negotiates. `connection.rs` is the connection, `reader.rs` reads it and lists agents, and
//! `replies.rs` matches replies with requests. `message.rs` sends messages and proposals. `registry.rs` keeps the agents.
//! `pending_tasks/` keeps sent messages and outlives the connection. `read_error` reads the error formats of gateways.

mod connection;
mod handshake;
mod message;
mod reader;
mod registry;
mod replies;

use std::sync::Arc;
use std::time::Duration;

use a2a::{Reply, SendRequest, Task};
use async_trait::async_trait;
use base::environment::Environment;
use base::log::Log;
use collective::{Envelope, ErrorCode, Kind};
pub(super) use connection::{A2aV1Connection, DialectCodec, new_id};
use egress::websocket::Receiver;
pub(super) use handshake::{
    HandshakeIo, Introduction, available_agents, protocol_version, shake_hands,
};
use peer::{Delivered, EventStream, Member, PeerError, PeerErrorKind, excerpt};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::dial::DialedSocket;
use super::pending_tasks::{AwaitGuard, PendingTask, PendingTasks, TaskKind, TaskOutcome};
use super::settings::Settings;
use super::{CallContext, GatewayLink, ListPurpose, TRIAD};

/// How long a non-blocking call waits for an error.
const REFUSAL_WINDOW: Duration = Duration::from_millis(250);

/// The timeout of closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason for a failed handshake.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// The peer is an OpenClaw gateway whose challenge came late.
    OpenClaw,
    /// Any other error.
    Peer(PeerError),
}

impl From<PeerError> for HandshakeError {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

impl HandshakeError {
    /// Converts it to the error of the call.
    pub(super) fn into_peer_error(self, settings: &Settings) -> PeerError {
        match self {
            Self::Peer(error) => error,
            Self::OpenClaw => super::dial::failed(
                ErrorCode::ProtocolError,
                format!(
                    "`{}` is the OpenClaw gateway, which does not speak a2a-v1; set `gateway.dialect` to \"openclaw\" or \"auto\"",
                    settings.display_url()
                ),
            ),
        }
    }
}

/// Performs the handshake on a dialed socket.
///
/// # Errors
/// The handshake failed.
pub(super) async fn handshake(
    dialed: DialedSocket,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    tasks: Arc<PendingTasks>,
) -> Result<Arc<dyn GatewayLink>, HandshakeError> {
    let (connection, receiver) = handshake::connect(dialed, settings, env, log, tasks).await?;
    let link = spawn_reader(connection, receiver);
    link.0.subscribe().await;
    Ok(link)
}

/// Spawns the reader of a connection after its handshake.
pub(super) fn spawn_reader(connection: A2aV1Connection, receiver: Receiver) -> Arc<A2aV1> {
    let connection = Arc::new(connection);
    tokio::spawn(reader::run(Arc::clone(&connection), receiver));
    Arc::new(A2aV1(connection))
}

/// A connected gateway.
pub(super) struct A2aV1(Arc<A2aV1Connection>);

impl A2aV1 {
    async fn start(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<AwaitGuard, PeerError> {
        if call.agent == TRIAD {
            message::propose(&self.0, call, outgoing).await
        } else {
            message::send(&self.0, call, outgoing).await
        }
    }

    fn entry(&self, call: &CallContext, task_id: &str) -> Result<Arc<PendingTask>, PeerError> {
        self.0.tasks.get(&call.agent, task_id)
    }
}

#[async_trait]
impl GatewayLink for A2aV1 {
    fn dialect(&self) -> &'static str {
        self.0.codec.dialect
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn last_error(&self) -> Option<String> {
        self.0.close_reason()
    }

    fn is_dismissed(&self) -> bool {
        self.0.is_dismissed()
    }

    fn has_triad(&self) -> bool {
        self.0.codec.has_triad
    }

    async fn members(&self, wait: ListPurpose) -> Result<Vec<Member>, PeerError> {
        reader::list(&self.0, wait).await
    }

    async fn send(&self, call: &CallContext, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        let entry = self.start(call, outgoing).await?;
        let wait = if outgoing.blocking {
            call.wait_limit(&self.0.settings)
        } else {
            REFUSAL_WINDOW
        };
        match entry.outcome(Instant::now() + wait).await {
            // The task continues if a decision may still come for the proposal.
            Some(TaskOutcome::Failed(error))
                if entry.kind == TaskKind::Message
                    || error.delivered == Delivered::No
                    || error.kind == PeerErrorKind::Gateway(ErrorCode::ProtocolError) =>
            {
                Err(error)
            }
            Some(TaskOutcome::Answered(message))
                if outgoing.blocking && entry.kind == TaskKind::Message =>
            {
                Ok(Reply::Message(message))
            }
            // The subscriber receives the steps that happened in the meantime.
            _ if outgoing.followed && !outgoing.blocking => entry.delivered_task().map(Reply::Task),
            _ => entry.task().map(Reply::Task),
        }
    }

    async fn stream(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let entry = self.start(call, outgoing).await?;
        // Subscribe before the wait, so that no vote and no lost connection in between is missed.
        let stream = entry.subscribe();
        match entry.outcome(Instant::now() + REFUSAL_WINDOW).await {
            Some(TaskOutcome::Failed(error)) => Err(error),
            _ => Ok(stream),
        }
    }

    async fn get_task(&self, call: &CallContext, task_id: &str) -> Result<Task, PeerError> {
        self.entry(call, task_id)?.task()
    }

    async fn cancel(&self, call: &CallContext, task_id: &str) -> Result<Task, PeerError> {
        self.0.tasks.cancel(&call.agent, task_id)
    }

    async fn resubscribe(
        &self,
        call: &CallContext,
        task_id: &str,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        Ok(self.entry(call, task_id)?.subscribe())
    }

    async fn close(&self) {
        let message = serde_json::json!({"reason": "shutdown"});
        let message = self.0.envelope(Kind::Disconnect, message);
        // Best effort: a gateway that stopped reading receives no `disconnect`.
        drop(timeout(CLOSE_TIMEOUT, self.0.disconnect(message)).await);
        self.0.mark_closed("the plugin was shut down", false);
    }
}

impl Drop for A2aV1 {
    fn drop(&mut self) {
        self.0
            .mark_closed("the connection is no longer used", false);
    }
}

/// An error message of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct GatewayError {
    pub(crate) code: ErrorCode,
    /// The number and the name that the message states, if any.
    label: Option<String>,
    message: String,
    /// Whether the gateway itself refused the message.
    pub(crate) is_refusal: bool,
    delivered: Delivered,
}

/// Reads an error from `content.error`, `content.code`, or the envelope itself (Heretek Architecture, "Error Message
/// Format", and the format of the JavaScript gateway).
fn read_error(envelope: &Envelope) -> GatewayError {
    let stated = envelope.stated_error();
    let text = stated.text.map(excerpt).unwrap_or_default();
    // A gateway sets the sender of what it forwards. Without a sender, an agent may have sent the error.
    let is_refusal = envelope.from() == Some(collective::GATEWAY);
    let queued = [envelope.field("queued"), envelope.content().get("queued")];
    if queued.contains(&Some(&Value::Bool(true))) {
        return GatewayError {
            code: ErrorCode::AgentOffline,
            label: Some(ErrorCode::AgentOffline.to_string()),
            message: format!("{text} (the gateway queued the message; that is not a delivery)"),
            is_refusal,
            delivered: match is_refusal {
                true => Delivered::No,
                false => Delivered::Unknown,
            },
        };
    }
    let by_gateway = is_refusal || envelope.from().is_none();
    let code = stated.code.unwrap_or(match by_gateway {
        true => ErrorCode::ProtocolError,
        false => ErrorCode::AgentError,
    });
    GatewayError {
        code,
        label: stated.label(),
        message: text,
        is_refusal,
        delivered: match envelope.from() {
            Some(collective::GATEWAY) => delivered(code),
            Some(_) => Delivered::Yes,
            None => delivered_or_unknown(code),
        },
    }
}

/// Returns whether the agent has received the message. A gateway does not forward a message that it refuses.
fn delivered(code: ErrorCode) -> Delivered {
    match code.number() {
        1000..=1999 => Delivered::Unknown,
        3004 => Delivered::Yes,
        _ => Delivered::No,
    }
}

/// Returns whether the agent has received the message, for an error without a sender.
fn delivered_or_unknown(code: ErrorCode) -> Delivered {
    match delivered(code) {
        Delivered::No => Delivered::Unknown,
        other => other,
    }
}

impl GatewayError {
    /// Converts it to the error of the call.
    pub(crate) fn into_error(self) -> PeerError {
        let sender = match self.delivered {
            Delivered::Yes if !self.is_refusal => "agent",
            _ => "gateway",
        };
        let is_known = self.label.as_deref() == Some(&*self.code.to_string());
        let message = match (&self.label, &*self.message) {
            (Some(label), "") if is_known => {
                let meaning = self.code.meaning().trim_end_matches('.');
                format!("the {sender} answers {label}: {meaning}")
            }
            (Some(label), "") => format!("the {sender} answers {label}"),
            (Some(label), text) => format!("the {sender} answers {label}: {text}"),
            (None, "") => format!("the {sender} answers with an error without a text"),
            (None, text) => format!("the {sender} answers with an error: {text}"),
        };
        let mut error = PeerError::new(PeerErrorKind::Gateway(self.code), message);
        error.delivered = self.delivered;
        error
    }

    /// Converts it to the error of a failed handshake.
    fn during_handshake(self, settings: &Settings) -> PeerError {
        let mut error = self.into_error().undelivered();
        error.message = format!(
            "{}, during the handshake with `{}`",
            error.message,
            settings.display_url()
        );
        error
    }
}

#[cfg(test)]
mod tests;
