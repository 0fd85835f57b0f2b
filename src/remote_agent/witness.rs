//! What is seen of a call from outside: spans around its exchanges with the peer, and what they come to in numbers and
//! ids. Never what is said.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tracing::{Instrument as _, debug_span};

use a2a::{Card, Event, Reply, SendRequest, Task, TaskState, Transport};
use common::redact::Secrets;
use peer::{BoxFuture, EventStream, NegotiatedProtocol, Peer, PeerError, Step};

use super::artifacts::weight;
use super::collect::take_id;

/// Sees one call.
#[derive(Debug)]
pub(super) struct Witness {
    trace_id: String,
    /// Whether what is exchanged is counted.
    counts: bool,
    seen: Mutex<Seen>,
}

/// What has been seen so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The parts that were handed over, in bytes of JSON.
    pub(super) sent: u64,
    /// What the peer said, in bytes of JSON.
    pub(super) received: u64,
    /// How it was spoken to.
    pub(super) transport: Option<Transport>,
    /// The task it spoke of last.
    pub(super) task_id: Option<String>,
    /// The conversation it spoke in last.
    pub(super) context_id: Option<String>,
    /// Where the task stood last.
    pub(super) state: Option<TaskState>,
}

impl Witness {
    /// A witness of a call of that trace, which counts where `counts`.
    pub(super) fn new(trace_id: String, counts: bool) -> Arc<Self> {
        Arc::new(Self {
            trace_id,
            counts,
            seen: Mutex::default(),
        })
    }

    /// What has been seen so far.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hands_over(&self, outgoing: &SendRequest) {
        if self.counts {
            let bytes: u64 = outgoing.parts.iter().map(|part| length(part.json())).sum();
            self.seen().sent += bytes;
        }
    }

    fn hears(&self, event: &Event, bytes: usize) {
        if self.counts {
            self.seen().hear(event, bytes as u64);
        }
    }

    fn is_told(&self, reply: &Reply) {
        if self.counts {
            match reply {
                Reply::Task(task) => self.is_shown(task),
                Reply::Message(message) => {
                    let bytes = length(message.json());
                    let mut seen = self.seen();
                    seen.received += bytes;
                    seen.ids(message.task_id(), message.context_id());
                }
            }
        }
    }

    fn is_shown(&self, task: &Task) {
        if self.counts {
            let bytes = length(task.json());
            let mut seen = self.seen();
            seen.received += bytes;
            seen.task(task);
        }
    }
}

impl Seen {
    fn hear(&mut self, event: &Event, bytes: u64) {
        self.received += bytes;
        match event {
            Event::Message(message) => self.ids(message.task_id(), message.context_id()),
            Event::Task(task) => self.task(task),
            Event::Status(update) => {
                self.ids(update.task_id(), update.context_id());
                self.state = Some(update.state());
            }
            Event::Artifact(update) => self.ids(update.task_id(), update.context_id()),
            Event::Unknown(_) => {}
        }
    }

    fn task(&mut self, task: &Task) {
        self.ids(task.id(), task.context_id());
        self.state = Some(task.state());
    }

    fn ids(&mut self, task_id: Option<&str>, context_id: Option<&str>) {
        take_id(&mut self.task_id, task_id);
        take_id(&mut self.context_id, context_id);
    }
}

/// A peer whose exchanges are seen.
pub(super) struct Watched {
    peer: Box<dyn Peer>,
    witness: Arc<Witness>,
}

impl Watched {
    /// `peer`, seen by `witness`.
    pub(super) fn new(peer: Box<dyn Peer>, witness: Arc<Witness>) -> Self {
        Self { peer, witness }
    }

    fn stream(&self, stream: Box<dyn EventStream>) -> Box<dyn EventStream> {
        if !self.witness.counts {
            return stream;
        }
        let witness = Arc::clone(&self.witness);
        Box::new(WatchedStream { stream, witness })
    }
}

/// Runs one exchange in a span of its own.
macro_rules! exchange {
    ($self:ident, $name:literal, $work:expr) => {
        $work.instrument(debug_span!(
            $name,
            trace_id = $self.witness.trace_id.as_str(),
            transport = $self.peer.spoken().transport.as_str()
        ))
    };
}

impl Peer for Watched {
    fn spoken(&self) -> NegotiatedProtocol {
        self.peer.spoken()
    }

    fn secrets(&self) -> Arc<Secrets> {
        self.peer.secrets()
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(exchange!(self, "peer.card", self.peer.card()))
    }

    fn send<'a>(&'a self, outgoing: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            self.witness.hands_over(outgoing);
            let reply = exchange!(self, "peer.send", self.peer.send(outgoing)).await?;
            self.witness.is_told(&reply);
            Ok(reply)
        })
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            self.witness.hands_over(outgoing);
            let stream = exchange!(self, "peer.stream", self.peer.stream(outgoing)).await?;
            Ok(self.stream(stream))
        })
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let work = self.peer.get_task(task_id, history_length);
            let task = exchange!(self, "peer.get_task", work).await?;
            self.witness.is_shown(&task);
            Ok(task)
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let task = exchange!(self, "peer.cancel", self.peer.cancel(task_id)).await?;
            self.witness.is_shown(&task);
            Ok(task)
        })
    }

    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let work = self.peer.resubscribe(task_id);
            let stream = exchange!(self, "peer.resubscribe", work).await?;
            Ok(self.stream(stream))
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Only now is it certain: a peer may turn out to take another transport than the first that was tried.
        self.witness.seen().transport = Some(self.peer.spoken().transport);
    }
}

struct WatchedStream {
    stream: Box<dyn EventStream>,
    witness: Arc<Witness>,
}

impl EventStream for WatchedStream {
    fn next(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(async move {
            let step = self.stream.next().await;
            if let Step::Event(event, bytes) = &step {
                self.witness.hears(event, *bytes);
            }
            step
        })
    }
}

fn length(value: &Value) -> u64 {
    weight(value) as u64
}
