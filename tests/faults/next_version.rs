//! What a later version of A2A may add: members and states that this version does not know.

use serde_json::{Value, json};

use crate::faults::dialect::dialects;
use crate::faults::tool_fixture::{ToolFixture, send_request, stream_request};

/// Adds members that no version defines.
fn with_additions(mut object: Value) -> Value {
    object["generation"] = json!(7);
    object["added"] = json!({"list": [1, null]});
    object
}

fn has_additions(object: &Value) -> bool {
    object["generation"] == 7 && object["added"] == json!({"list": [1, null]})
}

#[tokio::test]
async fn unknown_members_of_a_task_are_kept() {
    for dialect in dialects() {
        let message = json!({"messageId": "m-1", "role": "agent", "parts": []});
        let mut task = with_additions(dialect.task_in_state(dialect.completed));
        task["status"] = with_additions(task["status"].clone());
        task["status"]["message"] = with_additions(message);
        let answer = (dialect.answer)((dialect.task)(task));
        let peers = dialect.peer(vec![(dialect.operations[0], answer)]).await;
        let envelope = ToolFixture::with_peers(&peers).call(&send_request()).await;
        let raw = &envelope["raw"];
        for object in [raw, &raw["status"], &raw["status"]["message"]] {
            assert!(has_additions(object), "{}: {envelope}", dialect.name);
        }
    }
}

#[tokio::test]
async fn unknown_members_of_events_are_kept() {
    for dialect in dialects() {
        let status = |state: &str| {
            let status = with_additions(json!({"state": state}));
            let update = json!({"taskId": "t-1", "contextId": "c-1", "status": status});
            (dialect.event)((dialect.status)(with_additions(update)))
        };
        let events = [status(dialect.working), status(dialect.completed)];
        let peers = dialect
            .peer(vec![(dialect.operations[1], json!({"sse": events}))])
            .await;
        let envelope = ToolFixture::with_peers(&peers)
            .call(&stream_request())
            .await;
        for event in envelope["raw"]["events"].as_array().unwrap() {
            let is_kept = has_additions(event) && has_additions(&event["status"]);
            assert!(is_kept, "{}: {envelope}", dialect.name);
        }
    }
}

#[tokio::test]
async fn unknown_state_is_shown_and_not_terminal() {
    for dialect in dialects() {
        let state = match dialect.working {
            "working" => "paused",
            _ => "TASK_STATE_PAUSED",
        };
        let answer = (dialect.answer)((dialect.task)(dialect.task_in_state(state)));
        let stream = dialect.stream_of_completed_task(state);
        let peers = dialect
            .peer(vec![
                (dialect.operations[0], answer),
                (dialect.operations[1], stream),
            ])
            .await;
        let tool = ToolFixture::with_peers(&peers);
        let envelope = tool.call(&send_request()).await;
        let task = &envelope["summary"]["continuation"]["task"];
        assert_eq!(task["status"], "paused", "{}: {envelope}", dialect.name);
        assert_eq!(task["can_cancel"], true, "{}: {envelope}", dialect.name);
        // A stream goes on after it.
        let envelope = tool.call(&stream_request()).await;
        let task = &envelope["summary"]["continuation"]["task"];
        assert_eq!(task["status"], "completed", "{}: {envelope}", dialect.name);
        assert_eq!(envelope["summary"]["message_text"], "the result");
    }
}
