//! The tasks that are being worked on here, and how to reach them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use a2a::Message;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::record::Record;
use crate::refusal::{A2aError, ErrorReason};

/// A task that is being worked on, as others see it.
#[derive(Debug)]
pub(super) struct Live {
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
    given: bool,
}

/// How far it has come.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Its message is not kept yet.
    New,
    /// Nothing to be seen yet; it may still be answered at once.
    Quiet,
    /// Something has been seen, or it takes long: it is a task.
    Open,
    /// It is being answered by a message in place of the task.
    Answering,
    /// It is over.
    Done(End),
}

/// How it ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// It is settled, or it waits for its client.
    Stands(Arc<Record>),
    /// It was answered by a message, and there is no task.
    Answer(Box<Message>),
    /// The task is not known any more, or the store does not say.
    Lost(A2aError),
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            canceled: CancellationToken::new(),
            reason: OnceLock::new(),
            state: watch::Sender::new(State {
                phase: Phase::New,
                given: false,
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
    pub(super) fn begin(&self) {
        self.state.send_if_modified(|state| {
            let new = matches!(state.phase, Phase::New);
            if new {
                state.phase = Phase::Quiet;
            }
            new
        });
    }

    /// The task is about to be shown to a client. `false` where it is too late for that: it is answered by a message.
    pub(super) fn give(&self) -> bool {
        let mut shown = true;
        self.state.send_if_modified(|state| {
            shown = !matches!(state.phase, Phase::Answering | Phase::Done(End::Answer(_)));
            let news = shown && !state.given;
            state.given |= shown;
            news
        });
        shown
    }

    /// Answers by a message in place of the task, unless somebody knows the task.
    pub(super) fn withhold(&self) -> bool {
        self.state.send_if_modified(|state| {
            if state.given {
                return false;
            }
            state.phase = Phase::Answering;
            true
        })
    }

    /// It cannot be answered by a message alone any more.
    pub(super) fn open(&self) {
        self.state.send_if_modified(|state| {
            let quiet = matches!(state.phase, Phase::New | Phase::Quiet);
            if quiet {
                state.phase = Phase::Open;
            }
            quiet
        });
    }

    pub(super) fn done(&self, end: End) {
        self.state
            .send_modify(|state| state.phase = Phase::Done(end));
    }

    /// Waits until its message is kept, or nothing came of it.
    pub(super) async fn begun(&self) -> Option<End> {
        self.wait(|phase| !matches!(phase, Phase::New)).await
    }

    /// Waits until it is worth showing: something was seen, it takes long, or it is over.
    pub(super) async fn seen(&self) -> Option<End> {
        self.wait(|phase| matches!(phase, Phase::Open)).await
    }

    /// Waits until it is over.
    pub(super) async fn ended(&self) -> End {
        match self.wait(|_| false).await {
            Some(end) => end,
            None => End::Lost(lost()),
        }
    }

    async fn wait(&self, enough: impl Fn(&Phase) -> bool) -> Option<End> {
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
pub(super) struct Lives(Mutex<HashMap<String, Arc<Live>>>);

impl Lives {
    pub(super) fn get(&self, task_id: &str) -> Option<Arc<Live>> {
        self.locked().get(task_id).cloned()
    }

    pub(super) fn put(&self, task_id: &str, live: Arc<Live>) {
        self.locked().insert(task_id.to_owned(), live);
    }

    /// Takes out this one. The task may be worked on again already.
    pub(super) fn remove(&self, task_id: &str, live: &Arc<Live>) {
        let mut all = self.locked();
        if all
            .get(task_id)
            .is_some_and(|known| Arc::ptr_eq(known, live))
        {
            all.remove(task_id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.locked().len()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
