//! Renders tasks and their updates in the names of A2A 0.3.

use serde_json::{Value, json};

use a2a::Message;
use peer::PeerError;

use super::estimated_bytes;

/// The text for a message that cannot be withdrawn.
const CANCELED_TEXT: &str = "the call stopped waiting for the answer; the gateway cannot withdraw a message, so the agent may continue with it";

/// The ids in every update of a task.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskIds<'a> {
    /// The id that message and reply share.
    pub(super) task_id: &'a str,
    /// The session that the task belongs to.
    pub(super) context_id: &'a str,
}

/// The outcome of a message.
#[derive(Debug, Clone)]
pub(crate) enum TaskOutcome {
    /// The agent answered.
    Answered(Message),
    /// The triad decided: an artifact.
    Decided(Value),
    /// No reply will arrive.
    Failed(PeerError),
    /// The caller stopped waiting.
    Canceled,
}

impl TaskOutcome {
    /// Estimates the size of the outcome in bytes.
    pub(super) fn estimated_bytes(&self) -> usize {
        match self {
            Self::Answered(message) => estimated_bytes(message.json()),
            Self::Decided(artifact) => estimated_bytes(artifact),
            Self::Failed(error) => error.message.len(),
            Self::Canceled => 0,
        }
    }
}

fn message(ids: TaskIds<'_>, number: usize, text: &str, data: Option<Value>) -> Value {
    let mut parts = vec![json!({"kind": "text", "text": text})];
    parts.extend(data.map(|data| json!({"kind": "data", "data": data})));
    json!({
        "kind": "message",
        "messageId": format!("{}-{number}", ids.task_id),
        "role": "agent",
        "taskId": ids.task_id,
        "contextId": ids.context_id,
        "parts": parts,
    })
}

fn update(ids: TaskIds<'_>, status: Value, last: bool) -> Value {
    json!({
        "kind": "status-update",
        "taskId": ids.task_id,
        "contextId": ids.context_id,
        "status": status,
        "final": last,
    })
}

/// Returns a status update of the task.
pub(super) fn step(ids: TaskIds<'_>, number: usize, text: &str, data: Option<Value>) -> Value {
    let message = message(ids, number, text, data);
    update(ids, json!({"state": "working", "message": message}), false)
}

/// Returns the task with these steps.
pub(super) fn task(ids: TaskIds<'_>, steps: &[Value], outcome: Option<&TaskOutcome>) -> Value {
    let (status, artifact) = match outcome {
        Some(outcome) => final_status(ids, steps.len(), outcome),
        None => {
            let newest = steps.last().and_then(|step| step.pointer("/status"));
            (
                newest
                    .cloned()
                    .unwrap_or_else(|| json!({"state": "working"})),
                None,
            )
        }
    };
    let mut task = json!({
        "kind": "task",
        "id": ids.task_id,
        "contextId": ids.context_id,
        "status": status,
    });
    if let Some(artifact) = artifact {
        task["artifacts"] = json!([artifact]);
    }
    task
}

/// Returns the final updates.
pub(super) fn final_updates(ids: TaskIds<'_>, steps: usize, outcome: &TaskOutcome) -> Vec<Value> {
    let (status, artifact) = final_status(ids, steps, outcome);
    let artifact = artifact.map(|artifact| {
        json!({
            "kind": "artifact-update",
            "taskId": ids.task_id,
            "contextId": ids.context_id,
            "artifact": artifact,
            "append": false,
            "lastChunk": true,
        })
    });
    artifact
        .into_iter()
        .chain([update(ids, status, true)])
        .collect()
}

fn final_status(ids: TaskIds<'_>, number: usize, outcome: &TaskOutcome) -> (Value, Option<Value>) {
    match outcome {
        TaskOutcome::Answered(message) => {
            let parts = message
                .json()
                .get("parts")
                .cloned()
                .unwrap_or_else(|| json!([]));
            let reply = json!({"artifactId": "reply", "name": "reply", "parts": parts});
            (json!({"state": "completed"}), Some(reply))
        }
        TaskOutcome::Decided(artifact) => (json!({"state": "completed"}), Some(artifact.clone())),
        TaskOutcome::Failed(error) => {
            let message = message(ids, number, &failure(error), None);
            (json!({"state": "failed", "message": message}), None)
        }
        TaskOutcome::Canceled => {
            let message = message(ids, number, CANCELED_TEXT, None);
            (json!({"state": "canceled", "message": message}), None)
        }
    }
}

fn failure(error: &PeerError) -> String {
    match error.kind {
        peer::PeerErrorKind::Gateway(code) => format!("{code}: {error}"),
        _ => error.to_string(),
    }
}
