//! The work on one task, from a message to a terminal or interrupted state.
//!
//! One tokio task owns the record and the run. It stores every event before clients receive it. The first terminal
//! status that the store accepts is final: a canceled task stays canceled whatever the run reports later. A panic of
//! the work fails only its task.

mod persist;
mod start;
mod steering;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a::v1_0::{Message, Part, TaskState};
use a2a::{A2aError, USAGE_KEY, Usage};
use base::json::encoded_bytes;
use base::panics::catch_async;
use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, sleep_until};

pub(super) use self::persist::WriteError;
use self::steering::Queue;
pub(super) use self::steering::is_retry;
use super::active_task::{ActiveTask, Running, TaskEnd, lost};
use super::core::{Core, to_a2a_error};
use super::quota::ValuePermit;
use super::status::{self, Failure};
use crate::executor::{ExecutionEvent, Outcome};
use crate::store::QueueTicket;
use crate::task_record::{TaskChange, TaskRecord, is_interrupted};

/// How long a task may have no event before the server shows it as working. Until then, the agent can still answer with
/// a message in place of the task.
pub(super) const QUIET_PERIOD: Duration = Duration::from_millis(200);

/// The run that a task needs.
pub(super) enum RunRequest {
    /// A new run with the client's newest message.
    New {
        /// The position in a chain of delegations.
        delegation: Option<serde_json::Value>,
    },
    /// The run of this name, which an earlier process started.
    Reattach(String),
}

/// The size of the messages of a task, in bytes of JSON, from which they are unloaded while the task runs.
const UNLOAD_BYTES: usize = 4096;

/// The work on a task.
pub(super) struct TaskRunner {
    pub(super) core: Arc<Core>,
    pub(super) active: Arc<ActiveTask>,
    pub(super) record: TaskRecord,
    /// Whether the executor has reported an event that clients can see.
    pub(super) has_visible_event: bool,
    /// The size of the task's artifacts, in bytes of JSON.
    size: usize,
    /// Changes that the next write stores.
    pending: Vec<TaskChange>,
    /// The first change that the store rejected after all retries.
    unstored: Option<TaskChange>,
    /// The quota for the JSON values of the message.
    pub(super) weight: Option<ValuePermit>,
    /// The size of the message that created the task, in bytes of JSON, if the caller knows it.
    pub(super) message_size: Option<usize>,
    /// Whether the record in memory lacks its body, because the task waits for its run or the run has the message.
    unloaded: bool,
    /// Whether the message answers an interrupted task.
    continued: bool,
    /// Whether the executor has named the run, so that another process can reattach to it.
    is_named: bool,
    /// What earlier turns of the task used. Executors report a turn, and clients read reports about the task.
    earlier: Usage,
    /// What this turn used.
    turn: Usage,
    /// The messages that wait for a turn.
    queue: Queue,
}

/// Why the server ends a run.
enum RunEnd {
    Outcome(Outcome),
    Canceled,
    TimedOut,
    /// The output exceeded the maximum size of a task.
    TooLarge,
    /// The client's storage is full.
    NoRoom,
    /// The server stops before the run has ended.
    ServerStopped,
    /// The server stops, and another process continues the task.
    Left,
    /// A write failed.
    WriteError(WriteError),
}

impl From<WriteError> for RunEnd {
    fn from(lost: WriteError) -> Self {
        Self::WriteError(lost)
    }
}

impl TaskRunner {
    /// Creates a runner for a task. Boxed, because the futures that own a runner would move its hundreds of bytes.
    pub(super) fn new(core: Arc<Core>, active: Arc<ActiveTask>, record: TaskRecord) -> Box<Self> {
        let artifacts = record.task.artifacts.iter().flatten();
        let size = artifacts.map(encoded_bytes).sum();
        let metadata = record.task.metadata.as_ref();
        let earlier = metadata.and_then(|all| all.get(USAGE_KEY));
        let earlier = earlier.map(Usage::read_own).unwrap_or_default();
        let queue = Queue::of(&record);
        Box::new(Self {
            core,
            active,
            record,
            has_visible_event: false,
            size,
            pending: Vec::new(),
            unstored: None,
            weight: None,
            message_size: None,
            unloaded: false,
            continued: false,
            is_named: false,
            earlier,
            turn: Usage::default(),
            queue,
        })
    }

    /// Executes the turns of the task, and stores its end.
    async fn run(mut self: Box<Self>, mut waiting: QueueTicket, mut request: RunRequest) {
        while let Some(next) = self.run_turn(waiting, request).await {
            (waiting, request) = next;
        }
        if self.unstored.is_some() {
            Box::pin(self.persist_until_stored()).await;
        }
    }

    /// Waits for the permits, executes the run, and stores its end. Returns the next turn if a message waits for one.
    async fn run_turn(
        &mut self,
        waiting: QueueTicket,
        request: RunRequest,
    ) -> Option<(QueueTicket, RunRequest)> {
        let mut still_running = None;
        let permit = self.acquire_permit(waiting).await;
        let mut permit = self.reload().await.map_err(RunEnd::WriteError).and(permit);
        if permit.is_ok()
            && let Err(error) = self.mark_started().await
        {
            permit = Err(RunEnd::WriteError(error));
        }
        let ending = match permit {
            Ok(permit) => {
                self.is_named = matches!(request, RunRequest::Reattach(_));
                let (running, events) = self.start(request);
                self.open_queue();
                let (ending, running) = self.forward_run_events(running, events).await;
                still_running = Some((Some(permit), running));
                match ending {
                    RunEnd::ServerStopped => self.leave().await,
                    RunEnd::Outcome(outcome) => match Box::pin(self.next_turn(outcome)).await {
                        Ok(next) => return Some(next),
                        Err(ending) => ending,
                    },
                    ending => ending,
                }
            }
            Err(RunEnd::ServerStopped) => self.leave_queued(&request).await,
            Err(RunEnd::Canceled) if matches!(request, RunRequest::Reattach(_)) => {
                // The earlier run may continue outside of this process, so reattach to it in order to cancel it.
                still_running = Some((None, Some(self.start(request).0)));
                RunEnd::Canceled
            }
            Err(ending) => ending,
        };
        let is_left = matches!(ending, RunEnd::Left);
        let end = self.end(ending).await;
        self.deactivate(end);
        // Keep the permit until the run has stopped, so that the next message of the session waits.
        if let Some((permit, running)) = still_running {
            if let Some(running) = running.filter(|_| !is_left) {
                running
                    .stop(&self.core.dropping, &self.record.task.id)
                    .await;
            }
            drop(permit);
        }
        None
    }

    /// Applies the events of a run until it ends. Returns the run if it may not have ended.
    async fn forward_run_events(
        &mut self,
        mut running: Running,
        mut events: Receiver<ExecutionEvent>,
    ) -> (RunEnd, Option<Running>) {
        let until = Instant::now() + self.core.settings.timeout;
        // Blocks, which create the timers only if the run has to wait.
        let deadline = async { sleep_until(until).await };
        tokio::pin!(deadline);
        let quiet = async { sleep(QUIET_PERIOD).await };
        tokio::pin!(quiet);
        let mut is_quiet = false;
        // Pinned outside of the loop: the waker registers once, not for each event, and never for a run that does not wait.
        let active = Arc::clone(&self.active);
        let canceled = active.canceled.cancelled();
        tokio::pin!(canceled);
        let core = Arc::clone(&self.core);
        let closing = core.closing.cancelled();
        tokio::pin!(closing);
        loop {
            if let Some(ending) = self.interruption(until) {
                let ending = self.apply_before(ending, &mut events).await;
                return (ending, Some(running));
            }
            let event = tokio::select! {
                biased;
                Some(event) = events.recv() => event,
                outcome = running.outcome() => {
                    match self.interruption(until) {
                        // The run has ended in time.
                        None | Some(RunEnd::ServerStopped) => {}
                        Some(ending) => return (ending, None),
                    }
                    let apply_rest = async {
                        self.apply_waiting(&mut events).await?;
                        while !events.is_empty() {
                            self.flush().await?;
                            self.apply_waiting(&mut events).await?;
                        }
                        // The write of the end also stores the last pending changes.
                        Ok(())
                    };
                    let ending = apply_rest.await.err();
                    return (ending.unwrap_or(RunEnd::Outcome(outcome)), None);
                }
                () = &mut canceled => return (RunEnd::Canceled, Some(running)),
                () = &mut closing => {
                    let ending = self.apply_before(RunEnd::ServerStopped, &mut events).await;
                    return (ending, Some(running));
                }
                () = &mut deadline => return (RunEnd::TimedOut, Some(running)),
                steering = self.queue.next() => {
                    if let Err(lost) = self.accept(steering).await {
                        return (RunEnd::WriteError(lost), Some(running));
                    }
                    self.active.mark_visible();
                    continue;
                }
                () = &mut quiet, if !is_quiet => {
                    is_quiet = true;
                    self.ensure_working();
                    if let Err(lost) = self.flush().await {
                        return (RunEnd::WriteError(lost), Some(running));
                    }
                    self.active.mark_visible();
                    continue;
                }
            };
            let applied = async {
                self.apply_event(event).await?;
                self.apply_waiting(&mut events).await?;
                Ok::<(), RunEnd>(self.flush().await?)
            };
            if let Err(ending) = applied.await {
                return (ending, Some(running));
            }
            if self.has_visible_event {
                self.active.mark_visible();
            }
        }
    }

    /// Returns why the server has to end the run now, whatever it reports.
    fn interruption(&self, until: Instant) -> Option<RunEnd> {
        self.stop_reason()
            .or_else(|| (Instant::now() >= until).then_some(RunEnd::TimedOut))
    }

    /// Returns why the task must not go on: it is canceled, or the server stops.
    fn stop_reason(&self) -> Option<RunEnd> {
        if self.active.canceled.is_cancelled() {
            Some(RunEnd::Canceled)
        } else if self.core.closing.is_cancelled() {
            Some(RunEnd::ServerStopped)
        } else {
            None
        }
    }

    /// Applies the events that are already in the channel, at most its capacity.
    async fn apply_waiting(&mut self, events: &mut Receiver<ExecutionEvent>) -> Result<(), RunEnd> {
        for _ in 0..events.len() {
            match events.try_recv() {
                Ok(event) => self.apply_event(event).await?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Adds the changes of an event to the pending ones.
    async fn apply_event(&mut self, event: ExecutionEvent) -> Result<(), RunEnd> {
        match event {
            ExecutionEvent::Run(run) => {
                self.is_named = true;
                self.pending.push(TaskChange::Run(run));
            }
            ExecutionEvent::Metadata(mut more) => {
                if let Some(report) = more.get_mut(USAGE_KEY) {
                    self.turn.merge(&Usage::read_own(report));
                    let mut whole = self.earlier.clone();
                    whole.add_other(&self.turn);
                    *report = json!(whole);
                }
                self.pending.push(TaskChange::Metadata(more));
            }
            ExecutionEvent::Working(None) => {
                self.has_visible_event = true;
                self.ensure_working();
            }
            ExecutionEvent::Working(Some(parts)) => {
                self.check_size(encoded_bytes(&parts))?;
                self.has_visible_event = true;
                let status = status::new(self.env(), &self.record, TaskState::Working, Some(parts));
                self.pending.push(TaskChange::Status(status));
            }
            ExecutionEvent::Artifact {
                artifact,
                append,
                last_chunk,
            } => {
                let replaced = |change: &TaskChange| match change {
                    TaskChange::Artifact {
                        artifact: known, ..
                    } => known.artifact_id == artifact.artifact_id,
                    _ => false,
                };
                if !append && self.pending.iter().any(replaced) {
                    // Store the pending changes first, because `size_with` looks up the artifact in the record.
                    self.flush().await?;
                }
                let size = self.size_with(&artifact, append);
                self.check_size(size)?;
                self.has_visible_event = true;
                self.ensure_working();
                self.pending.push(TaskChange::Artifact {
                    artifact,
                    append,
                    last_chunk,
                });
                self.size = size;
            }
        }
        Ok(())
    }

    /// Adds the state `working` to the pending changes, unless the task has it.
    fn ensure_working(&mut self) {
        let pending = self.pending.iter().rev().find_map(|change| match change {
            TaskChange::Status(status) => Some(&status.state),
            _ => None,
        });
        let state = pending.unwrap_or(&self.record.task.status.state);
        if *state != TaskState::Working {
            let status = status::new(self.env(), &self.record, TaskState::Working, None);
            self.pending.push(TaskChange::Status(status));
        }
    }

    /// Removes the task before waking its waiters, so that they do not find it active.
    fn deactivate(&self, end: TaskEnd) {
        let tasks = &self.core.active_tasks;
        tasks.remove(&self.record.task.id, &self.active);
        self.active.finish(end);
    }

    async fn end(&mut self, ending: RunEnd) -> TaskEnd {
        match ending {
            RunEnd::Left => drop(self.close_queue()),
            _ => self.drop_queue(),
        }
        let ending = match ending {
            RunEnd::Outcome(outcome) => match self.check_size(persist::outcome_bytes(&outcome)) {
                Ok(()) => RunEnd::Outcome(outcome),
                Err(too_large) => too_large,
            },
            ending => ending,
        };
        let ended = match ending {
            RunEnd::Outcome(outcome) => match self.finish(outcome).await {
                Ok(Some(answer)) => return TaskEnd::Message(Box::new(answer)),
                Ok(None) => Ok(()),
                Err(lost) => Err(lost),
            },
            RunEnd::Canceled => {
                let reason = self.active.reason();
                let status = status::canceled(self.env(), &self.record, reason);
                self.write(TaskChange::Status(status)).await
            }
            RunEnd::TimedOut => {
                let timeout = self.core.settings.timeout;
                self.set_failed(Failure::TimedOut(timeout)).await
            }
            RunEnd::TooLarge => {
                let most = self.core.settings.limits.artifact_bytes;
                self.set_failed(Failure::TooLarge(most)).await
            }
            RunEnd::NoRoom => self.set_failed(Failure::NoRoom).await,
            RunEnd::Left => {
                self.core.left.fetch_add(1, Ordering::Relaxed);
                self.flush().await
            }
            RunEnd::ServerStopped => {
                self.core.failed.fetch_add(1, Ordering::Relaxed);
                self.set_failed(Failure::Interrupted).await
            }
            RunEnd::WriteError(lost) => Err(lost),
        };
        match ended {
            Ok(()) => self.ended().await,
            Err(lost) => self.handle_write_error(lost).await,
        }
    }

    /// Returns the end of the task. Moves the body out of the record.
    async fn ended(&mut self) -> TaskEnd {
        if self.unloaded {
            let id = &self.record.task.id;
            return match self.core.store.load(id).await {
                Ok(Some(record)) => TaskEnd::Task(Arc::new(record)),
                Ok(None) => TaskEnd::Error(A2aError::task_not_found(id)),
                Err(error) => TaskEnd::Error(to_a2a_error(error, id)),
            };
        }
        let task = &mut self.record.task;
        let bodies = (
            task.history.take(),
            task.artifacts.take(),
            task.metadata.take(),
        );
        let mut whole = self.record.clone();
        let task = &mut whole.task;
        (task.history, task.artifacts, task.metadata) = bodies;
        TaskEnd::Task(Arc::new(whole))
    }

    /// Stores the outcome. Returns the message if one replaces the task.
    async fn finish(&mut self, outcome: Outcome) -> Result<Option<Message>, WriteError> {
        match outcome {
            Outcome::Completed(parts) => self.set_status(TaskState::Completed, parts).await?,
            Outcome::InputRequired(parts) => {
                self.set_status(TaskState::InputRequired, Some(parts))
                    .await?;
            }
            Outcome::AuthRequired(parts) => {
                self.set_status(TaskState::AuthRequired, Some(parts))
                    .await?;
            }
            Outcome::Rejected(text) => {
                self.set_status(TaskState::Rejected, Some(vec![Part::text(text)]))
                    .await?;
            }
            Outcome::Failed { reason, text } => {
                let state = TaskState::Failed;
                let status =
                    status::with_reason(self.env(), &self.record, state, Some(reason), text);
                self.write(TaskChange::Status(status)).await?;
            }
            Outcome::Message(parts) => return self.answer(parts).await,
        }
        Ok(None)
    }

    /// Returns the message in place of the task if no client has seen the task. Otherwise completes the task with the
    /// message as its status message.
    async fn answer(&mut self, parts: Vec<Part>) -> Result<Option<Message>, WriteError> {
        if !self.has_visible_event && !self.continued && self.active.try_answer_directly() {
            let deleted = self.core.store.delete(&self.record.task.id).await;
            match deleted {
                Ok(_) => {
                    self.core
                        .release_quota(&self.record.owner, &self.record.task.id);
                    let mut message = status::message(self.env(), &self.record, parts);
                    // The message replaces the task, so it must not refer to it.
                    message.task_id = None;
                    return Ok(Some(message));
                }
                Err(error) => tracing::warn!(
                    task_id = self.record.task.id,
                    %error,
                    "cannot delete a task that a message replaced"
                ),
            }
        }
        self.set_status(TaskState::Completed, Some(parts)).await?;
        Ok(None)
    }

    async fn set_status(
        &mut self,
        state: TaskState,
        parts: Option<Vec<Part>>,
    ) -> Result<(), WriteError> {
        let status = status::new(self.env(), &self.record, state, parts);
        self.write(TaskChange::Status(status)).await
    }

    async fn set_failed(&mut self, failure: Failure) -> Result<(), WriteError> {
        let status = status::failed(self.env(), &self.record, failure);
        self.write(TaskChange::Status(status)).await
    }

    fn env(&self) -> &dyn base::environment::Environment {
        &*self.core.env
    }
}

impl TaskRunner {
    /// Runs the task. A panic fails only this task.
    pub(super) async fn run_to_end(self: Box<Self>, waiting: QueueTicket, request: RunRequest) {
        let (core, active) = (self.core.clone(), self.active.clone());
        let id = self.record.task.id.clone();
        if let Err(error) = catch_async(Box::pin(self.run(waiting, request))).await {
            tracing::error!(%error, task_id = id, "the work on a task panicked");
            core.end_panicked(&id, &active).await;
        }
    }

    async fn fail(mut self: Box<Self>) {
        let outcome = Outcome::Failed {
            reason: "internal",
            text: "the server failed with an internal error while it worked on the task; send the message again, and inform the operator, whose log has the details".to_owned(),
        };
        let end = self.end(RunEnd::Outcome(outcome)).await;
        self.deactivate(end);
        if self.unstored.is_some() {
            Box::pin(self.persist_until_stored()).await;
        }
    }
}

impl Core {
    /// Marks a task as failed, unless it is terminal or waits for the client. If this panics too, the next recovery finds
    /// the task.
    pub(super) async fn end_panicked(self: &Arc<Self>, task_id: &str, active: &Arc<ActiveTask>) {
        let current = self.active_tasks.get(task_id);
        if current.is_some_and(|current| Arc::ptr_eq(&current, active)) {
            let ended = async {
                match self.store.load(task_id).await {
                    Ok(Some(record))
                        if record.is_terminal() || is_interrupted(&record.task.status.state) =>
                    {
                        active.finish(TaskEnd::Task(Arc::new(record)));
                    }
                    Ok(Some(record)) => {
                        TaskRunner::new(self.clone(), active.clone(), record)
                            .fail()
                            .await;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::error!(task_id, %error, "cannot end a task; the next start of the server ends it");
                    }
                }
            };
            if let Err(error) = catch_async(Box::pin(ended)).await {
                tracing::error!(%error, task_id, "the end of a task panicked");
            }
        }
        self.active_tasks.remove(task_id, active);
        active.finish(TaskEnd::Error(lost()));
    }
}
