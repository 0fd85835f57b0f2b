//! Publishes the events of one task.

use a2a::{
    A2AError, Artifact, Message, Part, Role, StreamResponse, Task, TaskArtifactUpdateEvent, TaskId,
    TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use a2a_server::ExecutorContext;
use futures::channel::mpsc::UnboundedSender;

pub struct Work {
    events: UnboundedSender<Result<StreamResponse, A2AError>>,
    task_id: TaskId,
    context_id: String,
}

impl Work {
    pub fn new(
        events: UnboundedSender<Result<StreamResponse, A2AError>>,
        context: &ExecutorContext,
    ) -> Self {
        let (task_id, context_id) = context.task_info();
        Self {
            events,
            task_id,
            context_id,
        }
    }

    pub fn id(&self) -> &str {
        &self.task_id
    }

    pub fn publish(&self, event: StreamResponse) {
        // The channel has no receiver once the task has been canceled.
        let _ = self.events.unbounded_send(Ok(event));
    }

    /// Fails with an error of the SDK.
    pub fn crash(&self, why: &str) {
        let _ = self.events.unbounded_send(Err(A2AError::internal(why)));
    }

    pub fn start(&self, state: TaskState, message: &Message) {
        self.publish(StreamResponse::Task(Task {
            id: self.task_id.clone(),
            context_id: self.context_id.clone(),
            status: status(state, None),
            artifacts: None,
            history: Some(vec![message.clone()]),
            metadata: None,
        }));
    }

    pub fn status(&self, state: TaskState, said: Option<&str>) {
        let message = said.map(|said| {
            let mut message = Message::new(Role::Agent, vec![Part::text(said)]);
            message.task_id = Some(self.task_id.clone());
            message.context_id = Some(self.context_id.clone());
            message
        });
        self.publish(StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.task_id.clone(),
            context_id: self.context_id.clone(),
            status: status(state, message),
            metadata: None,
        }));
    }

    pub fn artifact(&self, id: &str, name: &str, parts: Vec<Part>) {
        self.update(id, name, parts, None, None);
    }

    pub fn chunk(&self, id: &str, name: &str, text: &str, append: bool, last: bool) {
        self.update(id, name, vec![Part::text(text)], Some(append), Some(last));
    }

    fn update(
        &self,
        id: &str,
        name: &str,
        parts: Vec<Part>,
        append: Option<bool>,
        last_chunk: Option<bool>,
    ) {
        self.publish(StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.task_id.clone(),
            context_id: self.context_id.clone(),
            artifact: Artifact {
                artifact_id: id.to_owned(),
                name: (!name.is_empty()).then(|| name.to_owned()),
                description: None,
                parts,
                metadata: None,
                extensions: None,
            },
            append,
            last_chunk,
            metadata: None,
        }));
    }
}

fn status(state: TaskState, message: Option<Message>) -> TaskStatus {
    TaskStatus {
        state,
        message,
        timestamp: None,
    }
}
