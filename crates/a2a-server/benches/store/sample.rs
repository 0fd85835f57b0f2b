//! A task of typical size.

use a2a::Version;
use a2a::v1_0::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use a2a_server::task_record::{TaskChange, TaskRecord};

/// Returns a submitted task.
pub(crate) fn task(number: u64) -> TaskRecord {
    let id = format!("task-{number:08}");
    let at_ms = 1_790_000_000_000 + i64::try_from(number).unwrap();
    let mut message = Message::new(
        Role::User,
        vec![Part::text("Please say how things are. ".repeat(6))],
    );
    message.message_id = format!("message-{number:08}");
    TaskRecord {
        task: Task {
            context_id: format!("context-{:06}", number / 5),
            id,
            status: status(TaskState::Submitted),
            artifacts: None,
            history: Some(vec![message]),
            metadata: None,
        },
        owner: format!("client-{}", number % 4),
        agent: Some("main".to_owned()),
        session: format!("agent:main:a2a:client-{}:{number:08}", number % 4),
        version: Version::V1_0,
        run: None,
        created_ms: at_ms,
        changed_ms: at_ms,
        revision: 0,
    }
}

/// Returns a chunk of an answer.
pub(crate) fn chunk(revision: u64) -> TaskChange {
    TaskChange::Artifact {
        artifact: Artifact {
            artifact_id: "answer".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text("Things are as they were before. ".repeat(4))],
            metadata: None,
            extensions: None,
        },
        append: revision > 0,
        last_chunk: false,
    }
}

/// Returns the end of a task.
pub(crate) fn end() -> TaskChange {
    TaskChange::Status(status(TaskState::Completed))
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: Some(chrono::DateTime::UNIX_EPOCH),
    }
}
