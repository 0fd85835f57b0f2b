//! What the server says in a task's name.

use std::collections::HashMap;
use std::time::Duration;

use a2a::v1_0::{Message, Part, Role, TaskState, TaskStatus};

use super::active_task::CancelReason;
use crate::task_record::TaskRecord;
use common::environment::Environment;

/// Where a status's message says in one word, for programs, why a task failed.
pub const REASON: &str = "openclaw-remote-agent/reason";

/// The reason of a task that outlived its server.
pub const INTERRUPTED: &str = "interrupted";

/// What is said of it.
pub(super) const CUT: &str = "the server was stopped before the task was done, and what was under way was cut; send the message again";

/// The reason of a task that took too long.
pub const TIMEOUT: &str = "timeout";

/// The reason of a task of which something was lost, because the store failed.
pub const STORE: &str = "store";

/// The reason of a task whose run said more than a task may hold.
pub const TOO_LARGE: &str = "too_large";

/// The reason of a task whose client the operator removed.
pub const CLIENT_REMOVED: &str = "client_removed";
/// The reason of a task that was not begun because its client has as many bytes of tasks as it may.
pub const NO_ROOM: &str = "no_room";

/// The reason of a task that waited too long for its client.
pub const UNANSWERED: &str = "unanswered";

/// A message of the agent.
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

/// A status as of now, with what the agent says, if it says anything.
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

/// A status as of now that says why, in one word for programs where there is one.
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
        CancelReason::Requested => (None, "canceled because it was asked for"),
        CancelReason::ClientRemoved => (
            Some(CLIENT_REMOVED),
            "canceled because the operator removed the client that it belongs to",
        ),
    };
    with_reason(env, record, TaskState::Canceled, word, text.to_owned())
}

pub(super) fn interrupted(env: &dyn Environment, record: &TaskRecord) -> TaskStatus {
    with_reason(
        env,
        record,
        TaskState::Failed,
        Some(INTERRUPTED),
        CUT.to_owned(),
    )
}

pub(super) fn timed_out(
    env: &dyn Environment,
    record: &TaskRecord,
    timeout: Duration,
) -> TaskStatus {
    let text = format!(
        "the run was stopped after {} s, which is as long as one may take here; ask for less at a time, or have the operator raise `timeout`",
        timeout.as_secs_f64()
    );
    with_reason(env, record, TaskState::Failed, Some(TIMEOUT), text)
}

/// Something that the run said could not be kept.
pub(super) fn store_failed(env: &dyn Environment, record: &TaskRecord) -> TaskStatus {
    let text = "the run was stopped because the task store failed, and what it said last is lost; send the message again, and tell the operator";
    with_reason(env, record, TaskState::Failed, Some(STORE), text.to_owned())
}

pub(super) fn unanswered(
    env: &dyn Environment,
    record: &TaskRecord,
    waited: Duration,
) -> TaskStatus {
    let text = format!(
        "the task was given up because no answer to its question came for {} s; send a message without `taskId` to begin again",
        waited.as_secs()
    );
    with_reason(env, record, TaskState::Failed, Some(UNANSWERED), text)
}

pub(super) fn no_room(env: &dyn Environment, record: &TaskRecord) -> TaskStatus {
    let text = "the run was not begun because the server keeps as many bytes of your tasks, or of all, as it may; finish or cancel tasks that are open, and send the message again";
    with_reason(
        env,
        record,
        TaskState::Failed,
        Some(NO_ROOM),
        text.to_owned(),
    )
}

pub(super) fn too_large(env: &dyn Environment, record: &TaskRecord, most: usize) -> TaskStatus {
    let text = format!(
        "the run was stopped because it said more than the {most} bytes that a task may hold here; ask for less, or have the operator raise `artifactBytes`"
    );
    with_reason(env, record, TaskState::Failed, Some(TOO_LARGE), text)
}
