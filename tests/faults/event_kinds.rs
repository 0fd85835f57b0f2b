//! Peers that write the kinds of tasks and events in spellings of their own.

use serde_json::{Value, json};

use crate::faults::dialect::{Dialect, dialects};
use crate::faults::tool_fixture::{ToolFixture, stream_request};

/// Returns an update of the task with this `kind`, wrapped as the dialect does.
fn update(dialect: &Dialect, wrapper: &str, kind: &str, content: Value) -> Value {
    let mut update = json!({"taskId": "t-1", "contextId": "c-1", "kind": kind});
    crate::support::merge(&mut update, content);
    (dialect.event)(match dialect.name {
        "0.3 JSONRPC" => update,
        _ => json!({ wrapper: update }),
    })
}

/// No other event names the task.
#[tokio::test]
async fn kind_of_an_update_is_read_by_value_or_from_its_wrapper() {
    for dialect in dialects() {
        let is_bare = dialect.name == "0.3 JSONRPC";
        for (artifact, status) in [
            ("TaskArtifactUpdateEvent", "TaskStatusUpdateEvent"),
            ("ARTIFACT_UPDATE", "STATUS_UPDATE"),
            ("artifactUpdate", "statusUpdate"),
            ("task-artifact-update", "task-status-update"),
            ("", ""),
            ("foo", "bar"),
        ] {
            if is_bare && artifact == "foo" {
                continue;
            }
            let part = json!({"kind": "text", "text": "the result"});
            let content = json!({"artifact": {"artifactId": "a", "parts": [part]}});
            let state = json!({"status": {"state": dialect.completed}, "final": true});
            let events = [
                update(&dialect, "artifactUpdate", artifact, content),
                update(&dialect, "statusUpdate", status, state),
            ];
            let stream = (dialect.operations[1], json!({"sse": events}));
            let peers = dialect.peer(vec![stream]).await;
            let envelope = ToolFixture::with_peers(&peers)
                .call(&stream_request())
                .await;
            let name = dialect.name;
            assert_eq!(envelope["ok"], true, "{name} {status}: {envelope}");
            let summary = &envelope["summary"];
            assert_eq!(summary["message_text"], "the result", "{name} {status}");
            let task = &summary["continuation"]["task"];
            assert_eq!(task["task_id"], "t-1", "{name} {status}");
            assert_eq!(task["status"], "completed", "{name} {status}");
        }
    }
}

#[tokio::test]
async fn status_reads_what_send_reads() {
    for dialect in dialects() {
        let task = dialect.task_in_state(dialect.completed);
        let mut capitals = task.clone();
        capitals["kind"] = json!("TASK");
        for answer in [
            capitals.clone(),
            json!({"task": capitals}),
            json!({"payload": {"$case": "task", "value": task}}),
        ] {
            let answer = (dialect.operations[3], (dialect.answer)(answer));
            let peers = dialect.peer(vec![answer]).await;
            let request = json!({"action": "status", "task_id": "t-1"});
            let envelope = ToolFixture::with_peers(&peers).call(&request).await;
            assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
            let task = &envelope["summary"]["continuation"]["task"];
            assert_eq!(task["status"], "completed", "{}", dialect.name);
        }
    }
}

#[tokio::test]
async fn unknown_event_names_the_task_that_a_query_completes() {
    for dialect in dialects() {
        let named = json!({"kind": "foo", "taskId": "t-1", "contextId": "c-1"});
        let events = json!({"sse": [(dialect.event)(named)]});
        let done = (dialect.answer)(dialect.task_in_state(dialect.completed));
        let [_, stream, subscribe, get] = dialect.operations;
        let peers = dialect
            .peer(vec![
                (stream, events.clone()),
                (subscribe, events),
                (get, done),
            ])
            .await;
        let envelope = ToolFixture::with_peers(&peers)
            .call(&stream_request())
            .await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let task = &envelope["summary"]["continuation"]["task"];
        assert_eq!(task["status"], "completed", "{}", dialect.name);
    }
}
