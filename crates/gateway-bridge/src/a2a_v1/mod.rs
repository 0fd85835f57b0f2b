//! Gateways that speak `a2a-v1` (000): envelopes in JSON over a WebSocket, agents behind a hub, a triad that votes there.
//!
//! `handshake.rs` authenticates and shakes hands; `connection.rs` is the connection, `reader.rs` reads it and `replies.rs` finds out
//! what an answer answers; `message.rs` and `proposal.rs` say what the tool wants said, `agents.rs` who is there. What was sent
//! is kept in `tasks/`, which outlives the connection.

mod connection;
mod decision;
mod discovery;
mod errors;
mod handshake;
mod message;
mod proposal;
mod reader;
mod registry;
mod replies;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use a2a::{Reply, SendRequest, Task};
use collective::{ErrorCode, Kind};
use common::environment::Environment;
use common::log::Log;
use egress::websocket::Receiver;
use peer::{BoxFuture, Delivered, EventStream, Member, PeerError, PeerErrorKind};

use super::dial::DialedSocket;
use super::pending_tasks::{AwaitGuard, PendingTask, PendingTasks, TaskKind, TaskOutcome};
use super::settings::Settings;
use super::{CallContext, GatewayLink, ListPurpose, TRIAD};

pub(super) use connection::{A2aV1Connection, DialectCodec};

/// How long a call that does not wait for the reply waits for an error.
const REFUSAL_WINDOW: Duration = Duration::from_millis(250);

/// The timeout of closing the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the handshake failed.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// It turned out to be the OpenClaw gateway, which was slow to say so.
    OpenClaw,
    /// Anything else.
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
                    settings.shown()
                ),
            ),
        }
    }
}

/// Performs the handshake and takes the connection over.
///
/// # Errors
/// Why the handshake failed.
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

/// A gateway after the handshake.
pub(super) struct A2aV1(Arc<A2aV1Connection>);

impl A2aV1 {
    async fn begin(
        &self,
        about: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<AwaitGuard, PeerError> {
        if about.agent == TRIAD {
            proposal::propose(&self.0, about, outgoing).await
        } else {
            message::send(&self.0, about, outgoing).await
        }
    }

    fn entry(&self, about: &CallContext, task_id: &str) -> Result<Arc<PendingTask>, PeerError> {
        self.0.tasks.get(&about.agent, task_id)
    }

    async fn sent(&self, about: &CallContext, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        let entry = self.begin(about, outgoing).await?;
        let patience = if outgoing.blocking {
            about.patience(&self.0.settings)
        } else {
            REFUSAL_WINDOW
        };
        match entry.outcome(Instant::now() + patience).await {
            // A proposal that may have been decided, and whose decision may still come, is a task.
            Some(TaskOutcome::Failed(error))
                if entry.what == TaskKind::Message
                    || error.delivered == Delivered::No
                    || error.kind == PeerErrorKind::Gateway(ErrorCode::ProtocolError) =>
            {
                Err(error)
            }
            Some(TaskOutcome::Answered(message))
                if outgoing.blocking && entry.what == TaskKind::Message =>
            {
                Ok(Reply::Message(message))
            }
            // The subscriber gets the steps of the meantime.
            _ if outgoing.followed && !outgoing.blocking => entry.delivered_task().map(Reply::Task),
            _ => entry.task().map(Reply::Task),
        }
    }

    async fn listened(
        &self,
        about: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let entry = self.begin(about, outgoing).await?;
        // Listening begins before the wait, so that no vote and no cut in the meantime is missed.
        let listening = entry.subscribe();
        match entry.outcome(Instant::now() + REFUSAL_WINDOW).await {
            Some(TaskOutcome::Failed(error)) => Err(error),
            _ => Ok(listening),
        }
    }
}

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

    fn members(&self, wait: ListPurpose) -> BoxFuture<'_, Result<Vec<Member>, PeerError>> {
        Box::pin(discovery::list(&self.0, wait))
    }

    fn send<'a>(
        &'a self,
        about: &'a CallContext,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(self.sent(about, outgoing))
    }

    fn stream<'a>(
        &'a self,
        about: &'a CallContext,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.listened(about, outgoing))
    }

    fn get_task<'a>(
        &'a self,
        about: &'a CallContext,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move { self.entry(about, task_id)?.task() })
    }

    fn cancel<'a>(
        &'a self,
        about: &'a CallContext,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move { self.0.tasks.cancel(&about.agent, task_id) })
    }

    fn resubscribe<'a>(
        &'a self,
        about: &'a CallContext,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move { Ok(self.entry(about, task_id)?.subscribe()) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let leave = serde_json::json!({"reason": "shutdown"});
            let leave = self.0.envelope(Kind::Disconnect, leave);
            // Best effort: a gateway that does not read gets no `disconnect`.
            drop(timeout(CLOSE_TIMEOUT, self.0.disconnect(leave)).await);
            self.0.mark_closed("the plugin was shut down", false);
        })
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
