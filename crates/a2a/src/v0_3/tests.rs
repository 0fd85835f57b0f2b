#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use crate::v1_0::{
    Artifact, AuthenticationInfo, Message, Part, PartContent, Role, SendMessageResponse,
    StreamResponse, Task, TaskArtifactUpdateEvent, TaskPushNotificationConfig, TaskState,
    TaskStatus, TaskStatusUpdateEvent,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Dialect, V03, as_v0_3, rpc};

fn as_rpc<T: ?Sized>(value: &T) -> Value
where
    for<'a> V03<'a, T>: Serialize,
{
    serde_json::to_value(rpc(value)).unwrap()
}

fn as_rest<T: ?Sized>(value: &T) -> Value
where
    for<'a> V03<'a, T>: Serialize,
{
    serde_json::to_value(as_v0_3(value, Dialect::Rest)).unwrap()
}

fn metadata(key: &str, value: Value) -> Option<HashMap<String, Value>> {
    Some(HashMap::from([(key.to_owned(), value)]))
}

fn message() -> Message {
    Message {
        message_id: "m".to_owned(),
        context_id: Some("c".to_owned()),
        task_id: Some("t".to_owned()),
        role: Role::Agent,
        parts: vec![Part::text("hello")],
        metadata: metadata("k", json!(1)),
        extensions: Some(vec!["urn:x".to_owned()]),
        reference_task_ids: Some(vec!["r".to_owned()]),
    }
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: Some("2026-11-21T20:21:39.486Z".parse().unwrap()),
    }
}

fn task() -> Task {
    Task {
        id: "t".to_owned(),
        context_id: "c".to_owned(),
        status: status(TaskState::Canceled),
        artifacts: Some(vec![Artifact {
            artifact_id: "a".to_owned(),
            name: Some("n".to_owned()),
            description: Some("d".to_owned()),
            parts: vec![Part::text("x")],
            metadata: None,
            extensions: None,
        }]),
        history: Some(vec![message()]),
        metadata: metadata("usage", json!({"tokens": 3})),
    }
}

#[test]
fn message_over_json_rpc() {
    let expected = json!({
        "kind": "message", "messageId": "m", "contextId": "c", "taskId": "t", "role": "agent",
        "parts": [{"kind": "text", "text": "hello"}],
        "metadata": {"k": 1}, "extensions": ["urn:x"], "referenceTaskIds": ["r"],
    });
    assert_eq!(as_rpc(&message()), expected);
}

#[test]
fn http_json_message_has_only_fields_of_the_proto() {
    let expected = json!({
        "messageId": "m", "contextId": "c", "taskId": "t", "role": "ROLE_AGENT",
        "content": [{"text": "hello"}],
        "metadata": {"k": 1}, "extensions": ["urn:x"],
    });
    assert_eq!(as_rest(&message()), expected);
}

#[test]
fn task_over_json_rpc() {
    let expected = json!({
        "kind": "task", "id": "t", "contextId": "c",
        "status": {"state": "canceled", "timestamp": "2026-11-21T20:21:39.486Z"},
        "artifacts": [{"artifactId": "a", "name": "n", "description": "d", "parts": [{"kind": "text", "text": "x"}]}],
        "history": [as_rpc(&message())],
        "metadata": {"usage": {"tokens": 3}},
    });
    assert_eq!(as_rpc(&task()), expected);
    assert_eq!(as_rpc(&SendMessageResponse::Task(task())), expected);
    assert_eq!(as_rpc(&StreamResponse::Task(task())), expected);
}

#[test]
fn http_json_wraps_a_task_where_a_message_is_possible() {
    let expected = json!({
        "id": "t", "contextId": "c",
        "status": {"state": "TASK_STATE_CANCELLED", "timestamp": "2026-11-21T20:21:39.486Z"},
        "artifacts": [{"artifactId": "a", "name": "n", "description": "d", "parts": [{"text": "x"}]}],
        "history": [as_rest(&message())],
        "metadata": {"usage": {"tokens": 3}},
    });
    assert_eq!(as_rest(&task()), expected);
    assert_eq!(
        as_rest(&SendMessageResponse::Task(task())),
        json!({"task": expected})
    );
    assert_eq!(
        as_rest(&StreamResponse::Task(task())),
        json!({"task": expected})
    );
}

#[test]
fn empty_values_are_omitted() {
    let bare = Task {
        artifacts: Some(Vec::new()),
        history: Some(Vec::new()),
        metadata: Some(HashMap::new()),
        ..task()
    };
    let written = as_rpc(&bare);
    assert_eq!(written.as_object().unwrap().len(), 4, "{written}");
}

#[test]
fn every_state_has_both_names() {
    for (state, rpc, rest) in [
        (TaskState::Submitted, "submitted", "TASK_STATE_SUBMITTED"),
        (TaskState::Working, "working", "TASK_STATE_WORKING"),
        (
            TaskState::InputRequired,
            "input-required",
            "TASK_STATE_INPUT_REQUIRED",
        ),
        (TaskState::Completed, "completed", "TASK_STATE_COMPLETED"),
        (TaskState::Canceled, "canceled", "TASK_STATE_CANCELLED"),
        (TaskState::Failed, "failed", "TASK_STATE_FAILED"),
        (TaskState::Rejected, "rejected", "TASK_STATE_REJECTED"),
        (
            TaskState::AuthRequired,
            "auth-required",
            "TASK_STATE_AUTH_REQUIRED",
        ),
        (TaskState::Unspecified, "unknown", "TASK_STATE_UNSPECIFIED"),
    ] {
        assert_eq!(as_rpc(&state), rpc);
        assert_eq!(as_rest(&state), rest);
    }
}

#[test]
fn every_kind_of_part_in_both_dialects() {
    let raw = Part {
        content: PartContent::Raw(vec![0, 255]),
        filename: Some("a.bin".to_owned()),
        media_type: Some("a/b".to_owned()),
        metadata: metadata("k", json!(null)),
    };
    assert_eq!(
        as_rpc(&raw),
        json!({"kind": "file", "file": {"bytes": "AP8=", "name": "a.bin", "mimeType": "a/b"}, "metadata": {"k": null}})
    );
    assert_eq!(
        as_rest(&raw),
        json!({"file": {"fileWithBytes": "AP8=", "name": "a.bin", "mimeType": "a/b"}, "metadata": {"k": null}})
    );
    let url = Part::url("https://f.test/x");
    assert_eq!(
        as_rpc(&url),
        json!({"kind": "file", "file": {"uri": "https://f.test/x"}})
    );
    assert_eq!(
        as_rest(&url),
        json!({"file": {"fileWithUri": "https://f.test/x"}})
    );
    let data = Part::data(json!({"x": [1]}));
    assert_eq!(as_rpc(&data), json!({"kind": "data", "data": {"x": [1]}}));
    assert_eq!(as_rest(&data), json!({"data": {"data": {"x": [1]}}}));
}

#[test]
fn data_that_is_no_object_is_wrapped_and_marked() {
    let data = Part {
        metadata: metadata("k", json!(1)),
        ..Part::data(json!([1, 2]))
    };
    assert_eq!(
        as_rpc(&data),
        json!({"kind": "data", "data": {"value": [1, 2]}, "metadata": {"k": 1, "data_part_compat": true}})
    );
}

#[test]
fn status_has_final_flag() {
    for (state, last) in [
        (TaskState::Working, false),
        (TaskState::Submitted, false),
        (TaskState::Completed, true),
        (TaskState::Failed, true),
        (TaskState::Canceled, true),
        (TaskState::Rejected, true),
        (TaskState::InputRequired, true),
        (TaskState::AuthRequired, true),
    ] {
        let event = StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            status: status(state.clone()),
            metadata: None,
        });
        let written = as_rpc(&event);
        assert_eq!(
            (&written["kind"], &written["final"]),
            (&json!("status-update"), &json!(last)),
            "{state:?}"
        );
        assert_eq!(as_rest(&event)["statusUpdate"]["final"], last, "{state:?}");
    }
}

#[test]
fn artifact_update_has_append_and_last_chunk() {
    let event = StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
        task_id: "t".to_owned(),
        context_id: "c".to_owned(),
        artifact: Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text("x")],
            metadata: None,
            extensions: None,
        },
        append: Some(true),
        last_chunk: None,
        metadata: None,
    });
    let expected = json!({
        "kind": "artifact-update", "taskId": "t", "contextId": "c",
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]},
        "append": true, "lastChunk": false,
    });
    assert_eq!(as_rpc(&event), expected);
    assert_eq!(
        as_rest(&event)["artifactUpdate"]["artifact"]["parts"][0],
        json!({"text": "x"})
    );
}

#[test]
fn webhook_names_its_task_in_every_form() {
    let config = TaskPushNotificationConfig {
        url: "https://h.test".to_owned(),
        id: Some("c".to_owned()),
        task_id: "t".to_owned(),
        token: Some("k".to_owned()),
        authentication: Some(AuthenticationInfo {
            scheme: "Bearer".to_owned(),
            credentials: Some("s".to_owned()),
        }),
        tenant: None,
    };
    let inner = json!({
        "id": "c", "url": "https://h.test", "token": "k",
        "authentication": {"schemes": ["Bearer"], "credentials": "s"},
    });
    assert_eq!(
        as_rpc(&config),
        json!({"taskId": "t", "pushNotificationConfig": inner})
    );
    let name = "tasks/t/pushNotificationConfigs/c";
    let rest = json!({"name": name, "pushNotificationConfig": inner});
    assert_eq!(as_rest(&config), rest);
    let all = [config];
    assert_eq!(
        as_rpc(all.as_slice()),
        json!([{"taskId": "t", "pushNotificationConfig": inner}])
    );
    assert_eq!(
        as_rest(all.as_slice()),
        json!({"configs": [rest], "nextPageToken": ""})
    );
}
