//! Gateways that speak `a2a-v1` (000): envelopes in JSON over a WebSocket, agents behind a hub, a triad that votes there.
//!
//! `greeting.rs` authenticates and shakes hands; `line.rs` is the connection, `reader.rs` hears it and `replies.rs` finds out
//! what an answer answers; `message.rs` and `proposal.rs` say what the tool wants said, `roll.rs` who is there. What was sent
//! is kept in `ledger/`, which outlives the connection.

mod decision;
mod errors;
mod greeting;
mod line;
mod message;
mod proposal;
mod reader;
mod replies;
mod roll;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use a2a::{Reply, SendRequest, Task};
use collective::{ErrorCode, Kind};
use common::environment::Environment;
use common::log::Log;
use egress::websocket::Receiver;
use peer::{BoxFuture, Delivered, EventStream, Member, PeerError, PeerErrorKind};

use super::dial::Dialled;
use super::ledger::{Awaited, Entry, Ledger, Outcome, What};
use super::settings::Settings;
use super::{About, Link, TRIAD, Wait};

pub(super) use line::{Line, Speech};

/// How long a message whose answer nobody waits for has for being refused.
const REFUSED_AT_ONCE: Duration = Duration::from_millis(250);

/// How long taking leave may take.
const LEAVE: Duration = Duration::from_secs(1);

/// Why a gateway could not be greeted.
#[derive(Debug)]
pub(super) enum Ungreeted {
    /// It turned out to be the OpenClaw gateway, which was slow to say so.
    OpenClaw,
    /// Anything else.
    Failed(PeerError),
}

impl From<PeerError> for Ungreeted {
    fn from(error: PeerError) -> Self {
        Self::Failed(error)
    }
}

impl Ungreeted {
    /// The error for whoever called.
    pub(super) fn told(self, settings: &Settings) -> PeerError {
        match self {
            Self::Failed(error) => error,
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

/// Greets the gateway and takes the connection over.
///
/// # Errors
/// Why it could not be greeted.
pub(super) async fn greet(
    dialled: Dialled,
    settings: Arc<Settings>,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    ledger: Arc<Ledger>,
) -> Result<Arc<dyn Link>, Ungreeted> {
    let (line, receiver) = greeting::greet(dialled, settings, env, log, ledger).await?;
    let link = carry(line, receiver);
    link.0.subscribe().await;
    Ok(link)
}

/// Hears a gateway that was greeted, and carries what is asked of it.
pub(super) fn carry(line: Line, receiver: Receiver) -> Arc<A2aV1> {
    let line = Arc::new(line);
    tokio::spawn(reader::run(Arc::clone(&line), receiver));
    Arc::new(A2aV1(line))
}

/// A greeted gateway.
pub(super) struct A2aV1(Arc<Line>);

impl A2aV1 {
    async fn begin(&self, about: &About, outgoing: &SendRequest) -> Result<Awaited, PeerError> {
        if about.agent == TRIAD {
            proposal::propose(&self.0, about, outgoing).await
        } else {
            message::send(&self.0, about, outgoing).await
        }
    }

    fn entry(&self, about: &About, task_id: &str) -> Result<Arc<Entry>, PeerError> {
        self.0.ledger.known(&about.agent, task_id)
    }

    async fn sent(&self, about: &About, outgoing: &SendRequest) -> Result<Reply, PeerError> {
        let entry = self.begin(about, outgoing).await?;
        let patience = if outgoing.blocking {
            about.patience(&self.0.settings)
        } else {
            REFUSED_AT_ONCE
        };
        match entry.outcome(Instant::now() + patience).await {
            // What may have been decided, and can still be heard, is a task that can be asked about.
            Some(Outcome::Failed(error))
                if entry.what == What::Message
                    || error.delivered == Delivered::No
                    || error.kind == PeerErrorKind::Gateway(ErrorCode::ProtocolError) =>
            {
                Err(error)
            }
            Some(Outcome::Answered(message))
                if outgoing.blocking && entry.what == What::Message =>
            {
                Ok(Reply::Message(message))
            }
            // What came meanwhile is told to who listens.
            _ if outgoing.followed && !outgoing.blocking => entry.task_as_heard().map(Reply::Task),
            _ => entry.task().map(Reply::Task),
        }
    }

    async fn listened(
        &self,
        about: &About,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let entry = self.begin(about, outgoing).await?;
        // Listening begins before the wait, so that no vote and no cut in the meantime is missed.
        let listening = entry.listen();
        match entry.outcome(Instant::now() + REFUSED_AT_ONCE).await {
            Some(Outcome::Failed(error)) => Err(error),
            _ => Ok(listening),
        }
    }
}

impl Link for A2aV1 {
    fn dialect(&self) -> &'static str {
        self.0.speech.dialect
    }

    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    fn last_error(&self) -> Option<String> {
        self.0.why_ended()
    }

    fn is_dismissed(&self) -> bool {
        self.0.is_dismissed()
    }

    fn has_triad(&self) -> bool {
        self.0.speech.has_triad
    }

    fn members(&self, wait: Wait) -> BoxFuture<'_, Result<Vec<Member>, PeerError>> {
        Box::pin(roll::discover(&self.0, wait))
    }

    fn send<'a>(
        &'a self,
        about: &'a About,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(self.sent(about, outgoing))
    }

    fn stream<'a>(
        &'a self,
        about: &'a About,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(self.listened(about, outgoing))
    }

    fn get_task<'a>(
        &'a self,
        about: &'a About,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move { self.entry(about, task_id)?.task() })
    }

    fn cancel<'a>(
        &'a self,
        about: &'a About,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move { self.0.ledger.cancel(&about.agent, task_id) })
    }

    fn resubscribe<'a>(
        &'a self,
        about: &'a About,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move { Ok(self.entry(about, task_id)?.listen()) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let leave = serde_json::json!({"reason": "shutdown"});
            let leave = self.0.envelope(Kind::Disconnect, leave);
            // Best effort: whoever does not listen is left without a word.
            drop(timeout(LEAVE, self.0.leave(leave)).await);
            self.0.end("the plugin was shut down", false);
        })
    }
}

impl Drop for A2aV1 {
    fn drop(&mut self) {
        self.0.end("nobody uses it any more", false);
    }
}

#[cfg(test)]
mod tests;
