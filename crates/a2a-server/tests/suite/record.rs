//! A submitted task.

use a2a::Version;
use a2a::v1_0::{Message, Part, Role, Task, TaskState, TaskStatus};
use a2a_server::task_record::TaskRecord;

/// Creates the task with this id.
pub(crate) fn record(id: &str) -> TaskRecord {
    let mut message = Message::new(Role::User, vec![Part::text("do it")]);
    message.message_id = format!("message-of-{id}");
    TaskRecord {
        task: Task {
            id: id.to_owned(),
            context_id: format!("context-of-{id}"),
            status: status(TaskState::Submitted),
            artifacts: None,
            history: Some(vec![message]),
            metadata: None,
        },
        owner: "ann".to_owned(),
        agent: None,
        session: "session".to_owned(),
        version: Version::V1_0,
        run: None,
        created_ms: 1,
        changed_ms: 1,
        revision: 0,
    }
}

/// Creates a status without a message.
pub(crate) fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: None,
    }
}
