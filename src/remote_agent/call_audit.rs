//! The audit and the metrics of a call, without content.
//!
//! The audit runs from the start of a call to its line in the audit log, even if the call is dropped. The metrics are the
//! spans around its exchanges with the peer, and the numbers and ids of that line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use a2a::{Event, Reply, SendRequest, Task, TaskState, Transport, Usage};
use base::json::encoded_bytes;
use parking_lot::{Mutex, MutexGuard};
use peer::{EventStream, Peer, PeerConfig, PeerError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::RemoteAgent;
use super::caller::{Caller, Position};
use super::collected::set_id;
use super::error::Reason;
use super::question::Answer;
use super::request::Action;
use super::resolve::Resolved;
use crate::audit::{AskedQuestion, Record};
use crate::targets::Target;
use crate::trace::{Span, Spans, Trace};

/// The audit of one call. It ends once: with the call's outcome, or, when the call is dropped, with the reason for
/// that.
pub(super) struct CallAudit<'a> {
    tool: &'a RemoteAgent,
    pub(super) caller: Caller,
    /// The call's trace context.
    pub(super) trace: Trace,
    closing: CancellationToken,
    time: SystemTime,
    began: Instant,
    action: &'static str,
    /// The position of the call's messages in a chain of delegations.
    pub(super) position: Option<Position>,
    /// The group of calls that the call belongs to, or is.
    pub(super) group: Option<String>,
    span: Span,
    target: Option<Arc<Target>>,
    subject: Subject,
    ended: bool,
}

/// What the line of a call is about.
#[derive(Default)]
struct Subject {
    task_id: Option<String>,
    context_id: Option<String>,
    metrics: Option<Arc<CallMetrics>>,
}

impl<'a> CallAudit<'a> {
    /// Starts the audit of a call of `caller`.
    pub(super) fn open(tool: &'a RemoteAgent, caller: Caller, closing: CancellationToken) -> Self {
        let trace = Trace::new(caller.traceparent.as_deref(), || tool.env.uuid());
        Self {
            span: tool.spans.open("call", &trace),
            time: tool.env.system_time(),
            began: tool.env.now(),
            tool,
            caller,
            trace,
            closing,
            action: "unknown",
            position: None,
            group: None,
            target: None,
            subject: Subject::default(),
            ended: false,
        }
    }

    /// Returns the time since the call started.
    pub(super) fn elapsed(&self) -> Duration {
        self.tool.env.now().saturating_duration_since(self.began)
    }

    /// Records the action, even if the rest of the request is invalid.
    pub(super) fn set_action(&mut self, action: Action) {
        self.action = action.as_str();
        self.span.record("action", self.action);
    }

    /// Records the target, even if its caller may not use it.
    pub(super) fn set_target(&mut self, target: &Arc<Target>) {
        let name = target.alias.as_deref().unwrap_or("by URL");
        self.span.record("target", name);
        self.target = Some(Arc::clone(target));
    }

    /// Records the resolved request. Returns the metrics for the exchanges with the peer.
    pub(super) fn set_resolved(&mut self, resolved: &Resolved) -> Arc<CallMetrics> {
        let metrics = Arc::new(CallMetrics {
            trace: self.trace,
            spans: self.tool.spans.clone(),
            is_counting: self.tool.audit.is_some(),
            has_answered: Arc::default(),
            recorded: Mutex::default(),
        });
        self.subject = Subject {
            task_id: resolved.task_id.clone(),
            context_id: resolved.context_id.clone(),
            metrics: Some(Arc::clone(&metrics)),
        };
        metrics
    }

    /// Ends the audit with the call's outcome.
    pub(super) fn finish(mut self, outcome: Result<(), Reason>) {
        self.close(outcome.map_or_else(Reason::as_str, |()| "ok"));
    }

    fn close(&mut self, outcome: &'static str) {
        self.ended = true;
        self.span.record("outcome", outcome);
        let Some(audit) = &self.tool.audit else {
            return;
        };
        let (target, subject) = (self.target.as_ref(), &self.subject);
        let origin = target.map(|target| origin(&target.peer_config));
        let recorded = subject
            .metrics
            .as_ref()
            .map(|metrics| std::mem::take(&mut *metrics.recorded()));
        let recorded = recorded.unwrap_or_default();
        audit.write(&Record {
            time: self.time,
            trace_id: self.trace.id(),
            agent: self.caller.agent_id.as_deref(),
            operator: self.caller.operator.as_deref(),
            session: self.caller.session_key.as_deref(),
            chain: self.position.as_ref().and_then(|at| at.chain.as_deref()),
            action: self.action,
            group: self.group.as_deref(),
            target: target.and_then(|target| target.alias.as_deref()),
            origin: origin.as_deref(),
            transport: recorded.transport.map(Transport::as_str),
            task_id: recorded.task_id.as_deref().or(subject.task_id.as_deref()),
            context_id: recorded
                .context_id
                .as_deref()
                .or(subject.context_id.as_deref()),
            sent_bytes: recorded.sent_bytes,
            received_bytes: recorded.received_bytes,
            state: recorded.state.as_ref().map(TaskState::as_str),
            questions: &recorded.questions,
            usage: Some(&recorded.usage).filter(|usage| !usage.is_empty()),
            duration: self.elapsed(),
            outcome,
        });
    }
}

/// Returns the origin of the URL that the connection uses.
fn origin(peer_config: &PeerConfig) -> String {
    let connected = peer_config
        .endpoint
        .as_ref()
        .filter(|_| peer_config.is_local());
    let url = connected.unwrap_or(&peer_config.base_url);
    url.origin().ascii_serialization()
}

impl Drop for CallAudit<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let reason = if std::thread::panicking() {
            Reason::InternalFault
        } else if self.closing.is_cancelled() {
            Reason::ShuttingDown
        } else {
            Reason::Aborted
        };
        self.close(reason.as_str());
    }
}

/// The metrics of one call. The call records them; the audit log reads them, also if the call is dropped.
pub(super) struct CallMetrics {
    trace: Trace,
    spans: Spans,
    /// Whether to count bytes and ids, which costs another pass over each message.
    is_counting: bool,
    /// Whether the peer has answered a request, or opened a stream.
    pub(super) has_answered: Arc<AtomicBool>,
    recorded: Mutex<RecordedMetrics>,
}

/// The recorded values.
#[derive(Debug, Default)]
struct RecordedMetrics {
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
    /// The questions that a person was asked.
    questions: Vec<AskedQuestion>,
    /// What the peer reports that the work used.
    usage: Usage,
}

impl CallMetrics {
    /// Locks the recorded values.
    fn recorded(&self) -> MutexGuard<'_, RecordedMetrics> {
        self.recorded.lock()
    }

    /// Records the transport of `peer`.
    pub(super) fn record_transport(&self, peer: &dyn Peer) {
        self.recorded().transport = Some(peer.protocol().transport);
    }

    /// Records what a person did with a question, without the words.
    pub(super) fn record_question(&self, id: &str, answer: &Answer) {
        self.recorded().questions.push(AskedQuestion {
            id: id.to_owned(),
            action: answer.action.as_str(),
            by: answer.by.clone(),
        });
    }

    /// Records an event of a stream.
    pub(super) fn record_event(&self, event: &Event, bytes: usize) {
        let mut recorded = self.recorded();
        recorded.usage.add(event.json());
        if self.is_counting {
            recorded.apply_event(event, bytes as u64);
        }
    }

    /// Returns what the peer reports that the work used, if it reports anything.
    pub(super) fn usage(&self) -> Option<Usage> {
        let recorded = self.recorded();
        (!recorded.usage.is_empty()).then(|| recorded.usage.clone())
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
            Reply::Message(message) => {
                self.recorded().usage.add(message.json());
                if self.is_counting {
                    let bytes = length(message.json());
                    let mut recorded = self.recorded();
                    recorded.received_bytes += bytes;
                    recorded.set_ids(message.task_id(), message.context_id());
                }
            }
        }
    }

    fn record_task(&self, task: &Task) {
        self.recorded().usage.add(task.json());
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
        let mut span = $self.spans.open($name, &$self.trace);
        span.record("transport", $peer.protocol().transport.as_str());
        let outcome = $work.await;
        drop(span);
        $self.record_transport($peer);
        if outcome.is_ok() {
            $self.has_answered.store(true, Ordering::Relaxed);
        }
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
