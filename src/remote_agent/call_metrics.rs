//! The metrics of a call: spans around its exchanges with the peer, and numbers and ids for the audit log, without
//! content.

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tracing::{Instrument as _, debug_span};

use a2a::{Event, Reply, SendRequest, Task, TaskState, Transport};
use base::json::encoded_bytes;
use peer::{EventStream, Peer, PeerError};

use super::collected::set_id;

/// The metrics of one call. The call records them; the audit log reads them, also if the call is dropped.
#[derive(Debug)]
pub(super) struct CallMetrics {
    trace_id: String,
    /// Whether to count bytes and ids, which costs another pass over each message.
    is_counting: bool,
    recorded: Mutex<RecordedMetrics>,
}

/// The recorded values.
#[derive(Debug, Default)]
pub(super) struct RecordedMetrics {
    /// The parts that were sent, in bytes of JSON.
    pub(super) sent_bytes: u64,
    /// The size of the peer's answers, in bytes of JSON.
    pub(super) received_bytes: u64,
    /// The transport of the call.
    pub(super) transport: Option<Transport>,
    /// The task that the peer named last.
    pub(super) task_id: Option<String>,
    /// The conversation that the peer named last.
    pub(super) context_id: Option<String>,
    /// The last state of the task.
    pub(super) state: Option<TaskState>,
}

impl CallMetrics {
    /// Creates the metrics of a call with that trace.
    pub(super) fn new(trace_id: String, is_counting: bool) -> Self {
        Self {
            trace_id,
            is_counting,
            recorded: Mutex::default(),
        }
    }

    /// Locks the recorded values.
    pub(super) fn recorded(&self) -> MutexGuard<'_, RecordedMetrics> {
        self.recorded.lock()
    }

    /// Records the transport of `peer`.
    pub(super) fn record_transport(&self, peer: &dyn Peer) {
        self.recorded().transport = Some(peer.protocol().transport);
    }

    /// Records an event of a stream.
    pub(super) fn record_event(&self, event: &Event, bytes: usize) {
        if self.is_counting {
            self.recorded().apply_event(event, bytes as u64);
        }
    }

    fn record_message(&self, outgoing: &SendRequest) {
        if self.is_counting {
            let bytes: u64 = outgoing.parts.iter().map(|part| length(part.json())).sum();
            self.recorded().sent_bytes += bytes;
        }
    }

    fn record_reply(&self, reply: &Reply) {
        match reply {
            Reply::Task(task) => self.record_task(task),
            Reply::Message(message) if self.is_counting => {
                let bytes = length(message.json());
                let mut recorded = self.recorded();
                recorded.received_bytes += bytes;
                recorded.set_ids(message.task_id(), message.context_id());
            }
            Reply::Message(_) => {}
        }
    }

    fn record_task(&self, task: &Task) {
        if self.is_counting {
            let bytes = length(task.json());
            let mut recorded = self.recorded();
            recorded.received_bytes += bytes;
            recorded.apply_task(task);
        }
    }
}

impl RecordedMetrics {
    fn apply_event(&mut self, event: &Event, bytes: u64) {
        self.received_bytes += bytes;
        match event {
            Event::Message(message) => self.set_ids(message.task_id(), message.context_id()),
            Event::Task(task) => self.apply_task(task),
            Event::Status(update) => {
                self.set_ids(update.task_id(), update.context_id());
                self.state = Some(update.state());
            }
            Event::Artifact(update) => self.set_ids(update.task_id(), update.context_id()),
            Event::Unknown(_) => {}
        }
    }

    fn apply_task(&mut self, task: &Task) {
        self.set_ids(task.id(), task.context_id());
        self.state = Some(task.state());
    }

    fn set_ids(&mut self, task_id: Option<&str>, context_id: Option<&str>) {
        set_id(&mut self.task_id, task_id);
        set_id(&mut self.context_id, context_id);
    }
}

/// Runs one exchange in its own span. Afterwards the peer's transport is known.
macro_rules! exchange {
    ($self:ident, $peer:ident, $name:literal, $work:expr) => {{
        let span = debug_span!(
            $name,
            trace_id = $self.trace_id.as_str(),
            transport = $peer.protocol().transport.as_str()
        );
        let outcome = $work.instrument(span).await;
        $self.record_transport($peer);
        outcome
    }};
}

/// Runs the exchanges with `peer`, each in a span, and records them.
impl CallMetrics {
    /// Calls [`Peer::send`].
    pub(super) async fn send(
        &self,
        peer: &dyn Peer,
        outgoing: &SendRequest,
    ) -> Result<Reply, PeerError> {
        self.record_message(outgoing);
        let reply = exchange!(self, peer, "peer.send", peer.send(outgoing))?;
        self.record_reply(&reply);
        Ok(reply)
    }

    /// Calls [`Peer::stream`]. [`record_event`](Self::record_event) records its events.
    pub(super) async fn stream(
        &self,
        peer: &dyn Peer,
        outgoing: &SendRequest,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        self.record_message(outgoing);
        exchange!(self, peer, "peer.stream", peer.stream(outgoing))
    }

    /// Calls [`Peer::get_task`].
    pub(super) async fn get_task(
        &self,
        peer: &dyn Peer,
        task_id: &str,
        history_length: Option<u64>,
    ) -> Result<Task, PeerError> {
        let work = peer.get_task(task_id, history_length);
        let task = exchange!(self, peer, "peer.get_task", work)?;
        self.record_task(&task);
        Ok(task)
    }

    /// Calls [`Peer::cancel`].
    pub(super) async fn cancel(&self, peer: &dyn Peer, task_id: &str) -> Result<Task, PeerError> {
        let task = exchange!(self, peer, "peer.cancel", peer.cancel(task_id))?;
        self.record_task(&task);
        Ok(task)
    }

    /// Calls [`Peer::resubscribe`]. [`record_event`](Self::record_event) records its events.
    pub(super) async fn resubscribe(
        &self,
        peer: &dyn Peer,
        task_id: &str,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        exchange!(self, peer, "peer.resubscribe", peer.resubscribe(task_id))
    }
}

fn length(value: &Value) -> u64 {
    encoded_bytes(value) as u64
}
