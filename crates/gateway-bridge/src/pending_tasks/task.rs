//! One message and its outcome, and how it reads as a task of A2A 0.3.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use a2a::{Message, Task, text_part};
use collective::ErrorCode;
use peer::{Delivered, PeerError, PeerErrorKind};

use super::{MAX_TOTAL_BYTES, connection_reset, estimated_bytes};

/// The maximum number of steps of a task, and their maximum total size. Later steps are dropped. Three votes with
/// reasons of a full frame fit.
const MAX_STEPS: usize = 100;
const MAX_STEP_BYTES: usize = MAX_TOTAL_BYTES / 2;

/// How late a decision may arrive after its deadline.
const DECISION_GRACE: Duration = Duration::from_secs(2);

/// The text for a message that cannot be withdrawn.
const CANCELED_TEXT: &str = "the call stopped waiting for the answer; the gateway cannot withdraw a message, so the agent may continue with it";

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// A message; a message answers it.
    Message,
    /// A proposal; a decision answers it.
    Proposal {
        /// The latest time of the decision.
        deadline: Instant,
    },
}

/// The data for sending a message again to a busy agent.
#[derive(Debug, Clone)]
pub(crate) struct Resend {
    /// The encoded message.
    pub frame: String,
    /// When the message expires.
    pub expires_at: Option<Instant>,
    /// Whether to send it again only while a call waits for it.
    pub while_awaited: bool,
}

/// One message and its outcome.
pub(crate) struct PendingTask {
    /// The correlation id, which is the id of the task.
    pub id: String,
    /// The message's own id.
    pub message_id: String,
    /// The recipient.
    pub agent: String,
    /// The session of the message.
    pub context_id: String,
    /// The kind of the message.
    pub kind: TaskKind,
    /// The data for sending it again.
    pub resend: Resend,
    created: Instant,
    /// Its approximate size, and the total size of all tasks.
    bytes: AtomicUsize,
    total_bytes: Arc<AtomicUsize>,
    pub(super) progress: watch::Sender<TaskProgress>,
    awaited: AtomicUsize,
    attempts: AtomicUsize,
    /// The number of steps that a subscriber received.
    delivered_steps: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct TaskProgress {
    /// The status updates so far, and their size.
    pub(super) steps: Vec<Value>,
    step_bytes: usize,
    pub(super) outcome: Option<TaskOutcome>,
    /// The number of connections lost so far.
    pub(super) cuts: usize,
}

impl TaskProgress {
    fn awaits_decision(&self) -> bool {
        match &self.outcome {
            None => true,
            Some(TaskOutcome::Failed(error)) => {
                error.kind == PeerErrorKind::Gateway(ErrorCode::ConnectionReset)
            }
            Some(_) => false,
        }
    }
}

impl PendingTask {
    pub(crate) fn new(
        id: String,
        message_id: String,
        agent: String,
        context_id: String,
        kind: TaskKind,
        resend: Resend,
    ) -> Self {
        Self {
            id,
            message_id,
            agent,
            context_id,
            kind,
            resend,
            created: Instant::now(),
            bytes: AtomicUsize::new(0),
            total_bytes: Arc::default(),
            progress: watch::Sender::new(TaskProgress::default()),
            awaited: AtomicUsize::new(0),
            attempts: AtomicUsize::new(0),
            delivered_steps: AtomicUsize::new(0),
        }
    }

    pub(super) fn ids(&self) -> TaskIds<'_> {
        TaskIds {
            task_id: &self.id,
            context_id: &self.context_id,
        }
    }

    /// Adds its size to `total_bytes`.
    pub(super) fn with_budget(mut self, total_bytes: &Arc<AtomicUsize>) -> Self {
        self.total_bytes = Arc::clone(total_bytes);
        self.add_bytes(self.resend.frame.len());
        self
    }

    fn add_bytes(&self, more: usize) {
        self.bytes.fetch_add(more, Ordering::SeqCst);
        self.total_bytes.fetch_add(more, Ordering::SeqCst);
    }

    pub(super) fn age(&self) -> Duration {
        self.created.elapsed()
    }

    /// Returns whether it has ended.
    pub(crate) fn is_terminal(&self) -> bool {
        self.expire_if_due();
        self.progress.borrow().outcome.is_some()
    }

    /// Adds a step: text, and optional data.
    pub(crate) fn step(&self, text: &str, data: Option<Value>) {
        self.progress.send_if_modified(|progress| {
            if progress.outcome.is_some() || progress.steps.len() == MAX_STEPS {
                return false;
            }
            let step = step(self.ids(), progress.steps.len(), text, data);
            let bytes = estimated_bytes(&step);
            let fits = progress.step_bytes + bytes <= MAX_STEP_BYTES;
            if fits {
                progress.step_bytes += bytes;
                progress.steps.push(step);
                self.add_bytes(bytes);
            }
            fits
        });
    }

    /// Returns the votes so far, by member.
    pub(crate) fn votes(&self) -> Vec<(String, String)> {
        let progress = self.progress.borrow();
        let vote = |step: &Value| {
            let data = step.pointer("/status/message/parts/1/data")?;
            let text = |field: &str| data.get(field)?.as_str().map(str::to_owned);
            Some((text("member")?, text("vote")?))
        };
        progress.steps.iter().filter_map(vote).collect()
    }

    /// Returns whether this member has voted.
    pub(crate) fn has_vote_of(&self, member: &str) -> bool {
        self.votes().iter().any(|(voter, _)| voter == member)
    }

    /// Ends the task, unless it has ended. A late answer replaces a failure that only a lost connection caused.
    pub(crate) fn finish(&self, outcome: TaskOutcome) -> bool {
        self.progress.send_if_modified(|progress| {
            let open = match (&progress.outcome, &outcome) {
                (None, _) => true,
                (
                    Some(TaskOutcome::Failed(error)),
                    TaskOutcome::Answered(_) | TaskOutcome::Decided(_),
                ) => error.delivered == Delivered::Unknown,
                _ => false,
            };
            if open {
                self.add_bytes(outcome.estimated_bytes());
                progress.outcome = Some(outcome);
            }
            open
        })
    }

    /// Records a lost connection. With `dismissed`, only a new call reconnects.
    pub(super) fn connection_lost(&self, reason: &str, dismissed: bool) {
        match self.kind {
            TaskKind::Message => drop(self.finish(TaskOutcome::Failed(connection_reset(reason)))),
            TaskKind::Proposal { .. } if dismissed => {
                let reason = format!(
                    "{reason}; the triad may still decide, and the next call asks for the decision"
                );
                self.finish(TaskOutcome::Failed(connection_reset(&reason)));
            }
            TaskKind::Proposal { .. } => self.progress.send_modify(|progress| progress.cuts += 1),
        }
    }

    /// Returns whether a decision may still come, on this or the next connection.
    pub(crate) fn awaits_decision(&self) -> bool {
        let late = self
            .deadline()
            .is_none_or(|deadline| deadline <= Instant::now());
        !late && self.progress.borrow().awaits_decision()
    }

    /// Reopens a proposal that failed with its connection. Returns whether it waits for its decision again.
    pub(super) fn reopen(&self) -> bool {
        let awaits = self.awaits_decision();
        self.progress.send_if_modified(|progress| {
            awaits && progress.awaits_decision() && progress.outcome.take().is_some()
        });
        awaits
    }

    /// Returns the time after which no event of the task is expected.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.kind {
            TaskKind::Message => None,
            TaskKind::Proposal { deadline } => Some(deadline + DECISION_GRACE),
        }
    }

    pub(super) fn expire_if_due(&self) {
        if self
            .deadline()
            .is_some_and(|deadline| deadline <= Instant::now())
        {
            self.finish(TaskOutcome::Failed(undecided_error()));
        }
    }

    /// Marks the task as awaited until the guard is dropped.
    pub(crate) fn await_guard(self: &Arc<Self>) -> AwaitGuard {
        self.awaited.fetch_add(1, Ordering::SeqCst);
        AwaitGuard(Arc::clone(self))
    }

    async fn outcome(&self, until: Instant) -> Option<TaskOutcome> {
        let until = self
            .deadline()
            .map_or(until, |deadline| deadline.min(until));
        let mut progress = self.progress.subscribe();
        let wait = timeout_at(
            until,
            progress.wait_for(|progress| progress.outcome.is_some()),
        );
        // The sender lives as long as `self`, so only the timeout ends the wait without an outcome.
        drop(wait.await);
        self.expire_if_due();
        self.progress.borrow().outcome.clone()
    }

    /// Counts another attempt to send the message and returns its number; `None` if no call waits for it.
    pub(crate) fn next_attempt(&self) -> Option<usize> {
        let is_awaited = !self.resend.while_awaited || self.awaited.load(Ordering::SeqCst) > 0;
        is_awaited.then(|| self.attempts.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Returns the task in its current state.
    ///
    /// # Errors
    /// Never in practice: the bridge parses a task that it serialized itself.
    pub(crate) fn task(&self) -> Result<Task, PeerError> {
        self.expire_if_due();
        let progress = self.progress.borrow();
        read(task(self.ids(), &progress.steps, progress.outcome.as_ref()))
    }

    /// Returns the task with the steps delivered so far. The next subscription continues there.
    ///
    /// # Errors
    /// See [`task`](Self::task).
    pub(crate) fn delivered_task(&self) -> Result<Task, PeerError> {
        self.expire_if_due();
        read(self.delivered_snapshot(&self.progress.borrow()).0)
    }

    /// Returns the task with the steps delivered so far, their number, and whether they include the end.
    pub(super) fn delivered_snapshot(&self, progress: &TaskProgress) -> (Value, usize, bool) {
        let steps = &progress.steps[..self
            .delivered_steps
            .load(Ordering::SeqCst)
            .min(progress.steps.len())];
        let behind = steps.len() < progress.steps.len();
        let outcome = progress.outcome.as_ref().filter(|_| !behind);
        let task = task(self.ids(), steps, outcome);
        (task, steps.len(), outcome.is_some())
    }

    /// Records the number of delivered steps.
    pub(super) fn mark_delivered(&self, steps: usize) {
        self.delivered_steps.fetch_max(steps, Ordering::SeqCst);
    }
}

impl Drop for PendingTask {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::SeqCst);
        self.total_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// A task that a call waits for. Create it before the send: the reply may arrive before the send has returned.
pub(crate) struct AwaitGuard(Arc<PendingTask>);

impl AwaitGuard {
    /// Waits for the outcome until `until`.
    pub(crate) async fn outcome(&self, until: Instant) -> Option<TaskOutcome> {
        self.0.outcome(until).await
    }
}

impl Deref for AwaitGuard {
    type Target = Arc<PendingTask>;

    fn deref(&self) -> &Arc<PendingTask> {
        &self.0
    }
}

impl Drop for AwaitGuard {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::SeqCst);
    }
}

fn read(task: Value) -> Result<Task, PeerError> {
    Task::read(task).map_err(|e| PeerError::new(PeerErrorKind::InvalidResponse, e.to_string()))
}

fn undecided_error() -> PeerError {
    let message = "unknown - decision may have been made: the deadline passed without a decision";
    PeerError::new(
        PeerErrorKind::Gateway(ErrorCode::ConnectionTimeout),
        message,
    )
}

/// The ids in every update of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskIds<'a> {
    /// The id that message and reply share.
    pub(super) task_id: &'a str,
    /// The session that the task belongs to.
    pub(super) context_id: &'a str,
}

/// The outcome of a message.
#[derive(Debug, Clone)]
pub(crate) enum TaskOutcome {
    /// The agent answered.
    Answered(Message),
    /// The triad decided: an artifact.
    Decided(Value),
    /// No reply will arrive.
    Failed(PeerError),
    /// The caller stopped waiting.
    Canceled,
}

impl TaskOutcome {
    /// Estimates the size of the outcome in bytes.
    pub(super) fn estimated_bytes(&self) -> usize {
        match self {
            Self::Answered(message) => estimated_bytes(message.json()),
            Self::Decided(artifact) => estimated_bytes(artifact),
            Self::Failed(error) => error.message.len(),
            Self::Canceled => 0,
        }
    }
}

fn message(ids: TaskIds<'_>, number: usize, text: &str, data: Option<Value>) -> Value {
    let mut parts = vec![text_part(text)];
    parts.extend(data.map(|data| json!({"kind": "data", "data": data})));
    json!({
        "kind": "message",
        "messageId": format!("{}-{number}", ids.task_id),
        "role": "agent",
        "taskId": ids.task_id,
        "contextId": ids.context_id,
        "parts": parts,
    })
}

fn update(ids: TaskIds<'_>, status: Value, last: bool) -> Value {
    json!({
        "kind": "status-update",
        "taskId": ids.task_id,
        "contextId": ids.context_id,
        "status": status,
        "final": last,
    })
}

/// Returns a status update of the task.
pub(super) fn step(ids: TaskIds<'_>, number: usize, text: &str, data: Option<Value>) -> Value {
    let message = message(ids, number, text, data);
    update(ids, json!({"state": "working", "message": message}), false)
}

/// Returns the task with these steps.
pub(super) fn task(ids: TaskIds<'_>, steps: &[Value], outcome: Option<&TaskOutcome>) -> Value {
    let (status, artifact) = match outcome {
        Some(outcome) => final_status(ids, steps.len(), outcome),
        None => {
            let newest = steps.last().and_then(|step| step.pointer("/status"));
            (
                newest
                    .cloned()
                    .unwrap_or_else(|| json!({"state": "working"})),
                None,
            )
        }
    };
    let mut task = json!({
        "kind": "task",
        "id": ids.task_id,
        "contextId": ids.context_id,
        "status": status,
    });
    if let Some(artifact) = artifact {
        task["artifacts"] = json!([artifact]);
    }
    task
}

/// Returns the final updates.
pub(super) fn final_updates(ids: TaskIds<'_>, steps: usize, outcome: &TaskOutcome) -> Vec<Value> {
    let (status, artifact) = final_status(ids, steps, outcome);
    let artifact = artifact.map(|artifact| {
        json!({
            "kind": "artifact-update",
            "taskId": ids.task_id,
            "contextId": ids.context_id,
            "artifact": artifact,
            "append": false,
            "lastChunk": true,
        })
    });
    artifact
        .into_iter()
        .chain([update(ids, status, true)])
        .collect()
}

fn final_status(ids: TaskIds<'_>, number: usize, outcome: &TaskOutcome) -> (Value, Option<Value>) {
    match outcome {
        TaskOutcome::Answered(message) => {
            let parts = message
                .json()
                .get("parts")
                .cloned()
                .unwrap_or_else(|| json!([]));
            let reply = json!({"artifactId": "reply", "name": "reply", "parts": parts});
            (json!({"state": "completed"}), Some(reply))
        }
        TaskOutcome::Decided(artifact) => (json!({"state": "completed"}), Some(artifact.clone())),
        TaskOutcome::Failed(error) => {
            let message = message(ids, number, &failure(error), None);
            (json!({"state": "failed", "message": message}), None)
        }
        TaskOutcome::Canceled => {
            let message = message(ids, number, CANCELED_TEXT, None);
            (json!({"state": "canceled", "message": message}), None)
        }
    }
}

/// Returns the text of a failed task. It begins with the error of the gateway, which it names once.
fn failure(error: &PeerError) -> String {
    match error.kind {
        PeerErrorKind::Gateway(code) => {
            let text = error.message.replacen(&format!(" {code}:"), ":", 1);
            format!("{code}: {text}")
        }
        _ => error.to_string(),
    }
}
