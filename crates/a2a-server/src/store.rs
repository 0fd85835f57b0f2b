//! Task stores.
//!
//! When a method returns `Ok`, the store has the change: in memory until the process ends, in SQLite across crashes, in
//! Redis for all servers that share it. The server shows a change to clients only after the store has it.

pub(crate) mod body;
mod finished_records;
pub mod memory;
pub mod redis;
pub mod sqlite;
mod summary;
pub mod task_events;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::TaskPushNotificationConfig;
use async_trait::async_trait;
use base::keyed_semaphore::KeyedSemaphore;
use base::settings;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use parking_lot::Mutex;
use serde::Deserialize;

pub use self::summary::{Cursor, CursorError, Filter, Page, Summary, SummaryPage};
pub(crate) use self::summary::{Phase, StatusChange, SummaryChange, parse_state, state_name};
use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;

/// Stores tasks, contexts and push notification configurations.
#[async_trait]
pub trait TaskStore: Send + Sync + 'static {
    /// Creates a task at revision 0.
    async fn create(&self, record: &TaskRecord) -> Result<(), StoreError>;

    /// Appends changes made at `at_ms` (milliseconds since 1970) to a task at `revision`, either all of them or none.
    /// Only the last change may be terminal. The cost does not grow with the size of the task.
    ///
    /// # Errors
    /// [`StoreError::Terminal`] if the task is terminal, [`StoreError::Conflict`] if it has another revision.
    async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError>;

    /// Appends the last `changes` of a task and stores `record`, the terminal task that they result in, in place of its
    /// log. The default implementation leaves the log to be compacted later.
    ///
    /// # Errors
    /// The same errors as [`append`](Self::append).
    async fn finish(&self, record: &TaskRecord, changes: &[TaskChange]) -> Result<(), StoreError> {
        let revision = revision_before(record, changes);
        self.append(&record.task.id, revision, record.changed_ms, changes)
            .await
    }

    /// Returns a task; `None` if it does not exist.
    async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError>;

    /// Returns the same task, decoded only if the store has no JSON of it in one piece. The default implementation decodes it.
    async fn load_stored(&self, task_id: &str) -> Result<Option<Loaded>, StoreError> {
        let record = self.load(task_id).await?;
        Ok(record.map(|record| Loaded::Record(Box::new(record))))
    }

    /// Returns a page of tasks, the last changed first (A2A 1.0 §3.1.4). Tasks of the same millisecond are ordered by
    /// id, descending.
    async fn list(&self, filter: &Filter) -> Result<SummaryPage, StoreError>;

    /// Returns the same page without the tasks themselves. A store that reads their JSON in the same step returns that of any
    /// that fit, together at most `json_bytes`. The default implementation knows neither sizes nor JSON.
    async fn page(
        &self,
        filter: &Filter,
        _json_bytes: usize,
    ) -> Result<Page<ListedTask>, StoreError> {
        let listed = self.list(filter).await?;
        Ok(Page {
            tasks: listed.tasks.iter().map(ListedTask::unmeasured).collect(),
            next: listed.next,
            total: listed.total,
        })
    }

    /// Returns the JSON of tasks of a page that have a size. A task without JSON has changed meanwhile, is deleted, or
    /// belongs to another client than `owner`. The default implementation returns no JSON.
    async fn bodies(
        &self,
        _owner: Option<&str>,
        tasks: &[ListedTask],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        Ok(vec![None; tasks.len()])
    }

    /// Deletes a task with its push notification configurations and changes. Returns whether it existed.
    async fn delete(&self, task_id: &str) -> Result<bool, StoreError>;

    /// Returns a task and its later changes, whichever server makes them. The stream ends after the terminal status or
    /// when the task is deleted. A subscriber that falls behind receives a snapshot.
    async fn subscribe(&self, task_id: &str) -> Result<Option<TaskSubscription>, StoreError>;

    /// Subscribes to the task that the caller has just created as `record`, and that only the caller changes. The default
    /// implementation reads the task.
    async fn subscribe_created(
        &self,
        record: &TaskRecord,
    ) -> Result<Option<TaskSubscription>, StoreError> {
        self.subscribe(&record.task.id).await
    }

    /// Returns a context. If it does not exist, creates it for `owner` with the executor's session `session`.
    async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError>;

    /// Joins a first-in, first-out queue. This method determines the position in the queue before it returns. The
    /// ticket resolves at the head of the queue.
    async fn enqueue(&self, queue: &str, task_id: &str) -> Result<QueueTicket, StoreError>;

    /// Requests the cancellation of a task from the server that runs it. That server receives the id from
    /// [`cancel_requests`](Self::cancel_requests). The default implementation, for stores of a single server, does
    /// nothing.
    async fn request_cancel(&self, _task_id: &str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the ids of tasks whose cancellation other servers request. Only the first call returns requests. The
    /// default stream is empty and never ends.
    fn cancel_requests(&self) -> BoxStream<'static, String> {
        stream::pending().boxed()
    }

    /// Takes over the unfinished tasks that no live server runs, and returns them. The server calls this at its start
    /// and then every [`recovery_interval`](Self::recovery_interval).
    async fn recover(&self) -> Result<Vec<Summary>, StoreError>;

    /// Returns the interval between calls of [`recover`](Self::recover); `None` for a store of a single server.
    fn recovery_interval(&self) -> Option<Duration> {
        None
    }

    /// Stores a push notification configuration that a request of `version` registered. Replaces one of the same task
    /// and id.
    async fn put_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), StoreError>;

    /// Returns the push notification configurations of a task in the order of their registration.
    async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>;

    /// Returns without waiting whether a task may have push notification configurations. The default is `true`.
    fn may_have_pushes(&self, _task_id: &str) -> bool {
        true
    }

    /// Deletes a push notification configuration. Returns whether it existed.
    async fn delete_push(&self, task_id: &str, config_id: &str) -> Result<bool, StoreError>;

    /// Deletes the terminal tasks that exceed `retention`. Returns their number.
    async fn prune(&self, retention: &Retention, now: DateTime<Utc>) -> Result<usize, StoreError>;

    /// Returns the interrupted tasks that last changed before `before_ms` (milliseconds since 1970), the oldest first.
    /// Skips the first `skip` and returns at most `limit`.
    async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError>;

    /// Returns whether `bytes` more of `owner` fit into `budget`. If they exceed the share of the owner, `forget`
    /// allows the store to delete the owner's oldest terminal tasks. It deletes none if other clients use up the total.
    async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError>;

    /// Returns whether another process can have the tasks after this one. The default is `true`.
    fn outlives_process(&self) -> bool {
        true
    }

    /// Checks that the store accepts writes.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Writes all changes to the disk or to Redis, and closes the store.
    async fn close(&self) -> Result<(), StoreError>;
}

/// A task in the form that its store has.
#[derive(Debug, Clone, PartialEq)]
pub enum Loaded {
    /// The record of a finished task as JSON.
    Json(Bytes),
    /// The record of any task.
    Record(Box<TaskRecord>),
}

/// The owner and the executor's session of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The client that created the context.
    pub owner: String,
    /// The executor's session of the context.
    pub session: String,
}

/// A task of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTask {
    /// The position of the task.
    pub place: Cursor,
    /// The size of the record as JSON, if the store may have the finished task in one piece.
    pub bytes: Option<usize>,
    /// The record as JSON, if the store has read it with the page.
    pub json: Option<Bytes>,
}

impl ListedTask {
    fn new(place: Cursor) -> Self {
        Self {
            place,
            bytes: None,
            json: None,
        }
    }

    fn unmeasured(task: &Summary) -> Self {
        Self::new(Cursor::new(task))
    }

    fn place(&self) -> Cursor {
        self.place.clone()
    }

    /// Sets the size of the record, and the record if `left` has room for it, which shrinks.
    fn set_record<E>(
        &mut self,
        size: usize,
        read: impl FnOnce() -> Result<Option<Bytes>, E>,
        left: &mut usize,
    ) -> Result<(), E> {
        self.bytes = Some(size);
        if let Some(room) = left.checked_sub(size) {
            *left = room;
            self.json = read()?;
        }
        Ok(())
    }
}

/// Returns the revision of a task before the `changes` that result in `record`.
fn revision_before(record: &TaskRecord, changes: &[TaskChange]) -> u64 {
    record.revision.saturating_sub(changes.len() as u64)
}

/// A task and its later changes.
pub struct TaskSubscription {
    /// The task at the time of the subscription.
    pub record: TaskRecord,
    /// The later changes, in order.
    pub updates: BoxStream<'static, TaskUpdate>,
}

/// An item of a [`TaskSubscription`].
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// The revision after a change, and the change.
    Change(u64, std::sync::Arc<TaskChange>),
    /// The whole task, for a subscriber that fell behind.
    Snapshot(Box<TaskRecord>),
}

/// A position in a queue, which resolves at its head. Dropping the ticket leaves the queue.
pub type QueueTicket = BoxFuture<'static, Result<QueuePermit, StoreError>>;

/// Joins a queue of this process.
fn enqueue(queues: &KeyedSemaphore<String>, name: &str) -> QueueTicket {
    let head = queues.acquire(name.to_owned());
    head.map(|permit| Ok(QueuePermit::new(permit))).boxed()
}

/// The right of the head of a queue. Dropping it resolves the next ticket.
pub struct QueuePermit {
    _held: Box<dyn Send>,
}

impl QueuePermit {
    /// Creates a permit that keeps `held` until it is dropped.
    pub fn new(held: impl Send + 'static) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

/// How long the store keeps terminal tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The maximum time since their last change.
    pub age: Duration,
    /// The maximum number for each client. The store deletes the client's oldest tasks and never those of another
    /// client.
    pub count: usize,
}

settings! {
    /// The maximum size of the stored tasks as JSON, in bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    pub struct Budget {
        /// The maximum for each client.
        #[serde(rename = "bytesPerClient")]
        pub per_client: u64 = 512 << 20,
        /// The maximum for all clients together.
        #[serde(rename = "totalBytes")]
        pub total: u64 = 4 << 30,
    }
}

impl Budget {
    /// Returns how many of its `own` bytes a client has to free for `more` bytes. Returns `None` if that does not
    /// suffice because other clients use up the `total`. The total also limits a single client.
    pub(crate) fn shortfall(&self, own: u64, total: u64, more: u64) -> Option<u64> {
        let excess = |stored: u64, limit| stored.saturating_add(more).saturating_sub(limit);
        let shortfall = excess(own, self.per_client.min(self.total));
        (excess(total, self.total) <= shortfall).then_some(shortfall)
    }
}

impl Retention {
    /// Returns the time, in milliseconds since 1970, before which a task last changed if it exceeds the age.
    pub(crate) fn before_ms(&self, now: DateTime<Utc>) -> i64 {
        before_ms(now, self.age)
    }
}

/// Returns the time `age` before `now`, in milliseconds since 1970.
pub(crate) fn before_ms(now: DateTime<Utc>, age: Duration) -> i64 {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    now.timestamp_millis().saturating_sub(age)
}

/// An error of a store.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// The task is in a terminal state.
    #[error("the task has ended")]
    Terminal,
    /// The task has another revision.
    #[error("the task changed concurrently")]
    Conflict,
    /// The task does not exist.
    #[error("unknown task")]
    NotFound,
    /// The store failed. Contains what failed, why, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The store refuses changes until its operator acts. It has published nothing of this one, but may have stored a part of
    /// it. Contains why, and what to do.
    #[error("{0}")]
    Refused(String),
    /// The store works, but cannot read this task. Contains why, and what to do.
    #[error("{0}")]
    Damaged(String),
}

/// The number and the bytes of all tasks, by client, for stores of a single process. Clones share it.
#[derive(Debug, Clone, Default)]
struct Usage(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    by_owner: HashMap<String, Stored>,
    all: Stored,
}

/// What the tasks of one client, or of all, take up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Stored {
    bytes: i64,
    tasks: i64,
}

impl Stored {
    fn add(&mut self, bytes: i64, tasks: i64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.tasks = self.tasks.saturating_add(tasks);
    }
}

impl Counts {
    fn add(&mut self, owner: &str, bytes: i64, tasks: i64) {
        self.all.add(bytes, tasks);
        if let Some(own) = self.by_owner.get_mut(owner) {
            own.add(bytes, tasks);
            if *own == Stored::default() {
                self.by_owner.remove(owner);
            }
        } else {
            let mut own = Stored::default();
            own.add(bytes, tasks);
            self.by_owner.insert(owner.to_owned(), own);
        }
    }
}

impl Usage {
    /// Adds `bytes` and `tasks` to the counts of a client. Negative values subtract.
    fn add(&self, owner: &str, bytes: i64, tasks: i64) {
        self.0.lock().add(owner, bytes, tasks);
    }

    /// Returns the number of tasks of a client; of all clients for `None`.
    fn tasks(&self, owner: Option<&str>) -> usize {
        let counts = self.0.lock();
        let stored = match owner {
            Some(owner) => counts.by_owner.get(owner).copied().unwrap_or_default(),
            None => counts.all,
        };
        usize::try_from(stored.tasks).unwrap_or_default()
    }

    /// Returns the clients with more than `count` tasks.
    fn owners_above(&self, count: usize) -> Vec<String> {
        let counts = self.0.lock();
        let above = counts
            .by_owner
            .iter()
            .filter(|(_, own)| own.tasks > length(count));
        above.map(|(owner, _)| owner.clone()).collect()
    }

    /// Returns how many bytes a client has to free for `more` bytes within `budget`; `None` if that does not suffice.
    fn shortfall(&self, owner: &str, more: u64, budget: &Budget) -> Option<u64> {
        let counts = self.0.lock();
        let own = counts.by_owner.get(owner).copied().unwrap_or_default();
        let bytes = |stored: Stored| u64::try_from(stored.bytes).unwrap_or_default();
        budget.shortfall(bytes(own), bytes(counts.all), more)
    }
}

/// Converts a length for [`Usage::add`].
fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns the ids of the first `tasks`, given as id and size, that have `bytes` together. Returns no ids if all tasks
/// have fewer bytes.
fn oldest<E>(
    tasks: impl IntoIterator<Item = Result<(String, i64), E>>,
    bytes: u64,
) -> Result<Vec<String>, E> {
    let (mut ids, mut found) = (Vec::new(), 0_u64);
    for task in tasks {
        let (id, size) = task?;
        ids.push(id);
        found = found.saturating_add_signed(size);
        if found >= bytes {
            return Ok(ids);
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
pub(crate) mod tests;
