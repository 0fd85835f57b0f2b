//! Tells everybody in this process who follows a task what happens to it.
//!
//! A listener has a bounded number of changes waiting for it. One that falls further behind, or that missed something for
//! another reason, is given the task anew, so a slow listener holds up nobody and costs no more than a fast one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use a2a::v1_0::TaskState;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::{TaskSubscription, TaskUpdate};
use crate::task_record::{TaskChange, TaskRecord};

/// Changes that wait for a listener before it is given the whole anew.
const MAX_PENDING_EVENTS: usize = 64;

/// A change, or that something was missed.
type TaskEvent = Option<(u64, Arc<TaskChange>)>;

/// Who follows which task. A task that nobody follows costs nothing.
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
    /// A hub with room for `capacity` changes a listener.
    pub fn new(capacity: usize) -> Self {
        Self {
            senders: Arc::default(),
            capacity: capacity.max(1),
        }
    }

    /// Tells of the change that made the task's revision `revision`. It is kept already.
    pub fn publish(&self, task_id: &str, revision: u64, change: &TaskChange) {
        let mut senders = self.locked();
        let Some(sender) = senders.get(task_id) else {
            return;
        };
        // A listener that left takes its entry with it, so there is one.
        let _ = sender.send(Some((revision, Arc::new(change.clone()))));
        if is_terminal_change(change) {
            senders.remove(task_id);
        }
    }

    /// Changes may have been missed, of any task: every listener is given its task anew.
    pub fn resync_all(&self) {
        for sender in self.locked().values() {
            let _ = sender.send(None);
        }
    }

    /// Whether anybody follows the task.
    pub fn has_listeners(&self, task_id: &str) -> bool {
        self.locked().contains_key(task_id)
    }

    /// The task is gone: whoever follows it hears no more.
    pub fn forget(&self, task_id: &str) {
        self.locked().remove(task_id);
    }

    /// Begins to listen. To be called before the task is loaded, so that nothing is missed in between.
    pub fn subscribe(&self, task_id: &str) -> EventListener {
        let mut senders = self.locked();
        let sender = senders
            .entry(task_id.to_owned())
            .or_insert_with(|| Sender::new(self.capacity));
        EventListener {
            receiver: Some(sender.subscribe()),
            events: self.clone(),
            task_id: task_id.to_owned(),
        }
    }

    /// How many tasks are followed.
    pub fn listened_tasks(&self) -> usize {
        self.locked().len()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Sender<TaskEvent>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who listens to a task.
#[derive(Debug)]
pub struct EventListener {
    /// Taken only when it is dropped.
    receiver: Option<Receiver<TaskEvent>>,
    events: TaskEvents,
    task_id: String,
}

impl EventListener {
    /// What follows `record`, which was loaded after the listener began. `reload` loads it again for who fell behind;
    /// `None` from it ends the subscription.
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

    /// Forgets what waits.
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
        let mut senders = self.events.locked();
        // Under the lock, so that of two that leave together the second finds itself the last.
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
    /// The last revision that was passed on.
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
                Ok(_) | Err(RecvError::Lagged(_)) => return self.snapshot().await,
                Err(RecvError::Closed) => return None,
            }
        }
        None
    }

    async fn snapshot(&mut self) -> Option<TaskUpdate> {
        // What waits is older than what is loaded now.
        self.listener.discard_pending();
        let record = (self.reload)(self.listener.task_id.clone()).await?;
        self.last_revision = record.revision;
        self.finished = record.is_terminal();
        Some(TaskUpdate::Snapshot(Box::new(record)))
    }
}

fn is_terminal_change(change: &TaskChange) -> bool {
    matches!(change, TaskChange::Status(status) if TaskState::is_terminal(&status.state))
}

#[cfg(test)]
mod tests;
