//! Gateways that speak `a2a-v1`: JSON envelopes over a WebSocket, agents behind a gateway, and a triad that votes.
//!
//! `handshake.rs` authenticates and negotiates. `connection.rs` is the connection, `reader.rs` reads it and lists agents, and
//! `replies.rs` matches replies with requests. `message.rs` sends messages and proposals. `registry.rs` keeps the agents.
//! `pending_tasks/` keeps sent messages and outlives the connection.

mod connection;
mod errors;
mod handshake;
mod message;
mod reader;
mod registry;
mod replies;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout};

use a2a::{Reply, SendRequest, Task};
use base::environment::Environment;
use base::log::Log;
use collective::{ErrorCode, Kind};
use egress::websocket::Receiver;
use peer::{Delivered, EventStream, Member, PeerError, PeerErrorKind};

use super::dial::DialedSocket;
use super::pending_tasks::{AwaitGuard, PendingTask, PendingTasks, TaskKind, TaskOutcome};
use super::settings::Settings;
use super::{CallContext, GatewayLink, ListPurpose, TRIAD};

pub(super) use connection::{A2aV1Connection, DialectCodec, new_id, unix_millis};
pub(super) use handshake::{HandshakeIo, Introduction, available_agents, shake_hands};

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

    async fn send_and_wait(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Reply, PeerError> {
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

    async fn send_and_stream(
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
        self.send_and_wait(call, outgoing).await
    }

    async fn stream(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        self.send_and_stream(call, outgoing).await
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

#[cfg(test)]
mod tests;
