//! The start of runs: the permits that a run waits for, and the tasks that the server leaves to another process when it
//! stops.

use a2a::DELEGATION_KEY;
use a2a::ErrorReason;
use a2a::v1_0::Message;
use base::json::encoded_bytes;
use base::run_slots::RunSlot;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::sleep;

use super::{QUIET_PERIOD, RunEnd, RunRequest, TaskRunner, UNLOAD_BYTES, WriteError};
use crate::executor::{ExecutionEvent, Outcome, RunInput};
use crate::service::active_task::{Running, Start};
use crate::service::core::to_a2a_error;
use crate::service::status;
use crate::store::{QueuePermit, QueueTicket, StoreError};
use crate::task_record::{NOT_STARTED, TaskChange, TaskRecord};

/// The capacity of the channel of events.
const EVENT_CAPACITY: usize = 16;

impl TaskRunner {
    /// Starts the run.
    pub(super) fn start(&mut self, request: RunRequest) -> (Running, Receiver<ExecutionEvent>) {
        let start = self.start_fn(request);
        let (events, received) = mpsc::channel(EVENT_CAPACITY);
        let running = Running::start(self.core.metrics.clone(), events, start);
        (running, received)
    }

    /// Returns the position of the client's newest message in a chain of delegations.
    pub(in crate::service) fn delegation(&self) -> Option<serde_json::Value> {
        let mut history = self.record.task.history.iter().flatten();
        delegation(history.rfind(|message| self.queue.is_of_turn(message))?)
    }

    /// Returns the function that starts the run. A large message moves into the run, and the runner loads it again
    /// afterwards.
    fn start_fn(&mut self, request: RunRequest) -> Start {
        let executor = self.core.executor.clone();
        let cut = || Outcome::Failed {
            reason: status::INTERRUPTED,
            text: status::CUT.to_owned(),
        };
        let history = self.record.task.history.take().unwrap_or_default();
        self.continued = history.len() > 1;
        let queue = &self.queue;
        let is_request = |message: &Message| queue.is_of_turn(message);
        let size = self.message_size;
        let message = if size.unwrap_or_else(|| encoded_bytes(&history)) >= UNLOAD_BYTES {
            self.unloaded = true;
            history.into_iter().rfind(is_request)
        } else {
            let message = history.iter().rfind(|message| is_request(message)).cloned();
            self.record.task.history = Some(history).filter(|history| !history.is_empty());
            message
        };
        let Some(message) = message else {
            return Box::new(move |_, _| Box::pin(std::future::ready(cut())));
        };
        match request {
            RunRequest::New { delegation } => {
                let input = input(&self.record, message, delegation);
                Box::new(move |events, cancel| executor.run(input, events, cancel))
            }
            RunRequest::Reattach(run) => {
                let delegation = delegation(&message);
                let input = input(&self.record, message, delegation);
                Box::new(move |events, cancel| {
                    let again = executor.reattach(input, run, events, cancel);
                    Box::pin(async move {
                        match again {
                            Some(outcome) => outcome.await,
                            None => cut(),
                        }
                    })
                })
            }
        }
    }
}

/// Returns the position of a message in a chain of delegations.
fn delegation(message: &Message) -> Option<serde_json::Value> {
    message.metadata.as_ref()?.get(DELEGATION_KEY).cloned()
}

/// Creates the input of the executor.
fn input(record: &TaskRecord, message: Message, delegation: Option<serde_json::Value>) -> RunInput {
    RunInput {
        task_id: record.task.id.clone(),
        context_id: record.task.context_id.clone(),
        session: record.session.clone(),
        agent: record.agent.clone(),
        client: record.owner.clone(),
        message,
        delegation,
    }
}

/// The permits that a run needs: the head of the session's queue, and one of the concurrent runs.
pub(super) struct RunPermit {
    _turn: QueuePermit,
    _slot: RunSlot,
}

impl TaskRunner {
    /// Waits for the permits.
    pub(super) async fn acquire_permit(
        &mut self,
        waiting: QueueTicket,
    ) -> Result<RunPermit, RunEnd> {
        let (slots, client) = (self.core.slots.clone(), self.record.owner.clone());
        let permit = async move {
            let turn = waiting.await?;
            let slot = slots
                .acquire(&client)
                .await
                .ok_or_else(|| StoreError::Failed("the server starts no more runs".to_owned()))?;
            Ok(RunPermit {
                _turn: turn,
                _slot: slot,
            })
        };
        tokio::pin!(permit);
        // A block, which creates the timer only if the run has to wait.
        let quiet = async { sleep(QUIET_PERIOD).await };
        tokio::pin!(quiet);
        let mut is_visible = false;
        loop {
            tokio::select! {
                biased;
                // First, because most permits are ready at once: then no waiters for the ends are registered.
                permit = &mut permit => {
                    if let Some(ending) = self.stop_reason() {
                        return Err(ending);
                    }
                    let permit = permit.map_err(|error: StoreError| {
                        RunEnd::WriteError(WriteError::Store(to_a2a_error(error, &self.record.task.id)))
                    })?;
                    return match self.core.make_room(&self.record.owner, 0, true).await {
                        Err(error) if error.reason == ErrorReason::ResourceExhausted => {
                            Err(RunEnd::NoRoom)
                        }
                        // If the store fails here, the first write of the run reports the error.
                        _ => Ok(permit),
                    };
                }
                () = self.active.canceled.cancelled() => return Err(RunEnd::Canceled),
                () = self.core.closing.cancelled() => return Err(RunEnd::ServerStopped),
                () = &mut quiet, if !is_visible => {
                    is_visible = true;
                    self.active.mark_visible();
                    self.unload();
                }
            }
        }
    }

    /// Drops the body of a waiting task from memory, because many tasks may wait while few run.
    fn unload(&mut self) {
        let task = &mut self.record.task;
        (task.history, task.artifacts, task.metadata) = (None, None, None);
        self.unloaded = true;
        self.weight = None;
    }
}

impl TaskRunner {
    /// Applies the events that are in the channel if the server stops: they happened before, and one of them may name
    /// the run.
    pub(super) async fn apply_before(
        &mut self,
        ending: RunEnd,
        events: &mut Receiver<ExecutionEvent>,
    ) -> RunEnd {
        match ending {
            RunEnd::ServerStopped => self.apply_waiting(events).await.err().unwrap_or(ending),
            ending => ending,
        }
    }

    /// Returns the end of a task whose run the server left: the next process reattaches to a run with a name.
    pub(super) async fn leave(&mut self) -> RunEnd {
        match self.is_named && self.core.store.outlives_process() {
            true => self
                .flush()
                .await
                .map_or_else(RunEnd::WriteError, |()| RunEnd::Left),
            false => RunEnd::ServerStopped,
        }
    }

    /// Stores that a run starts which an earlier process left, so that no later process starts it again.
    pub(super) async fn mark_started(&mut self) -> Result<(), WriteError> {
        match self.record.run.as_deref() {
            Some(NOT_STARTED) => self.write(TaskChange::Started).await,
            _ => Ok(()),
        }
    }

    /// Returns the end of a task whose run has not started: the next process starts it.
    pub(super) async fn leave_queued(&mut self, request: &RunRequest) -> RunEnd {
        if !self.core.store.outlives_process() {
            return RunEnd::ServerStopped;
        }
        // The name of an earlier run stays valid.
        if matches!(request, RunRequest::New { .. }) {
            self.pending.push(TaskChange::Run(NOT_STARTED.to_owned()));
        }
        self.flush()
            .await
            .map_or_else(RunEnd::WriteError, |()| RunEnd::Left)
    }
}
