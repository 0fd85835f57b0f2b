//! The tasks that this process works on.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use a2a::v1_0::Message;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::task_record::TaskRecord;
use a2a::{A2aError, ErrorReason};

/// The shared state of a task that runs or waits.
#[derive(Debug)]
pub(super) struct ActiveTask {
    /// Requests the end of the task.
    pub(super) canceled: CancellationToken,
    /// The reason of the first request.
    reason: OnceLock<CancelReason>,
    state: watch::Sender<State>,
}

/// Why a task is canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelReason {
    /// Its client or the operator canceled it.
    Requested,
    /// The operator removed its client.
    ClientRemoved,
}

#[derive(Debug, Clone)]
struct State {
    phase: Phase,
    /// Whether a client may know the task, so that no message can replace it.
    exposed: bool,
}

/// The progress of a task.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// The store does not have its message yet.
    Accepting,
    /// Without visible events so far; a message may still replace it.
    Silent,
    /// It had an event, or takes long.
    Visible,
    /// A message replaces it.
    Answering,
    /// It ended.
    Done(TaskEnd),
}

/// The end of the work on a task.
#[derive(Debug, Clone)]
pub(super) enum TaskEnd {
    /// The task is terminal or interrupted.
    Task(Arc<TaskRecord>),
    /// A message replaced the task.
    Message(Box<Message>),
    /// The task does not exist any more, or the store failed.
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
        }
    }

    /// Cancels the task. The first reason counts.
    pub(super) fn cancel(&self, reason: CancelReason) {
        self.reason.get_or_init(|| reason);
        self.canceled.cancel();
    }

    /// Returns why the task was canceled.
    pub(super) fn reason(&self) -> CancelReason {
        let reason = self.reason.get();
        reason.copied().unwrap_or(CancelReason::Requested)
    }

    /// Marks the message as stored.
    pub(super) fn mark_stored(&self) {
        self.state.send_if_modified(|state| {
            let new = matches!(state.phase, Phase::Accepting);
            if new {
                state.phase = Phase::Silent;
            }
            new
        });
    }

    /// Marks the task as shown to a client. Returns `false` if a message already replaces it.
    pub(super) fn expose(&self) -> bool {
        let mut shown = true;
        self.state.send_if_modified(|state| {
            shown = !matches!(
                state.phase,
                Phase::Answering | Phase::Done(TaskEnd::Message(_))
            );
            let news = shown && !state.exposed;
            state.exposed |= shown;
            news
        });
        shown
    }

    /// Lets a message replace the task. Returns `false` if a client may know the task.
    pub(super) fn try_answer_directly(&self) -> bool {
        self.state.send_if_modified(|state| {
            if state.exposed {
                return false;
            }
            state.phase = Phase::Answering;
            true
        })
    }

    /// Rules out that a message replaces the task.
    pub(super) fn mark_visible(&self) {
        self.state.send_if_modified(|state| {
            let quiet = matches!(state.phase, Phase::Accepting | Phase::Silent);
            if quiet {
                state.phase = Phase::Visible;
            }
            quiet
        });
    }

    pub(super) fn finish(&self, end: TaskEnd) {
        self.state
            .send_modify(|state| state.phase = Phase::Done(end));
    }

    /// Waits until the store has the message, or the work ended.
    pub(super) async fn wait_stored(&self) -> Option<TaskEnd> {
        self.wait(|phase| !matches!(phase, Phase::Accepting)).await
    }

    /// Waits until the task is visible, or the work ended.
    pub(super) async fn wait_visible(&self) -> Option<TaskEnd> {
        self.wait(|phase| matches!(phase, Phase::Visible)).await
    }

    /// Waits until the work ended.
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

fn lost() -> A2aError {
    A2aError::new(
        ErrorReason::InternalError,
        "the work on the task ended without a result; get the task by its id",
    )
}

/// The active tasks by id.
#[derive(Debug, Default)]
pub(super) struct ActiveTasks(Mutex<HashMap<String, Arc<ActiveTask>>>);

impl ActiveTasks {
    pub(super) fn get(&self, task_id: &str) -> Option<Arc<ActiveTask>> {
        self.0.lock().get(task_id).cloned()
    }

    pub(super) fn insert(&self, task_id: &str, active: Arc<ActiveTask>) {
        self.0.lock().insert(task_id.to_owned(), active);
    }

    /// Removes this entry, unless another run of the task has replaced it.
    pub(super) fn remove(&self, task_id: &str, active: &Arc<ActiveTask>) {
        let mut all = self.0.lock();
        if all
            .get(task_id)
            .is_some_and(|known| Arc::ptr_eq(known, active))
        {
            all.remove(task_id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
