//! Stores of tasks.
//!
//! A method that returns `Ok` has stored its change: in memory until the process ends, in SQLite across crashes, in
//! Redis for all servers that share it. The server reports a change only after the store has it.

use std::time::Duration;

use a2a::v1_0::TaskPushNotificationConfig;
use chrono::{DateTime, Utc};
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::call_context::Version;
use crate::task_record::{TaskChange, TaskRecord};

pub(crate) mod body;
#[cfg(test)]
pub(crate) mod conformance;
pub mod memory;
pub mod queues;
pub mod redis;
pub mod sqlite;
mod summary;
pub mod task_events;
mod usage;

pub use summary::{Cursor, CursorError, Filter, Summary, SummaryPage};
pub(crate) use summary::{Phase, StatusChange, SummaryChange, parse_state, state_word};

/// Stores tasks, contexts and push notification configurations.
pub trait TaskStore: Send + Sync + 'static {
    /// Creates a task at revision 0.
    fn create<'a>(&'a self, record: &'a TaskRecord) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Appends changes made at `at_ms` (milliseconds since 1970) to a task at `revision`: all of them, or none. Only the last
    /// may end the task. The cost does not grow with the task.
    ///
    /// # Errors
    /// [`StoreError::Terminal`] if the task has ended, [`StoreError::Conflict`] if its revision differs.
    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        changes: &'a [TaskChange],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns a task.
    fn load<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<TaskRecord>, StoreError>>;

    /// Returns a page of tasks, the last changed first (A2A 1.0 §3.1.4). Tasks of the same millisecond are ordered by
    /// id, descending.
    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<SummaryPage, StoreError>>;

    /// Deletes a task with its configurations and changes. Returns whether it existed.
    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Returns a task and the changes that follow, from any server. The stream ends after the terminal status or the
    /// deletion of the task. A subscriber that falls behind receives a snapshot.
    fn subscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<TaskSubscription>, StoreError>>;

    /// Creates a context for `owner` with the executor's session `session`, unless it exists. Returns the stored context.
    fn get_or_create_context<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>>;

    /// Joins a first-in, first-out queue. The position is taken when this method returns; the ticket resolves at the
    /// head of the queue.
    fn enqueue<'a>(
        &'a self,
        queue: &'a str,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<QueueTicket, StoreError>>;

    /// Asks the server that runs a task to cancel it. That server receives the id from
    /// [`cancel_requests`](Self::cancel_requests). The default, for a single server, does nothing.
    fn request_cancel<'a>(&'a self, _task_id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        future::ready(Ok(())).boxed()
    }

    /// Returns the ids of tasks to cancel on behalf of other servers. Only the first call receives them. The default
    /// stream stays empty.
    fn cancel_requests(&self) -> BoxStream<'static, String> {
        stream::pending().boxed()
    }

    /// Takes over the unfinished tasks that no live server runs. The server calls this at its start, and again every
    /// [`recovery_interval`](Self::recovery_interval).
    fn recover(&self) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>>;

    /// Returns how often to call [`recover`](Self::recover), or `None` for a store of a single server.
    fn recovery_interval(&self) -> Option<Duration> {
        None
    }

    /// Stores a push notification configuration, registered in `version`. It replaces one of the same task and id.
    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the configurations of a task in the order of their registration.
    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>>;

    /// Returns whether a task may have configurations, without waiting. The default is `true`.
    fn may_have_pushes(&self, _task_id: &str) -> bool {
        true
    }

    /// Deletes a configuration. Returns whether it existed.
    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Deletes the ended tasks that exceed `retention`. Returns their number.
    fn prune<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>>;

    /// Returns the interrupted tasks that last changed before `before_ms` (milliseconds since 1970), the oldest first:
    /// at most `limit` after the first `skip`.
    fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// Returns whether `bytes` more of `owner` fit into `budget`. If they exceed the owner's share, `forget` lets the
    /// store delete the owner's oldest ended tasks. The store deletes none if other clients fill the total.
    fn make_room<'a>(
        &'a self,
        owner: &'a str,
        bytes: u64,
        budget: &'a Budget,
        forget: bool,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Checks that the store accepts writes.
    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Flushes and closes the store.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// The owner and the session of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The client that created it.
    pub owner: String,
    /// Its session in the executor.
    pub session: String,
}

/// A task and the changes that follow.
pub struct TaskSubscription {
    /// The task at the time of the subscription.
    pub record: TaskRecord,
    /// The later changes, in order.
    pub updates: BoxStream<'static, TaskUpdate>,
}

/// An item of a [`TaskSubscription`].
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// A change, with the revision that it made.
    Change(u64, std::sync::Arc<TaskChange>),
    /// The whole task, for a subscriber that fell behind.
    Snapshot(Box<TaskRecord>),
}

/// Resolves at the head of a queue. Dropping it leaves the queue.
pub type QueueTicket = BoxFuture<'static, Result<QueuePermit, StoreError>>;

/// The head of a queue. Dropping it admits the next ticket.
pub struct QueuePermit {
    leave: Option<Box<dyn FnOnce() + Send>>,
}

impl QueuePermit {
    /// Creates a permit that calls `leave` when it is dropped.
    pub fn new(leave: impl FnOnce() + Send + 'static) -> Self {
        Self {
            leave: Some(Box::new(leave)),
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            leave();
        }
    }
}

/// How long the store keeps ended tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The time after their last change.
    pub age: Duration,
    /// The maximum number for each client. The store deletes a client's oldest tasks first, never those of another.
    pub count: usize,
}

/// How many bytes of tasks the store keeps, as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// For each client.
    pub per_client: u64,
    /// For all clients.
    pub total: u64,
}

impl Budget {
    /// Returns how many of its `own` bytes a client has to free for `more`; `None` if that does not suffice because
    /// others fill the `total`. A single client is limited by the total too.
    pub(crate) fn lacks(&self, own: u64, total: u64, more: u64) -> Option<u64> {
        let over = |kept: u64, limit| kept.saturating_add(more).saturating_sub(limit);
        let lacks = over(own, self.per_client.min(self.total));
        (over(total, self.total) <= lacks).then_some(lacks)
    }
}

impl Retention {
    /// Returns the time before which tasks have exceeded their age, in milliseconds since 1970.
    pub(crate) fn before_ms(&self, now: DateTime<Utc>) -> i64 {
        before_ms(now, self.age)
    }
}

/// Returns the time `age` before `now`, in milliseconds since 1970.
pub(crate) fn before_ms(now: DateTime<Utc>, age: Duration) -> i64 {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    now.timestamp_millis().saturating_sub(age)
}

/// When SQLite writes a change to the disk. Every mode survives the death of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// Before the store acknowledges it: it survives a loss of power.
    Always,
    /// About a second later: a loss of power loses at most that second.
    #[default]
    Interval,
    /// When the operating system writes it: a loss of power loses the changes since then, and may damage the file.
    Never,
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
    /// The store failed: what, why, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The store works, but cannot read this task: why, and what to do.
    #[error("{0}")]
    Damaged(String),
}
