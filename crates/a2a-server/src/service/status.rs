//! The statuses that the server sets without the executor.

use std::collections::HashMap;
use std::time::Duration;

use a2a::v1_0::{Message, Part, Role, TaskState, TaskStatus};

use super::active_task::CancelReason;
use crate::store::state_name;
use crate::task_record::TaskRecord;
use base::environment::Environment;
use base::visible::visible;

/// The metadata key of a status message for the reason of a failure, one word.
pub const REASON: &str = "openclaw-remote-agent/reason";

/// The server stopped before the run ended.
pub const INTERRUPTED: &str = "interrupted";

/// The text of an interrupted task.
pub(super) const CUT: &str = "the server stopped before the task was done; send the message again";

/// The run exceeded its timeout.
pub const TIMEOUT: &str = "timeout";

/// The store failed, so that an event of the run was lost.
pub const STORE: &str = "store";

/// The output of the run exceeded the maximum size of a task.
pub const TOO_LARGE: &str = "too_large";

/// The operator removed the client of the task.
pub const CLIENT_REMOVED: &str = "client_removed";
/// The client's storage was full before the run began.
pub const NO_ROOM: &str = "no_room";

/// The client did not answer the question of the agent in time.
pub const UNANSWERED: &str = "unanswered";

/// Logs the state of a task: after its message arrived, at its end, and when it waits for its client. Never contents.
pub(super) fn log_change(record: &TaskRecord, message: Option<&Message>) {
    let metadata = message.and_then(|message| message.metadata.as_ref());
    let reason = metadata.and_then(|metadata| metadata.get(REASON)?.as_str());
    let agent = record.agent.as_deref().map(visible);
    tracing::info!(
        task = record.task.id,
        client = record.owner,
        agent = agent.as_deref(),
        state = state_name(&record.task.status.state),
        reason,
        ms = record.changed_ms - record.created_ms,
        "task"
    );
}

/// Creates a message of the agent.
pub(super) fn message(env: &dyn Environment, record: &TaskRecord, parts: Vec<Part>) -> Message {
    Message {
        message_id: env.uuid().to_string(),
        context_id: Some(record.task.context_id.clone()),
        task_id: Some(record.task.id.clone()),
        role: Role::Agent,
        parts,
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    }
}

/// Creates a status with the current time and an optional message of the agent.
pub(super) fn new(
    env: &dyn Environment,
    record: &TaskRecord,
    state: TaskState,
    parts: Option<Vec<Part>>,
) -> TaskStatus {
    TaskStatus {
        state,
        message: parts
            .filter(|parts| !parts.is_empty())
            .map(|parts| message(env, record, parts)),
        timestamp: Some(env.system_time().into()),
    }
}

/// Creates a status with an explanation for people and an optional reason for programs.
pub(super) fn with_reason(
    env: &dyn Environment,
    record: &TaskRecord,
    state: TaskState,
    reason: Option<&str>,
    text: String,
) -> TaskStatus {
    let mut status = new(env, record, state, Some(vec![Part::text(text)]));
    if let (Some(reason), Some(message)) = (reason, &mut status.message) {
        message.metadata = Some(HashMap::from([(REASON.to_owned(), reason.into())]));
    }
    status
}

pub(super) fn canceled(
    env: &dyn Environment,
    record: &TaskRecord,
    reason: CancelReason,
) -> TaskStatus {
    let (word, text) = match reason {
        CancelReason::Requested => (None, "canceled on request"),
        CancelReason::ClientRemoved => (
            Some(CLIENT_REMOVED),
            "canceled because the operator removed the client that owns it",
        ),
    };
    with_reason(env, record, TaskState::Canceled, word, text.to_owned())
}

/// Why the server ends a task as failed.
pub(super) enum Failure {
    Interrupted,
    TimedOut(Duration),
    StoreFailed,
    Unanswered(Duration),
    NoRoom,
    TooLarge(usize),
}

pub(super) fn failed(env: &dyn Environment, record: &TaskRecord, failure: Failure) -> TaskStatus {
    let (word, text) = match failure {
        Failure::Interrupted => (INTERRUPTED, CUT.to_owned()),
        Failure::TimedOut(timeout) => {
            let seconds = timeout.as_secs_f64();
            let text = format!(
                "the run was stopped after {seconds} s, the maximum; ask for less at a time, or ask the operator to raise `timeout`"
            );
            (TIMEOUT, text)
        }
        Failure::StoreFailed => {
            let text = "the run was stopped because the task store failed and lost its last event; send the message again, and inform the operator";
            (STORE, text.to_owned())
        }
        Failure::Unanswered(waited) => {
            let seconds = waited.as_secs();
            let text = format!(
                "the task was ended because its question was not answered within {seconds} s; send a message without `taskId` to start again"
            );
            (UNANSWERED, text)
        }
        Failure::NoRoom => {
            let text = "the run was not started because the storage for your tasks, or for those of all clients, is full; finish or cancel open tasks, and send the message again";
            (NO_ROOM, text.to_owned())
        }
        Failure::TooLarge(most) => {
            let text = format!(
                "the run was stopped because its output exceeded {most} bytes, the maximum of a task; ask for less, or ask the operator to raise `artifactBytes`"
            );
            (TOO_LARGE, text)
        }
    };
    with_reason(env, record, TaskState::Failed, Some(word), text)
}
