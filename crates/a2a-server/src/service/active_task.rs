//! The tasks that are being worked on here, and how to reach them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use a2a::v1_0::Message;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::task_record::TaskRecord;
use a2a::{A2aError, ErrorReason};

/// A task that is being worked on, as others see it.
#[derive(Debug)]
pub(super) struct ActiveTask {
    /// Asks for its end.
    pub(super) canceled: CancellationToken,
    /// Who asked first, and why.
    reason: OnceLock<CancelReason>,
    state: watch::Sender<State>,
}

/// Why a task is canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelReason {
    /// Its client or the operator asked for it.
    Requested,
    /// The operator removed its client.
    ClientRemoved,
}

#[derive(Debug, Clone)]
struct State {
    phase: Phase,
    /// A client knows of the task, so that it cannot be answered by a message in its place.
    exposed: bool,
}

/// How far it has come.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Its message is not kept yet.
    Accepting,
    /// Nothing to be seen yet; it may still be answered at once.
    Silent,
    /// Something has been seen, or it takes long: it is a task.
    Visible,
    /// It is being answered by a message in place of the task.
    Answering,
    /// It is over.
    Done(TaskEnd),
}

/// How it ended.
#[derive(Debug, Clone)]
pub(super) enum TaskEnd {
    /// It is settled, or it waits for its client.
    Task(Arc<TaskRecord>),
    /// It was answered by a message, and there is no task.
    Message(Box<Message>),
    /// The task is not known any more, or the store does not say.
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

    /// Asks for its end. The first reason counts.
    pub(super) fn cancel(&self, reason: CancelReason) {
        self.reason.get_or_init(|| reason);
        self.canceled.cancel();
    }

    /// Why its end was asked for.
    pub(super) fn reason(&self) -> CancelReason {
        let reason = self.reason.get();
        reason.copied().unwrap_or(CancelReason::Requested)
    }

    /// Its message is kept.
    pub(super) fn mark_stored(&self) {
        self.state.send_if_modified(|state| {
            let new = matches!(state.phase, Phase::Accepting);
            if new {
                state.phase = Phase::Silent;
            }
            new
        });
    }

    /// The task is about to be shown to a client. `false` where it is too late for that: it is answered by a message.
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

    /// Answers by a message in place of the task, unless somebody knows the task.
    pub(super) fn try_answer_directly(&self) -> bool {
        self.state.send_if_modified(|state| {
            if state.exposed {
                return false;
            }
            state.phase = Phase::Answering;
            true
        })
    }

    /// It cannot be answered by a message alone any more.
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

    /// Waits until its message is kept, or nothing came of it.
    pub(super) async fn wait_stored(&self) -> Option<TaskEnd> {
        self.wait(|phase| !matches!(phase, Phase::Accepting)).await
    }

    /// Waits until it is worth showing: something was seen, it takes long, or it is over.
    pub(super) async fn wait_visible(&self) -> Option<TaskEnd> {
        self.wait(|phase| matches!(phase, Phase::Visible)).await
    }

    /// Waits until it is over.
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
        "the task was lost sight of; ask for it by its id",
    )
}

/// All of them, by the task's id.
#[derive(Debug, Default)]
pub(super) struct ActiveTasks(Mutex<HashMap<String, Arc<ActiveTask>>>);

impl ActiveTasks {
    pub(super) fn get(&self, task_id: &str) -> Option<Arc<ActiveTask>> {
        self.locked().get(task_id).cloned()
    }

    pub(super) fn insert(&self, task_id: &str, active: Arc<ActiveTask>) {
        self.locked().insert(task_id.to_owned(), active);
    }

    /// Takes out this one. The task may be worked on again already.
    pub(super) fn remove(&self, task_id: &str, active: &Arc<ActiveTask>) {
        let mut all = self.locked();
        if all
            .get(task_id)
            .is_some_and(|known| Arc::ptr_eq(known, active))
        {
            all.remove(task_id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.locked().len()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Arc<ActiveTask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
