//! What there is to tell of a change.

use a2a::v1_0::{
    Artifact, StreamResponse, Task, TaskArtifactUpdateEvent, TaskStatus, TaskStatusUpdateEvent,
};
use bytes::Bytes;
use serde::Serialize;

use crate::task_record::{TaskChange, TaskRecord};
use a2a::v0_3;

/// A change that webhooks are told of. It holds no more than the change itself: whether anybody is to be told is not known
/// yet, and most tasks have no webhook.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PushPayload {
    pub(super) task_id: String,
    context_id: String,
    what: PayloadKind,
}

#[derive(Debug, Clone, PartialEq)]
enum PayloadKind {
    /// The task stands elsewhere now.
    Status(TaskStatus),
    /// The artifact of this id is complete.
    Artifact(String),
}

impl PushPayload {
    /// What webhooks are told of a change, if anything. The pieces of an artifact are for those who stream: a webhook is
    /// told once it is whole.
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
            | TaskChange::Run(_) => {
                return None;
            }
        };
        Some(Self {
            task_id: record.task.id.clone(),
            context_id: record.task.context_id.clone(),
            what,
        })
    }

    /// Whether webhooks of 0.3 are told of it. They are sent the whole task, and only where its state changes.
    pub(super) fn applies_to_0_3(&self) -> bool {
        matches!(self.what, PayloadKind::Status(_))
    }

    /// Whether a webhook of 1.0 can be told without the task.
    pub(super) fn is_self_contained(&self) -> bool {
        matches!(self.what, PayloadKind::Status(_))
    }

    /// The body for a registration of 1.0 (§4.3.3). `task` is the task where the notice does not stand alone.
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

    /// The body for a registration of 0.3: the task as it is now, in the state it had then, since a state must not be told
    /// twice while another is never told.
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
