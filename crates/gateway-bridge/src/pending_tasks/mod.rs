//! Tasks for gateways that have none: each message becomes a task with its reply.
//!
//! Tasks outlive connections. The bridge stores a late reply for a later query and never assigns it to another message. It
//! stores 256 tasks for a day, with a total size of at most eight times the frame size. It never evicts a task with a
//! subscriber.

mod render;
mod stream;
mod task;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;

use a2a::Task;
use collective::{ErrorCode, MAX_FRAME_BYTES};
use peer::{Delivered, PeerError, PeerErrorKind};

pub(super) use render::TaskOutcome;
pub(super) use task::{AwaitGuard, PendingTask, Resend, TaskKind};

/// The maximum number of tasks.
const MAX_TASKS: usize = 256;

/// The maximum total size of the tasks in bytes: messages to send again, status texts and replies. Eight replies of the
/// maximum size fit, or 32 kB for each of the 256 tasks.
const MAX_TOTAL_BYTES: usize = 8 * MAX_FRAME_BYTES;

/// The time to live of a task.
const TASK_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The tasks of one instance.
pub(super) struct PendingTasks {
    index: Mutex<TaskIndex>,
    /// The approximate size of the tasks.
    bytes: Arc<AtomicUsize>,
}

struct TaskIndex {
    /// The tasks by correlation id, which a message and its replies share.
    entries: LruCache<String, Arc<PendingTask>>,
    /// The correlation id by message id.
    by_message: HashMap<String, String>,
}

impl PendingTasks {
    pub(super) fn new() -> Self {
        Self {
            index: Mutex::new(TaskIndex {
                entries: LruCache::unbounded(),
                by_message: HashMap::new(),
            }),
            bytes: Arc::default(),
        }
    }

    /// Adds the task of a message that is about to be sent.
    pub(super) fn insert(&self, entry: PendingTask) -> Arc<PendingTask> {
        let entry = Arc::new(entry.with_budget(&self.bytes));
        let mut index = self.index.lock();
        index.evict(MAX_TASKS - 1, &self.bytes);
        index
            .by_message
            .insert(entry.message_id.clone(), entry.id.clone());
        index.entries.put(entry.id.clone(), Arc::clone(&entry));
        entry
    }

    /// Removes the least recently used tasks while all of them exceed the byte budget.
    pub(super) fn evict(&self) {
        if self.bytes.load(Ordering::SeqCst) > MAX_TOTAL_BYTES {
            self.index.lock().evict(MAX_TASKS, &self.bytes);
        }
    }

    /// Removes the task of a message that was not sent.
    pub(super) fn remove(&self, entry: &PendingTask) {
        let mut index = self.index.lock();
        index.entries.pop(&entry.id);
        index.by_message.remove(&entry.message_id);
    }

    /// Returns the task of a correlation id.
    pub(super) fn by_correlation_id(&self, id: &str) -> Option<Arc<PendingTask>> {
        let mut index = self.index.lock();
        let entry = Arc::clone(index.entries.get(id)?);
        if entry.age() < TASK_TTL {
            return Some(entry);
        }
        index.entries.pop(id);
        index.by_message.remove(&entry.message_id);
        None
    }

    /// Returns the task of a message id.
    pub(super) fn by_message_id(&self, id: &str) -> Option<Arc<PendingTask>> {
        let correlation = self.index.lock().by_message.get(id).cloned()?;
        self.by_correlation_id(&correlation)
    }

    /// Returns the only message that waits for its answer; `None` if there are several.
    pub(super) fn only_unfinished(&self) -> Option<Arc<PendingTask>> {
        let open = self.unfinished();
        match open.as_slice() {
            [one] => Some(Arc::clone(one)),
            _ => None,
        }
    }

    /// Returns the tasks without a reply.
    pub(super) fn unfinished(&self) -> Vec<Arc<PendingTask>> {
        let index = self.index.lock();
        let entries = index.entries.iter().map(|(_, entry)| entry);
        entries
            .filter(|entry| !entry.is_terminal())
            .cloned()
            .collect()
    }

    /// Returns a task of this agent, by its id or its message's id.
    pub(super) fn find(&self, agent: &str, id: &str) -> Option<Arc<PendingTask>> {
        self.by_correlation_id(id)
            .or_else(|| self.by_message_id(id))
            .filter(|entry| entry.agent == agent)
    }

    /// Finds a task like [`find`](Self::find).
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`].
    pub(super) fn get(&self, agent: &str, id: &str) -> Result<Arc<PendingTask>, PeerError> {
        self.find(agent, id).ok_or_else(|| {
            let message = "unknown task: the gateway keeps no tasks, and this process remembers its messages for a day at most; the agent may still work, but its answer cannot be fetched";
            let mut error = PeerError::new(PeerErrorKind::TaskForgotten, message);
            error.delivered = Delivered::Unknown;
            error
        })
    }

    /// Returns the task in its current state.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`].
    pub(super) fn task(&self, agent: &str, id: &str) -> Result<Task, PeerError> {
        self.get(agent, id)?.task()
    }

    /// Stops waiting for the answer. The protocols of these gateways cannot withdraw a message.
    ///
    /// # Errors
    /// [`PeerErrorKind::TaskForgotten`].
    pub(super) fn cancel(&self, agent: &str, id: &str) -> Result<Task, PeerError> {
        let entry = self.get(agent, id)?;
        entry.finish(TaskOutcome::Canceled);
        entry.task()
    }

    /// Handles a lost connection. Messages fail and are not sent again. A proposal waits for its decision on the next
    /// connection. If the gateway `dismissed` the client, only a new call reconnects.
    pub(super) fn connection_lost(&self, reason: &str, dismissed: bool) {
        for entry in self.unfinished() {
            entry.connection_lost(reason, dismissed);
        }
    }

    /// Records a new connection. Returns whether a proposal waits for its decision.
    pub(super) fn reopen(&self) -> bool {
        let index = self.index.lock();
        let entries = index.entries.iter();
        entries.fold(false, |any, (_, entry)| entry.reopen() || any)
    }
}

impl TaskIndex {
    /// Removes tasks without subscribers, the least recently used first, until at most `max_entries` remain and they fit
    /// into the byte budget.
    fn evict(&mut self, max_entries: usize, bytes: &AtomicUsize) {
        while self.entries.len() > max_entries || bytes.load(Ordering::SeqCst) > MAX_TOTAL_BYTES {
            let unreferenced = |entry: &Arc<PendingTask>| Arc::strong_count(entry) == 1;
            let mut oldest_first = self.entries.iter().rev();
            let Some((id, message)) = oldest_first
                .find(|(_, entry)| unreferenced(entry))
                .map(|(id, entry)| (id.clone(), entry.message_id.clone()))
            else {
                return;
            };
            self.entries.pop(&id);
            self.by_message.remove(&message);
        }
    }
}

/// Estimates the memory of a value: its texts, and the size of each value.
fn estimated_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(estimated_bytes).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| size_of::<String>() + name.len() + estimated_bytes(value))
            .sum(),
        _ => 0,
    };
    size_of::<Value>() + inside
}

/// Returns the error of a connection that was lost after a message was sent.
pub(super) fn connection_reset(reason: &str) -> PeerError {
    let message = format!("the connection to the gateway was lost: {reason}");
    PeerError::new(PeerErrorKind::Gateway(ErrorCode::ConnectionReset), message)
}

#[cfg(test)]
mod tests;
