//! Where tasks are kept.
//!
//! Whatever a method has returned `Ok` for is kept as the store promises: in memory until the process ends, in a directory
//! through every crash, in Redis for all servers that share it. Nobody is told of a change before that.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use a2a::v1_0::{Role, TaskPushNotificationConfig, TaskState, TaskStatus};
use chrono::{DateTime, Utc};
use futures_util::future::{self, BoxFuture};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt as _, StreamExt as _};

use crate::call_context::Version;
use crate::task_record::{TaskChange, TaskRecord, excerpt};

pub(crate) mod body;
#[cfg(test)]
pub(crate) mod conformance;
pub mod memory;
pub mod queues;
pub mod redis;
pub mod sqlite;
pub mod task_events;
mod usage;

/// Keeps tasks, contexts and push notification configurations.
pub trait TaskStore: Send + Sync + 'static {
    /// Takes a new task. Its `revision` is 0.
    fn create<'a>(&'a self, record: &'a TaskRecord) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Takes what happened to a task at `at_ms`, after its first `revision` changes. The work does not grow with the task.
    ///
    /// # Errors
    /// [`StoreError::Terminal`] where the task is settled already, and [`StoreError::Conflict`] where somebody else changed it.
    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        change: &'a TaskChange,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The task as it stands.
    fn load<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<TaskRecord>, StoreError>>;

    /// Tasks, the last changed first (1.0 §3.1.4), those of the same millisecond by id, downwards.
    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<SummaryPage, StoreError>>;

    /// Forgets a task, its configurations and its changes. Says whether there was one.
    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// The task as it stands now, and everything that happens to it from then on, whoever does it; ends after the change
    /// that settles it, or when it is deleted. A listener that falls behind is given the whole anew.
    fn subscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Option<TaskSubscription>, StoreError>>;

    /// Gives a context to `owner` unless it has one, and says whose it is then. `session` is the session of OpenClaw it is
    /// from then on.
    fn get_or_create_context<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>>;

    /// Enters the queue of that name (first come, first served). When this returns the place is taken; what it returns
    /// waits until everybody who came before has left.
    fn enqueue<'a>(
        &'a self,
        queue: &'a str,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<QueueTicket, StoreError>>;

    /// Asks whoever runs the task to cancel it: it comes out of [`cancel_requests`](Self::cancel_requests) there. A store of one
    /// server, as by default, has nobody to ask.
    fn request_cancel<'a>(&'a self, _task_id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        future::ready(Ok(())).boxed()
    }

    /// Tasks that somebody asked to cancel at another server: by default none ever. Called once.
    fn cancel_requests(&self) -> BoxStream<'static, String> {
        stream::pending().boxed()
    }

    /// Tasks that are not settled and that no living server runs; they are this server's from now on. Asked at the start,
    /// and again every [`recovery_interval`](Self::recovery_interval).
    fn recover(&self) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>>;

    /// How often to ask for tasks of servers that died; `None`, as by default, where there is only one server.
    fn recovery_interval(&self) -> Option<Duration> {
        None
    }

    /// Keeps a push notification configuration; one of the same task and id is replaced. `version` is the registration's.
    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The configurations of a task, in the order they were registered in.
    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>>;

    /// Forgets a configuration. Says whether there was one.
    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Forgets settled tasks that retention does not keep, and says how many.
    fn prune<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>>;

    /// Tasks that have waited for their client since before `before_ms`, the longest first: at most `limit` after the first
    /// `skip`.
    fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;

    /// Says whether `bytes` more of `owner` fit into `budget`. Where they go beyond the owner's own share, and would not
    /// without some of the owner's settled tasks, the oldest of those are forgotten first if `forget` says so. Nothing is
    /// forgotten where the tasks of all clients take too much.
    fn make_room<'a>(
        &'a self,
        owner: &'a str,
        bytes: u64,
        budget: &'a Budget,
        forget: bool,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Whether it can keep anything now.
    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Puts everything where it belongs, before the process ends.
    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// Which tasks [`TaskStore::list`] is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Of this client; of all where the operator asks.
    pub owner: Option<String>,
    /// Of this conversation.
    pub context_id: Option<String>,
    /// In this state.
    pub state: Option<TaskState>,
    /// Whose status is as new as this or newer.
    pub changed_after: Option<DateTime<Utc>>,
    /// At most so many.
    pub page_size: usize,
    /// Where the last page ended; the first page has none.
    pub after: Option<Cursor>,
}

/// A place in the order of [`TaskStore::list`]: the last task of a page. Clients carry it as an opaque token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When that task last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// Its id.
    pub task_id: String,
}

impl Cursor {
    /// The place of a task.
    pub fn new(task: &Summary) -> Self {
        Self {
            changed_ms: task.changed_ms,
            task_id: task.id.clone(),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.changed_ms, self.task_id)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(token: &str) -> Result<Self, CursorError> {
        let (changed_ms, task_id) = token.split_once('.').ok_or(CursorError)?;
        Ok(Self {
            changed_ms: changed_ms.parse().map_err(|_| CursorError)?,
            task_id: task_id.to_owned(),
        })
    }
}

/// A page token that this server never gave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such page token")]
pub struct CursorError;

/// What lists say of a task. Its body stays where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The task's id.
    pub id: String,
    /// Its conversation.
    pub context_id: String,
    /// The client it belongs to.
    pub owner: String,
    /// The agent that works on it; the executor's default where there is none.
    pub agent: Option<String>,
    /// Its state.
    pub state: TaskState,
    /// Since when, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// When its first message came, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// An excerpt of what the client asked first.
    pub asked: Option<String>,
    /// An excerpt of the status message.
    pub says: Option<String>,
}

impl Summary {
    /// Returns the summary of a record.
    pub fn new(record: &TaskRecord) -> Self {
        let task = &record.task;
        Self {
            id: task.id.clone(),
            context_id: task.context_id.clone(),
            owner: record.owner.clone(),
            agent: record.agent.clone(),
            state: task.status.state.clone(),
            since_us: since_us(&task.status),
            created_ms: record.created_ms,
            changed_ms: record.changed_ms,
            asked: record.asked(),
            says: task.status.message.as_ref().map(excerpt),
        }
    }

    /// Takes over what a change at `at_ms` makes of it.
    pub(crate) fn apply(&mut self, change: &TaskChange, at_ms: i64) {
        self.changed_ms = at_ms;
        match change {
            TaskChange::Status(status) => {
                self.state = status.state.clone();
                self.since_us = since_us(status);
                self.says = status.message.as_ref().map(excerpt);
            }
            TaskChange::Message(message) if message.role == Role::User && self.asked.is_none() => {
                self.asked = Some(excerpt(message));
            }
            _ => {}
        }
    }

    /// Whether nothing more will come of it.
    pub fn is_terminal(&self) -> bool {
        self.state.is_terminal()
    }
}

pub(crate) fn since_us(status: &TaskStatus) -> Option<i64> {
    status.timestamp.map(|at| at.timestamp_micros())
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummaryPage {
    /// The tasks.
    pub tasks: Vec<Summary>,
    /// Where this page ended, unless it is the last one.
    pub next: Option<Cursor>,
    /// How many there are on all pages.
    pub total: usize,
}

impl Filter {
    /// Whether a task is among those asked for, whatever the page.
    pub fn matches(&self, task: &Summary) -> bool {
        self.owner.as_ref().is_none_or(|owner| *owner == task.owner)
            && self
                .context_id
                .as_ref()
                .is_none_or(|context| *context == task.context_id)
            && self.state.as_ref().is_none_or(|state| *state == task.state)
            && self.changed_after.is_none_or(|after| {
                task.since_us
                    .is_some_and(|since| since >= after.timestamp_micros())
            })
    }
}

/// Whose a context is, and which session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The client that opened it.
    pub owner: String,
    /// The session of OpenClaw that it is.
    pub session: String,
}

/// A task as it stands, and what follows.
pub struct TaskSubscription {
    /// As it stands.
    pub record: TaskRecord,
    /// What follows, in order.
    pub updates: BoxStream<'static, TaskUpdate>,
}

/// Something that a listener is told.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskUpdate {
    /// The change that made the task's revision this one.
    Change(u64, std::sync::Arc<TaskChange>),
    /// The listener fell behind: this is the whole as it stands.
    Snapshot(Box<TaskRecord>),
}

/// A place in a queue: waits for its head. Dropping it leaves the queue.
pub type QueueTicket = BoxFuture<'static, Result<QueuePermit, StoreError>>;

/// A place at the head of a queue; dropping it lets the next one in.
pub struct QueuePermit {
    leave: Option<Box<dyn FnOnce() + Send>>,
}

impl QueuePermit {
    /// A turn that calls `leave` when it ends.
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

/// How long settled tasks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// For so long after they last changed.
    pub age: Duration,
    /// At most so many of each client; the longest settled go first. No client's tasks push out another's.
    pub count: usize,
}

/// How many bytes of tasks may be kept, as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Of each client.
    pub per_client: u64,
    /// Of all together.
    pub total: u64,
}

impl Budget {
    /// How many bytes of its own a client who has `own` of `total` has to give up for `more`; `None` where that would not
    /// do, because others fill the rest. A client alone may have no more than all may.
    pub(crate) fn lacks(&self, own: u64, total: u64, more: u64) -> Option<u64> {
        let over = |kept: u64, limit| kept.saturating_add(more).saturating_sub(limit);
        let lacks = over(own, self.per_client.min(self.total));
        (over(total, self.total) <= lacks).then_some(lacks)
    }
}

impl Retention {
    /// Tasks that last changed before this are too old.
    pub(crate) fn before_ms(&self, now: DateTime<Utc>) -> i64 {
        before_ms(now, self.age)
    }
}

/// The time of day `age` ago, in milliseconds since 1970.
pub(crate) fn before_ms(now: DateTime<Utc>, age: Duration) -> i64 {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    now.timestamp_millis().saturating_sub(age)
}

/// What a state means to a server that may have to go on with the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A server works on it.
    Working = 0,
    /// It waits for its client.
    Interrupted = 1,
    /// Nothing more happens to it.
    Terminal = 2,
}

impl Phase {
    pub(crate) fn new(state: &TaskState) -> Self {
        match state {
            TaskState::InputRequired | TaskState::AuthRequired => Self::Interrupted,
            state if state.is_terminal() => Self::Terminal,
            _ => Self::Working,
        }
    }
}

/// The state that stores call `word`.
pub(crate) fn parse_state(word: &str) -> TaskState {
    const ALL: [TaskState; 8] = [
        TaskState::Submitted,
        TaskState::Working,
        TaskState::Completed,
        TaskState::Failed,
        TaskState::Canceled,
        TaskState::InputRequired,
        TaskState::Rejected,
        TaskState::AuthRequired,
    ];
    let known = ALL.into_iter().find(|state| state_word(state) == word);
    known.unwrap_or(TaskState::Unspecified)
}

/// What stores call a state.
pub(crate) fn state_word(state: &TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unspecified",
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::InputRequired => "input-required",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth-required",
    }
}

/// When a change in a directory counts as kept. Every mode survives the death of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fsync {
    /// On the disk before it is acknowledged: survives the loss of power.
    Always,
    /// On the disk about a second later: the loss of power loses at most that second.
    #[default]
    Interval,
    /// On the disk when the operating system writes it: the loss of power loses that, and may damage the file.
    Never,
}

/// Why a store did not do it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// The task is settled; nothing can happen to it any more.
    #[error("the task is settled")]
    Terminal,
    /// The task is not where the caller thought it was.
    #[error("the task has changed in the meantime")]
    Conflict,
    /// There is no such task.
    #[error("there is no such task")]
    NotFound,
    /// The store failed: what, why, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The store answers, and what it has of this task cannot be read: why, and what to do.
    #[error("{0}")]
    Damaged(String),
}
