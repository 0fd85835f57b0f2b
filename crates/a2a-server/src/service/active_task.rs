//! The tasks that this process runs or queues, and their runs. The task runner polls a run of the executor within its
//! own tokio task, so that an event wakes no other task. A panic of the executor fails only this run.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use a2a::v1_0::Message;
use a2a::{A2aError, ErrorReason};
use base::keyed_budget::Reservation;
use base::panics::{Panicked, catch_async};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::executor::{ExecutionEvents, Outcome};
use crate::metrics::Metrics;
use crate::task_record::TaskRecord;

/// The shared state of a task that runs or waits for its run.
#[derive(Debug)]
pub(super) struct ActiveTask {
    /// Cancelled to end the task.
    pub(super) canceled: CancellationToken,
    /// The reason of the first cancellation.
    reason: OnceLock<CancelReason>,
    state: watch::Sender<State>,
    /// Takes messages for the turns after the running one.
    steering: Mutex<Option<SteeringSender>>,
}

/// A message for a task that is working.
#[derive(Debug)]
pub(super) struct Steering {
    pub(super) message: Message,
    /// The place of the message in the queue of its client.
    pub(super) place: Reservation<String>,
    /// Receives whether the task has the message.
    pub(super) reply: oneshot::Sender<Result<(), A2aError>>,
}

/// The channel of messages for a task that is working.
pub(super) type SteeringSender = mpsc::Sender<Steering>;

/// The reason of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelReason {
    /// Its client or the operator requested the cancellation.
    Requested,
    /// The operator removed its client.
    ClientRemoved,
}

#[derive(Debug, Clone)]
struct State {
    phase: Phase,
    /// Whether a client may have seen the task. A message can then no longer replace it.
    exposed: bool,
}

/// The progress of the work on a task.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// The store has not stored the message yet.
    Accepting,
    /// The run has reported no visible event yet. A message may still replace the task.
    Silent,
    /// The run has reported a visible event, or has taken longer than the quiet period.
    Visible,
    /// The agent answers with a message in place of the task.
    Answering,
    /// The work on the task has ended.
    Done(TaskEnd),
}

/// How the work on a task ended.
#[derive(Debug, Clone)]
pub(super) enum TaskEnd {
    /// The task is in a terminal or interrupted state.
    Task(Arc<TaskRecord>),
    /// The agent answered with a message in place of the task.
    Message(Box<Message>),
    /// The task has been deleted, or the store failed.
    Error(A2aError),
}

impl ActiveTask {
    pub(super) fn new() -> Self {
        Self {
            canceled: CancellationToken::new(),
            reason: OnceLock::new(),
            state: watch::Sender::new(State {
                phase: Phase::Accepting,
                exposed: false,
            }),
            steering: Mutex::new(None),
        }
    }

    /// Sets what takes messages for the turns after the running one.
    pub(super) fn set_steering(&self, steering: Option<SteeringSender>) {
        *self.steering.lock() = steering;
    }

    /// Returns what takes messages for the turns after the running one.
    pub(super) fn steering(&self) -> Option<SteeringSender> {
        self.steering.lock().clone()
    }

    /// Cancels the task. If it is canceled already, the first reason remains.
    pub(super) fn cancel(&self, reason: CancelReason) {
        self.reason.get_or_init(|| reason);
        self.canceled.cancel();
    }

    /// Returns the reason of the first cancellation.
    pub(super) fn reason(&self) -> CancelReason {
        let reason = self.reason.get();
        reason.copied().unwrap_or(CancelReason::Requested)
    }

    /// Records that the store has the message.
    pub(super) fn mark_stored(&self) {
        self.modify(|state| {
            let new = matches!(state.phase, Phase::Accepting);
            if new {
                state.phase = Phase::Silent;
            }
            new
        });
    }

    /// Records that a client has seen the task. Returns `false` if the agent has already answered with a message in its
    /// place.
    pub(super) fn expose(&self) -> bool {
        let mut visible = true;
        self.modify(|state| {
            visible = !matches!(
                state.phase,
                Phase::Answering | Phase::Done(TaskEnd::Message(_))
            );
            let changed = visible && !state.exposed;
            state.exposed |= visible;
            changed
        });
        visible
    }

    /// Replaces the task by a message. Returns `false` if a client may have seen the task.
    pub(super) fn try_answer_directly(&self) -> bool {
        self.modify(|state| {
            if state.exposed {
                return false;
            }
            state.phase = Phase::Answering;
            true
        })
    }

    /// Makes the task visible, so that a message can no longer replace it.
    pub(super) fn mark_visible(&self) {
        self.modify(|state| {
            let quiet = matches!(state.phase, Phase::Accepting | Phase::Silent);
            if quiet {
                state.phase = Phase::Visible;
            }
            quiet
        });
    }

    /// Records the end of the work. The first end remains.
    pub(super) fn finish(&self, end: TaskEnd) {
        self.modify(|state| {
            let first = !matches!(state.phase, Phase::Done(_));
            if first {
                state.phase = Phase::Done(end);
            }
            first
        });
    }

    /// Changes the state and returns whether `change` changed it. Wakes the waiters only if there are some, because that costs
    /// more than the change. A later one reads the state first, after this has released its lock.
    fn modify(&self, change: impl FnOnce(&mut State) -> bool) -> bool {
        let mut changed = false;
        self.state.send_if_modified(|state| {
            changed = change(state);
            changed && self.state.receiver_count() > 0
        });
        changed
    }

    /// Waits until the store has the message. Returns the end of the work if the work ends first.
    pub(super) async fn wait_stored(&self) -> Option<TaskEnd> {
        self.wait(|phase| !matches!(phase, Phase::Accepting)).await
    }

    /// Waits until the task is visible. Returns the end of the work if the work ends first.
    pub(super) async fn wait_visible(&self) -> Option<TaskEnd> {
        self.wait(|phase| matches!(phase, Phase::Visible)).await
    }

    /// Returns the end of the work, if the work has ended.
    pub(super) fn end(&self) -> Option<TaskEnd> {
        match &self.state.borrow().phase {
            Phase::Done(end) => Some(end.clone()),
            _ => None,
        }
    }

    /// Waits until the work on the task has ended.
    pub(super) async fn wait_ended(&self) -> TaskEnd {
        match self.wait(|_| false).await {
            Some(end) => end,
            None => TaskEnd::Error(lost()),
        }
    }

    async fn wait(&self, enough: impl Fn(&Phase) -> bool) -> Option<TaskEnd> {
        let mut states = self.state.subscribe();
        let state = states
            .wait_for(|state| enough(&state.phase) || matches!(state.phase, Phase::Done(_)))
            .await;
        match state.map(|state| state.phase.clone()) {
            Ok(Phase::Done(end)) => Some(end),
            _ => None,
        }
    }
}

pub(super) fn lost() -> A2aError {
    A2aError::new(
        ErrorReason::InternalError,
        "the work on the task ended without a result; get the task by its id",
    )
}

/// All active tasks by id.
#[derive(Debug, Default)]
pub(super) struct ActiveTasks {
    tasks: Mutex<HashMap<String, Arc<ActiveTask>>>,
    /// Notified when the last task has been removed.
    empty: Notify,
}

impl ActiveTasks {
    pub(super) fn get(&self, task_id: &str) -> Option<Arc<ActiveTask>> {
        self.tasks.lock().get(task_id).cloned()
    }

    pub(super) fn insert(&self, task_id: &str, active: Arc<ActiveTask>) {
        self.tasks.lock().insert(task_id.to_owned(), active);
    }

    /// Removes the entry, unless a later run of the same task has replaced it.
    pub(super) fn remove(&self, task_id: &str, active: &Arc<ActiveTask>) {
        let mut all = self.tasks.lock();
        if all
            .get(task_id)
            .is_some_and(|known| Arc::ptr_eq(known, active))
        {
            all.remove(task_id);
            if all.is_empty() {
                self.empty.notify_waiters();
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.lock().len()
    }

    /// Waits until no task is active.
    pub(super) async fn wait_empty(&self) {
        loop {
            let mut empty = std::pin::pin!(self.empty.notified());
            // Wait for the notification before the check, so that it is not missed in between.
            empty.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            empty.await;
        }
    }
}

/// The function that starts a run or reattaches to one.
pub(super) type Start =
    Box<dyn FnOnce(ExecutionEvents, CancellationToken) -> BoxFuture<'static, Outcome> + Send>;

/// How long a canceled run may take to stop before the server drops it.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A run. Dropping it stops the run.
pub(super) struct Running {
    outcome: BoxFuture<'static, Result<Outcome, Panicked>>,
    stop: CancellationToken,
    began: Instant,
    metrics: Metrics,
}

impl Running {
    pub(super) fn start(metrics: Metrics, events: ExecutionEvents, start: Start) -> Self {
        let stop = CancellationToken::new();
        let cancel = stop.clone();
        metrics.record_run_start();
        Self {
            outcome: Box::pin(catch_async(async move { start(events, cancel).await })),
            stop,
            began: Instant::now(),
            metrics,
        }
    }

    /// Waits for the outcome. Must not be called again after it has returned.
    pub(super) async fn outcome(&mut self) -> Outcome {
        match (&mut self.outcome).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::error!(%error, "a run of the executor panicked");
                Outcome::Failed {
                    reason: "internal",
                    text: "the run failed with an internal error; contact the operator, whose log has the details".to_owned(),
                }
            }
        }
    }

    /// Cancels the run, and drops it if it does not stop in time.
    pub(super) async fn stop(mut self, dropping: &CancellationToken, task_id: &str) {
        self.stop.cancel();
        tokio::select! {
            biased;
            _ = &mut self.outcome => return,
            () = dropping.cancelled() => {}
            () = sleep(STOP_TIMEOUT) => {}
        }
        tracing::warn!(
            task_id,
            "a canceled run did not stop in time and is dropped"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.metrics.record_run_end(self.began.elapsed());
    }
}
