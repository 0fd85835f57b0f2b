//! Tasks and their updates in the names of A2A 0.3.

use serde_json::{Value, json};

use peer::PeerError;

use super::entry::{Entry, Life, Outcome};

/// What is said of a message that cannot be taken back.
const GOES_ON: &str = "nobody waits for the answer any more; the gateway cannot take a message back, so the agent may go on with it";

fn said(entry: &Entry, number: usize, text: &str, data: Option<Value>) -> Value {
    let mut parts = vec![json!({"kind": "text", "text": text})];
    parts.extend(data.map(|data| json!({"kind": "data", "data": data})));
    json!({
        "kind": "message",
        "messageId": format!("{}-{number}", entry.id),
        "role": "agent",
        "taskId": entry.id,
        "contextId": entry.context_id,
        "parts": parts,
    })
}

fn update(entry: &Entry, status: Value, last: bool) -> Value {
    json!({
        "kind": "status-update",
        "taskId": entry.id,
        "contextId": entry.context_id,
        "status": status,
        "final": last,
    })
}

/// A step on the way.
pub(super) fn step(entry: &Entry, number: usize, text: &str, data: Option<Value>) -> Value {
    let message = said(entry, number, text, data);
    update(
        entry,
        json!({"state": "working", "message": message}),
        false,
    )
}

/// The task after these steps.
pub(super) fn task(entry: &Entry, steps: &[Value], outcome: Option<&Outcome>) -> Value {
    let (status, artifact) = match outcome {
        Some(outcome) => ended(entry, steps.len(), outcome),
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
        "id": entry.id,
        "contextId": entry.context_id,
        "status": status,
    });
    if let Some(artifact) = artifact {
        task["artifacts"] = json!([artifact]);
    }
    task
}

/// The updates that tell the end.
pub(super) fn end(entry: &Entry, life: &Life, outcome: &Outcome) -> Vec<Value> {
    let (status, artifact) = ended(entry, life.steps.len(), outcome);
    let artifact = artifact.map(|artifact| {
        json!({
            "kind": "artifact-update",
            "taskId": entry.id,
            "contextId": entry.context_id,
            "artifact": artifact,
            "append": false,
            "lastChunk": true,
        })
    });
    artifact
        .into_iter()
        .chain([update(entry, status, true)])
        .collect()
}

fn ended(entry: &Entry, number: usize, outcome: &Outcome) -> (Value, Option<Value>) {
    match outcome {
        Outcome::Answered(message) => {
            let parts = message
                .json()
                .get("parts")
                .cloned()
                .unwrap_or_else(|| json!([]));
            let reply = json!({"artifactId": "reply", "name": "reply", "parts": parts});
            (json!({"state": "completed"}), Some(reply))
        }
        Outcome::Decided(artifact) => (json!({"state": "completed"}), Some(artifact.clone())),
        Outcome::Failed(error) => {
            let message = said(entry, number, &failure(error), None);
            (json!({"state": "failed", "message": message}), None)
        }
        Outcome::Canceled => {
            let message = said(entry, number, GOES_ON, None);
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
