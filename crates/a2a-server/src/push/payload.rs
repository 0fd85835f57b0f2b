//! The payload of the notifications about a change.

use a2a::v1_0::{
    Artifact, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent,
};
use bytes::Bytes;
use serde::Serialize;

use crate::task_record::{TaskChange, TaskRecord};
use a2a::v0_3;

/// A change in the form for webhooks. It contains no task, because most tasks have no webhook.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PushPayload {
    pub(super) task_id: String,
    context_id: String,
    what: PayloadKind,
}

#[derive(Debug, Clone, PartialEq)]
enum PayloadKind {
    /// A new status.
    Status(TaskStatus),
    /// The complete artifact with this id.
    Artifact(String),
}

impl PushPayload {
    /// Creates the payload of a change; `None` if webhooks are not notified of it. Webhooks receive complete artifacts,
    /// while streams receive chunks.
    pub(super) fn new(record: &TaskRecord, change: &TaskChange) -> Option<Self> {
        let what = match change {
            TaskChange::Status(status) => PayloadKind::Status(status.clone()),
            TaskChange::Artifact {
                artifact,
                last_chunk: true,
                ..
            } => PayloadKind::Artifact(artifact.artifact_id.clone()),
            TaskChange::Artifact { .. }
            | TaskChange::Message(_)
            | TaskChange::Metadata(_)
            | TaskChange::Run(_)
            | TaskChange::Started => {
                return None;
            }
        };
        Some(Self {
            task_id: record.task.id.clone(),
            context_id: record.task.context_id.clone(),
            what,
        })
    }

    /// Returns whether the server notifies webhooks of 0.3 of this change. They receive the whole task, and only when
    /// its state changes.
    pub(super) fn applies_to_0_3(&self) -> bool {
        matches!(self.what, PayloadKind::Status(_))
    }

    /// Returns whether [`body_1_0`](Self::body_1_0) works without the task.
    pub(super) fn is_self_contained(&self) -> bool {
        matches!(self.what, PayloadKind::Status(_))
    }

    /// Returns the body for a webhook of 1.0 (A2A 1.0 §4.3.3). `task` may be `None` if the payload is self-contained.
    pub(super) fn body_1_0(&self, task: Option<&Task>) -> Option<Bytes> {
        let event = match &self.what {
            PayloadKind::Status(status) => StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: self.task_id.clone(),
                context_id: self.context_id.clone(),
                status: status.clone(),
                metadata: None,
            }),
            PayloadKind::Artifact(id) => StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: self.task_id.clone(),
                context_id: self.context_id.clone(),
                artifact: artifact(task?, id)?.clone(),
                append: Some(false),
                last_chunk: Some(true),
                metadata: None,
            }),
        };
        json(&event)
    }

    /// Returns the body for a webhook of 0.3: the current task with the state of this change, so that the webhook
    /// receives each state once.
    pub(super) fn body_0_3(&self, mut task: Task) -> Option<Bytes> {
        if let PayloadKind::Status(status) = &self.what {
            task.status = status.clone();
        }
        json(&v0_3::rpc(&task))
    }
}

fn artifact<'a>(task: &'a Task, id: &str) -> Option<&'a Artifact> {
    let mut all = task.artifacts.iter().flatten();
    all.rfind(|artifact| artifact.artifact_id == id)
}

fn json(value: &impl Serialize) -> Option<Bytes> {
    serde_json::to_vec(value).ok().map(Bytes::from)
}
