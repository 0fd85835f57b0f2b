//! The changes of each task: a function of its id and revision.

use a2a::v1_0::{Artifact, Part, Task, TaskPushNotificationConfig, TaskState, TaskStatus};
use a2a_server::task_record::{TaskChange, TaskRecord};

use crate::record::record;

/// The number of changes after which a task ends.
pub(crate) const CHANGES: u64 = 12;

/// Returns the task at revision 0.
pub(crate) fn new_record(id: &str) -> TaskRecord {
    let submitted = record(id);
    TaskRecord {
        task: Task {
            status: status(TaskState::Submitted),
            ..submitted.task
        },
        owner: format!("client-{}", id.len() % 3),
        session: format!("session-of-{id}"),
        created_ms: 0,
        changed_ms: 0,
        ..submitted
    }
}

/// Returns the change after `revision`.
pub(crate) fn change(id: &str, revision: u64) -> TaskChange {
    match revision {
        0 => TaskChange::Run(format!("run-of-{id}")),
        1 => TaskChange::Status(status(TaskState::Working)),
        CHANGES.. => panic!("{id} is settled"),
        _ if revision + 1 == CHANGES => TaskChange::Status(status(TaskState::Completed)),
        _ => TaskChange::Artifact {
            artifact: Artifact {
                artifact_id: "answer".to_owned(),
                name: None,
                description: None,
                parts: vec![Part::text(format!("{id} says {revision} ").repeat(8))],
                metadata: None,
                extensions: None,
            },
            append: revision > 2,
            last_chunk: revision + 2 == CHANGES,
        },
    }
}

/// Returns the time of that change.
pub(crate) fn at_ms(revision: u64) -> i64 {
    i64::try_from(revision).unwrap() * 1_000
}

/// Returns the task at a revision.
pub(crate) fn after(id: &str, revision: u64) -> TaskRecord {
    let mut record = new_record(id);
    for revision in 0..revision {
        record.apply(change(id, revision), at_ms(revision));
    }
    record
}

/// Returns its push configuration.
pub(crate) fn configuration(id: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: format!("https://example.com/{id}"),
        id: Some("one".to_owned()),
        task_id: id.to_owned(),
        token: None,
        authentication: None,
        tenant: None,
    }
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: Some(chrono::DateTime::UNIX_EPOCH),
    }
}
