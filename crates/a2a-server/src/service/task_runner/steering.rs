//! Messages for a task that is working. The runner of the task stores them, because it alone writes the task, and starts a
//! turn with each when the turn before it has ended. The task has its state in its metadata.

use std::collections::VecDeque;

use a2a::v1_0::{Message, Role, TaskState};
use a2a::{A2aError, ErrorReason, MESSAGES_KEY};
use base::keyed_budget::Reservation;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::persist::outcome_bytes;
use super::{RunEnd, RunRequest, TaskRunner, WriteError};
use crate::executor::Outcome;
use crate::service::active_task::Steering;
use crate::service::core::to_a2a_error;
use crate::service::status;
use crate::store::QueueTicket;
use crate::task_record::{NOT_STARTED, TaskChange, TaskRecord};

/// The message waits for the end of the running turn.
const QUEUED: &str = "queued";

/// A turn with the message has started.
const STARTED: &str = "started";

/// The task ended before the message.
const DROPPED: &str = "dropped";

/// The maximum number of messages of a task that wait for a turn.
const MAX_QUEUED: usize = 16;

/// The messages that wait for a turn.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<(String, Option<Reservation<String>>)>,
    /// The messages and their states, the oldest first.
    states: Vec<(String, &'static str)>,
    received: Option<mpsc::Receiver<Steering>>,
}

impl Queue {
    /// Returns the queue of a task of an earlier process.
    pub(super) fn of(record: &TaskRecord) -> Self {
        let metadata = record.task.metadata.as_ref();
        let states = metadata.and_then(|all| all.get(MESSAGES_KEY)?.as_object());
        let Some(states) = states else {
            return Self::default();
        };
        // The history has their order, which the metadata do not keep.
        let history = record.task.history.iter().flatten();
        let mut queue = Self::default();
        for message in history {
            if let Some(state) = states.get(&message.message_id) {
                let state = [QUEUED, STARTED].into_iter().find(|known| state == known);
                queue.set(&message.message_id, state.unwrap_or(DROPPED));
            }
        }
        let waiting = queue.states.iter().filter(|(_, state)| *state == QUEUED);
        queue.waiting = waiting.map(|(id, _)| (id.clone(), None)).collect();
        queue
    }

    /// Waits for the next message; forever if none can arrive.
    pub(super) async fn next(&mut self) -> Steering {
        if let Some(received) = &mut self.received
            && let Some(steering) = received.recv().await
        {
            return steering;
        }
        std::future::pending().await
    }

    /// Returns whether the message is that of a turn, the running one or an earlier one.
    pub(super) fn is_of_turn(&self, message: &Message) -> bool {
        let is_waiting = |(id, _): &(String, _)| *id == message.message_id;
        message.role == Role::User && !self.waiting.iter().any(is_waiting)
    }

    fn set(&mut self, id: &str, state: &'static str) {
        self.states.retain(|(known, _)| known != id);
        self.states.push((id.to_owned(), state));
        let excess = self.states.len().saturating_sub(2 * MAX_QUEUED);
        self.states.drain(..excess);
    }

    fn change(&self) -> TaskChange {
        let states = self.states.iter();
        let states = states.map(|(id, state)| (id.clone(), Value::from(*state)));
        let states: Map<_, _> = states.collect();
        TaskChange::Metadata([(MESSAGES_KEY.to_owned(), states.into())].into())
    }
}

/// Returns whether the task has taken this message for a later turn: the client has lost the answer and sends it again.
///
/// # Errors
/// The task has another message with this id, so that its turns could not tell them apart.
pub(in crate::service) fn is_retry(
    message: &Message,
    record: &TaskRecord,
) -> Result<bool, A2aError> {
    let mut history = record.task.history.iter().flatten();
    let Some(known) = history.rfind(|known| known.message_id == message.message_id) else {
        return Ok(false);
    };
    let metadata = record.task.metadata.as_ref();
    let state = metadata.and_then(|all| all.get(MESSAGES_KEY)?.get(&message.message_id));
    let is_taken = state.is_some_and(|state| [QUEUED, STARTED].iter().any(|known| state == known));
    let is_same = known.parts == message.parts && known.metadata == message.metadata;
    match is_taken && is_same {
        true => Ok(true),
        false => Err(id_in_use()),
    }
}

fn id_in_use() -> A2aError {
    A2aError::new(
        ErrorReason::UnsupportedOperation,
        "the task has a message with this id already; send a new one with another id",
    )
    .at("message.messageId")
}

impl TaskRunner {
    /// Accepts messages for later turns while one runs, if the settings permit that.
    pub(super) fn open_queue(&mut self) {
        if self.core.settings.while_working.accepts() {
            let (sender, received) = mpsc::channel(1);
            self.queue.received = Some(received);
            self.active.set_steering(Some(sender));
        }
    }

    /// Accepts no further messages. Those that no runner has seen are refused.
    pub(super) fn close_queue(&mut self) -> Option<mpsc::Receiver<Steering>> {
        self.active.set_steering(None);
        self.queue.received.take()
    }

    /// Stores a message for a later turn, and tells its sender.
    pub(in crate::service) async fn accept(
        &mut self,
        steering: Steering,
    ) -> Result<(), WriteError> {
        let Steering {
            message,
            place,
            reply,
        } = steering;
        // Another message with the id may have arrived since the service looked for one.
        let mut known = self.queue.states.iter();
        if known.any(|(id, _)| *id == message.message_id) {
            let _ = reply.send(Err(id_in_use()));
            return Ok(());
        }
        if self.queue.waiting.len() >= MAX_QUEUED {
            let text = format!(
                "{MAX_QUEUED} messages wait for a turn of this task, the maximum; wait until one of them has its turn"
            );
            let _ = reply.send(Err(A2aError::new(ErrorReason::ResourceExhausted, text)));
            return Ok(());
        }
        self.queue.set(&message.message_id, QUEUED);
        let id = message.message_id.clone();
        self.queue.waiting.push_back((id, Some(place)));
        self.has_visible_event = true;
        self.ensure_working();
        self.write_pending(TaskChange::Message(message));
        self.write(self.queue.change()).await?;
        // The quota of the sender does not cover the message any longer, and its turn loads it again.
        self.record.task.history = None;
        self.unloaded = true;
        let _ = reply.send(Ok(()));
        Ok(())
    }

    /// Prepares the turn of the next message that waits. What the ended turn says becomes a status of the working task.
    ///
    /// # Errors
    /// The end of the task: no message waits, the agent failed, or a write did.
    pub(super) async fn next_turn(
        &mut self,
        outcome: Outcome,
    ) -> Result<(QueueTicket, RunRequest), RunEnd> {
        let received = self.close_queue();
        if matches!(outcome, Outcome::Failed { .. } | Outcome::Rejected(_)) {
            return Err(RunEnd::Outcome(outcome));
        }
        if let Some(mut received) = received {
            while let Ok(steering) = received.try_recv() {
                self.accept(steering).await?;
            }
        }
        let Some((id, _)) = self.queue.waiting.pop_front() else {
            return Err(RunEnd::Outcome(outcome));
        };
        self.check_size(outcome_bytes(&outcome))?;
        let parts = match outcome {
            Outcome::Completed(parts) => parts,
            Outcome::Message(parts)
            | Outcome::InputRequired(parts)
            | Outcome::AuthRequired(parts) => Some(parts),
            Outcome::Failed { .. } | Outcome::Rejected(_) => None,
        };
        let status = status::new(self.env(), &self.record, TaskState::Working, parts);
        // Streams show metadata with the status after it.
        self.queue.set(&id, STARTED);
        self.write_pending(self.queue.change());
        // If the server stops before the turn, the next process starts it.
        self.write_pending(TaskChange::Run(NOT_STARTED.to_owned()));
        self.write(TaskChange::Status(status)).await?;
        self.unloaded = true;
        self.message_size = None;
        self.reload().await?;
        self.earlier.add_other(&std::mem::take(&mut self.turn));
        let delegation = self.delegation();
        let (session, task) = (&self.record.session, &self.record.task.id);
        let waiting = self.core.store.enqueue(session, task).await;
        let waiting = waiting.map_err(|error| WriteError::Store(to_a2a_error(error, task)))?;
        Ok((waiting, RunRequest::New { delegation }))
    }

    /// Adds to the pending changes that the messages without a turn will have none.
    pub(super) fn drop_queue(&mut self) {
        drop(self.close_queue());
        let waiting = std::mem::take(&mut self.queue.waiting);
        if waiting.is_empty() {
            return;
        }
        for (id, _) in waiting {
            self.queue.set(&id, DROPPED);
        }
        self.write_pending(self.queue.change());
    }
}
