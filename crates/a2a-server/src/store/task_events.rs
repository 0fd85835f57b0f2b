//! Distributes the changes of tasks to the subscribers in this process.
//!
//! Each subscriber has a bounded buffer. A subscriber that falls behind, or may have missed a change, receives a
//! snapshot of the task. A slow subscriber therefore neither delays other subscribers nor needs more memory than a fast
//! one.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use a2a::v1_0::TaskState;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::{TaskSubscription, TaskUpdate};
use crate::task_record::{TaskChange, TaskRecord};

/// The capacity of a subscriber's buffer. A subscriber with more pending changes receives a snapshot.
const MAX_PENDING_EVENTS: usize = 64;

/// A change with its revision; `None` if the subscriber may have missed changes.
type TaskEvent = Option<(u64, Arc<TaskChange>)>;

/// The subscribers of each task. A task without subscribers takes no memory.
#[derive(Debug, Clone)]
pub struct TaskEvents {
    senders: Arc<Mutex<HashMap<String, Sender<TaskEvent>>>>,
    capacity: usize,
}

impl Default for TaskEvents {
    fn default() -> Self {
        Self::new(MAX_PENDING_EVENTS)
    }
}

impl TaskEvents {
    /// Creates a registry whose subscribers buffer `capacity` changes each.
    pub fn new(capacity: usize) -> Self {
        Self {
            senders: Arc::default(),
            capacity: capacity.max(1),
        }
    }

    /// Publishes a stored change, which resulted in `revision`.
    pub fn publish(&self, task_id: &str, revision: u64, change: &TaskChange) {
        let mut senders = self.senders.lock();
        let Some(sender) = senders.get(task_id) else {
            return;
        };
        // The send fails only without receivers.
        let _ = sender.send(Some((revision, Arc::new(change.clone()))));
        if is_terminal_change(change) {
            senders.remove(task_id);
        }
    }

    /// Makes every subscriber load a snapshot, because it may have missed changes.
    pub fn resync_all(&self) {
        for sender in self.senders.lock().values() {
            let _ = sender.send(None);
        }
    }

    /// Makes the subscribers of a task load a snapshot.
    pub fn resync(&self, task_id: &str) {
        if let Some(sender) = self.senders.lock().get(task_id) {
            let _ = sender.send(None);
        }
    }

    /// Returns whether the task has subscribers.
    pub fn has_listeners(&self, task_id: &str) -> bool {
        self.senders.lock().contains_key(task_id)
    }

    /// Ends the subscriptions to a deleted task.
    pub fn forget(&self, task_id: &str) {
        self.senders.lock().remove(task_id);
    }

    /// Subscribes to a task. Call this before loading the task, so that no change in between is missed.
    pub fn subscribe(&self, task_id: &str) -> EventListener {
        let mut senders = self.senders.lock();
        let sender = senders
            .entry(task_id.to_owned())
            .or_insert_with(|| Sender::new(self.capacity));
        EventListener {
            receiver: Some(sender.subscribe()),
            events: self.clone(),
            task_id: task_id.to_owned(),
        }
    }
}

/// A subscriber of a task.
#[derive(Debug)]
pub struct EventListener {
    /// Always `Some` until the listener is dropped.
    receiver: Option<Receiver<TaskEvent>>,
    events: TaskEvents,
    task_id: String,
}

impl EventListener {
    /// Returns the changes after `record`, which the caller loaded after it subscribed. `reload` loads the task for a
    /// subscriber that fell behind. If it returns `None`, the stream ends.
    pub fn subscription<R>(self, record: TaskRecord, reload: R) -> TaskSubscription
    where
        R: Fn(String) -> BoxFuture<'static, Option<TaskRecord>> + Send + 'static,
    {
        if record.is_terminal() {
            return TaskSubscription {
                record,
                updates: stream::empty().boxed(),
            };
        }
        let state = SubscriptionState {
            last_revision: record.revision,
            finished: false,
            listener: self,
            reload,
        };
        TaskSubscription {
            record,
            updates: state.updates(),
        }
    }

    /// Drops the buffered changes.
    fn discard_pending(&mut self) {
        self.receiver = self.receiver.take().map(|receiver| receiver.resubscribe());
    }

    async fn next(&mut self) -> Result<TaskEvent, RecvError> {
        match &mut self.receiver {
            Some(receiver) => receiver.recv().await,
            None => Err(RecvError::Closed),
        }
    }
}

impl Drop for EventListener {
    fn drop(&mut self) {
        let mut senders = self.events.senders.lock();
        // Drop the receiver under the lock, so that the last of two concurrent drops removes the entry.
        self.receiver = None;
        if senders
            .get(&self.task_id)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            senders.remove(&self.task_id);
        }
    }
}

struct SubscriptionState<R> {
    listener: EventListener,
    reload: R,
    /// The revision of the last item that the subscriber received.
    last_revision: u64,
    finished: bool,
}

impl<R> SubscriptionState<R>
where
    R: Fn(String) -> BoxFuture<'static, Option<TaskRecord>> + Send + 'static,
{
    fn updates(self) -> BoxStream<'static, TaskUpdate> {
        stream::unfold(self, |mut state| async move {
            let updates = state.next().await?;
            Some((updates, state))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<TaskUpdate> {
        while !self.finished {
            match self.listener.next().await {
                Ok(Some((revision, _))) if revision <= self.last_revision => {}
                Ok(Some((revision, change))) if revision == self.last_revision + 1 => {
                    self.last_revision = revision;
                    self.finished = is_terminal_change(&change);
                    return Some(TaskUpdate::Change(revision, change));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    // Buffered changes are older than the snapshot.
                    self.listener.discard_pending();
                    let record = (self.reload)(self.listener.task_id.clone()).await?;
                    // The record that the subscriber began with may have all changes that the buffer lost.
                    if record.revision > self.last_revision {
                        self.last_revision = record.revision;
                        self.finished = record.is_terminal();
                        return Some(TaskUpdate::Snapshot(Box::new(record)));
                    }
                }
                Err(RecvError::Closed) => return None,
            }
        }
        None
    }
}

fn is_terminal_change(change: &TaskChange) -> bool {
    matches!(change, TaskChange::Status(status) if TaskState::is_terminal(&status.state))
}

#[cfg(test)]
mod tests;
