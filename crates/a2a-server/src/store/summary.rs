//! Summaries of tasks for lists, with their filters and pages.

use std::fmt;
use std::str::FromStr;

use a2a::v1_0::{Role, TaskState, TaskStatus};
use chrono::{DateTime, Utc};

use crate::task_record::{TaskChange, TaskRecord, excerpt};

/// Selects the tasks that [`TaskStore::list`](super::TaskStore::list) returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Tasks of this client; `None` for the operator, who can see all tasks.
    pub owner: Option<String>,
    /// Tasks of this context.
    pub context_id: Option<String>,
    /// Tasks with this state.
    pub state: Option<TaskState>,
    /// Tasks whose status has this timestamp or a later one.
    pub changed_after: Option<DateTime<Utc>>,
    /// The maximum number of tasks.
    pub page_size: usize,
    /// The cursor that the previous page returned; `None` for the first page.
    pub after: Option<Cursor>,
}

/// A position in the order of [`TaskStore::list`](super::TaskStore::list): the last task of a page. Clients receive it
/// as an opaque token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When that task last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// The id of that task.
    pub task_id: String,
}

impl Cursor {
    /// Creates the cursor after a task.
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

/// An error of a page token that this server has not issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown page token")]
pub struct CursorError;

/// A task without its body, for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The id of the task.
    pub id: String,
    /// The id of its context.
    pub context_id: String,
    /// The client that owns the task.
    pub owner: String,
    /// The agent of the task; `None` for the executor's default agent.
    pub agent: Option<String>,
    /// The state of the task.
    pub state: TaskState,
    /// The timestamp of its status, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// When its first message arrived, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// An excerpt of the client's first message.
    pub request_excerpt: Option<String>,
    /// An excerpt of the status message.
    pub status_excerpt: Option<String>,
}

impl Summary {
    /// Creates the summary of a record.
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
            request_excerpt: record.request_excerpt(),
            status_excerpt: task.status.message.as_ref().map(excerpt),
        }
    }

    /// Applies a change made at `at_ms`.
    pub(crate) fn apply(&mut self, change: &TaskChange, at_ms: i64) {
        self.changed_ms = at_ms;
        let SummaryChange {
            status,
            request_excerpt,
        } = SummaryChange::all(std::slice::from_ref(change));
        if let Some(StatusChange {
            state,
            since_us,
            status_excerpt,
        }) = status
        {
            (self.state, self.since_us, self.status_excerpt) = (state, since_us, status_excerpt);
        }
        self.request_excerpt = self.request_excerpt.take().or(request_excerpt);
    }

    /// Returns whether the task is in a terminal state.
    pub fn is_terminal(&self) -> bool {
        self.state.is_terminal()
    }
}

fn since_us(status: &TaskStatus) -> Option<i64> {
    status.timestamp.map(|at| at.timestamp_micros())
}

/// The part of changes that updates a summary.
pub(crate) struct SummaryChange {
    /// The last new status among the changes.
    pub(crate) status: Option<StatusChange>,
    /// An excerpt of the client's message. It never replaces the excerpt of an earlier message.
    pub(crate) request_excerpt: Option<String>,
}

/// The part of a status that updates a summary.
pub(crate) struct StatusChange {
    pub(crate) state: TaskState,
    pub(crate) since_us: Option<i64>,
    pub(crate) status_excerpt: Option<String>,
}

impl SummaryChange {
    pub(crate) fn all(changes: &[TaskChange]) -> Self {
        let status = changes.iter().rev().find_map(|change| match change {
            TaskChange::Status(status) => Some(StatusChange {
                state: status.state.clone(),
                since_us: since_us(status),
                status_excerpt: status.message.as_ref().map(excerpt),
            }),
            _ => None,
        });
        let request_excerpt = changes.iter().find_map(|change| match change {
            TaskChange::Message(message) if message.role == Role::User => Some(excerpt(message)),
            _ => None,
        });
        Self {
            status,
            request_excerpt,
        }
    }
}

/// A page of summaries.
pub type SummaryPage = Page<Summary>;

/// A page of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The tasks, the last changed first.
    pub tasks: Vec<T>,
    /// The cursor of the next page; `None` on the last.
    pub next: Option<Cursor>,
    /// The number of tasks on all pages.
    pub total: usize,
}

impl<T> Page<T> {
    /// Creates a page. `more` is true if another page follows, and `place` returns the position of a task.
    pub(crate) fn new(
        tasks: Vec<T>,
        more: bool,
        total: usize,
        place: impl FnOnce(&T) -> Cursor,
    ) -> Self {
        Self {
            next: tasks.last().filter(|_| more).map(place),
            tasks,
            total,
        }
    }
}

impl Filter {
    /// Returns whether a task matches the filter, independently of the cursor.
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
/// The class of a state, by which stores recover and delete tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A server runs the task.
    Working = 0,
    /// The task waits for its client.
    Interrupted = 1,
    /// The task is terminal.
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

/// Parses a state as [`state_name`] writes it.
pub(crate) fn parse_state(name: &str) -> TaskState {
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
    let known = ALL.into_iter().find(|state| state_name(state) == name);
    known.unwrap_or(TaskState::Unspecified)
}

/// Returns the name of a state in stores.
pub(crate) fn state_name(state: &TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unspecified",
        state => a2a::v0_3::state_name(state),
    }
}
