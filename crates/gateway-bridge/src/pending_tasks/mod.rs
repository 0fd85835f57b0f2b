//! Tasks for gateways that have none: each message becomes a task with its reply.
//!
//! Tasks outlive connections. The bridge stores a late reply for a later query and never assigns it to another message. It
//! stores 256 tasks for a day, with a total size of at most eight times the frame size. It never evicts a task with a
//! subscriber.

mod task;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;
use task::TaskProgress;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use a2a::{Event, Task};
use base::json::encoded_bytes;
use collective::{ErrorCode, MAX_FRAME_BYTES};
use peer::{Delivered, EventStream, NextEvent, PeerError, PeerErrorKind};

pub(super) use task::{AwaitGuard, PendingTask, Resend, TaskKind, TaskOutcome};

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
fn connection_reset(reason: &str) -> PeerError {
    let message = format!("the connection to the gateway was lost: {reason}");
    PeerError::new(PeerErrorKind::Gateway(ErrorCode::ConnectionReset), message)
}

/// The events of one task: a snapshot of the steps delivered before, every later step, then the end.
struct TaskStream {
    entry: Arc<PendingTask>,
    progress: watch::Receiver<TaskProgress>,
    started: bool,
    /// The number of delivered steps.
    delivered: usize,
    /// The number of lost connections at the start.
    cuts: usize,
    /// The remaining events of the end.
    last: VecDeque<Value>,
    over: bool,
}

impl PendingTask {
    /// Subscribes to the task's events, starting after those delivered before. Steps from before the first
    /// subscription, such as early votes, are delivered too.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Box<dyn EventStream> {
        Box::new(TaskStream::new(Arc::clone(self), self.progress.subscribe()))
    }
}

impl TaskStream {
    fn new(entry: Arc<PendingTask>, progress: watch::Receiver<TaskProgress>) -> Self {
        let cuts = progress.borrow().cuts;
        Self {
            entry,
            progress,
            started: false,
            delivered: 0,
            cuts,
            last: VecDeque::new(),
            over: false,
        }
    }

    async fn step(&mut self) -> NextEvent {
        loop {
            self.entry.expire_if_due();
            if let Some(value) = self.last.pop_front() {
                return event(value);
            }
            if self.over {
                return None;
            }
            if let Some(step) = self.next_stored() {
                return step;
            }
            let forever = Instant::now() + std::time::Duration::from_secs(24 * 60 * 60);
            let until = self.entry.deadline().unwrap_or(forever);
            // The sender lives as long as the task, and the next loop checks the deadline.
            drop(timeout_at(until, self.progress.changed()).await);
        }
    }

    /// Returns the next event that has not been delivered.
    fn next_stored(&mut self) -> Option<NextEvent> {
        let progress = self.progress.borrow_and_update();
        if !self.started {
            self.started = true;
            let (task, delivered, over) = self.entry.delivered_snapshot(&progress);
            (self.delivered, self.over) = (delivered, over);
            return Some(event(task));
        }
        if let Some(step) = progress.steps.get(self.delivered) {
            self.delivered += 1;
            self.entry.mark_delivered(self.delivered);
            return Some(event(step.clone()));
        }
        if let Some(outcome) = &progress.outcome {
            self.over = true;
            self.last = task::final_updates(self.entry.ids(), progress.steps.len(), outcome).into();
            return self.last.pop_front().map(event);
        }
        if progress.cuts > self.cuts {
            self.cuts = progress.cuts;
            let reason = "the next connection waits for the decision";
            return Some(Some(Err(connection_reset(reason))));
        }
        None
    }
}

fn event(value: Value) -> NextEvent {
    let bytes = encoded_bytes(&value);
    match Event::read(value) {
        Ok(event) => Some(Ok((event, bytes))),
        Err(e) => Some(Err(PeerError::new(
            PeerErrorKind::InvalidResponse,
            e.to_string(),
        ))),
    }
}

#[async_trait]
impl EventStream for TaskStream {
    async fn next(&mut self) -> NextEvent {
        self.step().await
    }
}

#[cfg(test)]
mod tests;
