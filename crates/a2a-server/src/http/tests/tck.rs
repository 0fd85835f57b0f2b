//! The requirements of the A2A technology compatibility kit for 0.3, in its categories mandatory and capabilities.
//!
//! The kit sends plain messages and expects tasks that it can continue, cancel and subscribe to. Its checks of errors,
//! envelopes and cards are in [`errors`](super::errors), [`negotiation`](super::negotiation) and
//! [`cards`](super::cards).

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::Server;
use super::unary::{Interface, bare, cancel, get, rest};

/// The bindings of 0.3.
const V0_3_INTERFACES: [Interface; 2] = [Interface::Rpc0, Interface::Rest0];

/// The states that the kit accepts after a message.
const ACCEPTED: [&str; 4] = ["submitted", "working", "input-required", "completed"];

/// Returns a message with an id in the format of the kit.
fn message(interface: Interface, prefix: &str, part: &Value) -> Value {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let id = format!("{prefix}{}", COUNT.fetch_add(1, Ordering::Relaxed));
    match interface {
        Interface::Rest0 => {
            let mut part = part.clone();
            part.as_object_mut().unwrap().remove("kind");
            json!({"messageId": id, "role": "ROLE_USER", "content": [part]})
        }
        _ => json!({"kind": "message", "messageId": id, "role": "user", "parts": [part]}),
    }
}

fn text() -> Value {
    json!({"kind": "text", "text": "Hello from the kit"})
}

async fn post(server: &Server, interface: Interface, message: Value) -> Value {
    let params = json!({"message": message});
    match interface {
        Interface::Rest0 => {
            let path = "/message:send";
            let reply = rest(server, interface, Method::POST, path, Some(params)).await;
            assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
            reply.json()["task"].clone()
        }
        _ => server.rpc_0_3("message/send", params).await.result(),
    }
}

/// Sends a plain message and returns the task.
async fn plain(server: &Server, interface: Interface) -> Value {
    let message = message(interface, "text-message-id-", &text());
    post(server, interface, message).await
}

/// Sends a plain message to a task.
async fn answer(server: &Server, interface: Interface, prefix: &str, task: &Value) -> Value {
    let mut message = message(interface, prefix, &text());
    message["taskId"] = task["id"].clone();
    post(server, interface, message).await
}

/// Returns the state in lower case, as JSON-RPC of 0.3 writes it.
fn state(task: &Value) -> String {
    let state = task["status"]["state"].as_str().unwrap();
    let state = state.trim_start_matches("TASK_STATE_").to_lowercase();
    state.replace('_', "-").replace("cancelled", "canceled")
}

#[track_caller]
fn is_accepted(task: &Value) {
    assert!(ACCEPTED.contains(&state(task).as_str()), "{task}");
}

#[tokio::test]
async fn message_continues_the_task() {
    let server = Server::start().await;
    for interface in V0_3_INTERFACES {
        let task = plain(&server, interface).await;
        is_accepted(&task);
        let again = answer(&server, interface, "continuation-message-id-", &task).await;
        assert_eq!(again["id"], task["id"], "{interface:?}");
        assert_eq!(again["contextId"], task["contextId"], "{interface:?}");
        is_accepted(&again);
    }
}

#[tokio::test]
async fn task_of_a_plain_message_is_canceled() {
    let server = Server::start().await;
    for interface in V0_3_INTERFACES {
        let task = plain(&server, interface).await;
        let id = task["id"].as_str().unwrap();
        let canceled = bare(interface, &cancel(&server, interface, id).await);
        assert_eq!(canceled["id"], task["id"], "{interface:?}");
        assert_eq!(state(&canceled), "canceled", "{interface:?}");
    }
}

#[tokio::test]
async fn history_is_limited_after_four_messages() {
    let server = Server::start().await;
    for interface in V0_3_INTERFACES {
        let task = plain(&server, interface).await;
        let id = task["id"].as_str().unwrap();
        for _ in 0..3 {
            answer(&server, interface, "test-history-message-", &task).await;
        }
        let messages = async |length| {
            let task = bare(interface, &get(&server, interface, id, length).await);
            task["history"].as_array().unwrap().len()
        };
        assert_eq!(messages(Some(1)).await, 1, "{interface:?}");
        assert_eq!(messages(Some(2)).await, 2, "{interface:?}");
        assert!(messages(None).await >= 4, "{interface:?}");
    }
}

#[tokio::test]
async fn unknown_task_is_not_found() {
    let server = Server::start().await;
    let id = "nonexistent-task-id";
    for interface in V0_3_INTERFACES {
        for reply in [
            get(&server, interface, id, None).await,
            cancel(&server, interface, id).await,
        ] {
            let body = reply.json();
            let error = match interface {
                Interface::Rest0 => &body,
                _ => &body["error"],
            };
            assert_eq!(error["code"], -32001, "{interface:?}: {}", reply.text);
            assert!(error["message"].is_string(), "{interface:?}");
        }
    }
}

#[tokio::test]
async fn message_without_required_fields_is_invalid() {
    let server = Server::start().await;
    let params = json!({"message": {"kind": "message"}});
    let reply = server.rpc_0_3("message/send", params.clone()).await;
    assert_eq!(reply.code(), -32602);
    let path = "/message:send";
    let reply = rest(&server, Interface::Rest0, Method::POST, path, Some(params)).await;
    assert_eq!(reply.json()["code"], -32602, "{}", reply.text);
}

#[tokio::test]
async fn file_and_data_parts_leave_open_tasks() {
    let server = Server::start().await;
    let file = json!({"kind": "file", "file": {"name": "test.txt", "mimeType": "text/plain", "uri": "https://example.com/test.txt"}});
    let data = json!({"kind": "data", "data": {"key": "value", "nested": {"array": [1, 2, 3]}}});
    for part in [file, data] {
        let message = message(Interface::Rpc0, "file-message-id-", &part);
        is_accepted(&post(&server, Interface::Rpc0, message).await);
    }
}

#[tokio::test]
async fn stream_of_a_plain_message_has_events_and_an_end() {
    let server = Server::start().await;
    let params = json!({"message": message(Interface::Rpc0, "test-stream-message-id-", &text())});
    let events = server.rpc_0_3("message/stream", params).await.events();
    let (_, last) = events.last().unwrap();
    assert!(events.len() >= 2, "{events:?}");
    assert_eq!(last["result"]["final"], true, "{events:?}");
}

#[tokio::test]
async fn open_task_is_resubscribed_to() {
    let server = Server::start().await;
    let message = message(Interface::Rpc0, "test-resubscribe-message-id-", &text());
    let task = post(&server, Interface::Rpc0, message).await;
    let id = json!({"id": task["id"]});
    let events = server.rpc_0_3("tasks/resubscribe", id).await.events();
    assert!(!events.is_empty());
}

#[tokio::test]
async fn task_of_a_plain_message_takes_webhooks() {
    let server = Server::start().await;
    let task = plain(&server, Interface::Rpc0).await;
    let url = "https://example.com/webhook";
    let set = json!({"taskId": task["id"], "pushNotificationConfig": {"url": url}});
    let name = "tasks/pushNotificationConfig";
    let made = server.rpc_0_3(&format!("{name}/set"), set).await.result();
    assert_eq!(made["pushNotificationConfig"]["url"], url);
    let listed = server
        .rpc_0_3(&format!("{name}/list"), json!({"id": task["id"]}))
        .await
        .result();
    assert_eq!(listed[0]["pushNotificationConfig"]["url"], url, "{listed}");
    let unknown = json!({"taskId": "nonexistent-task-id", "pushNotificationConfig": {"url": url}});
    let refused = server.rpc_0_3(&format!("{name}/set"), unknown).await;
    let error = refused.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_lowercase();
    assert!(error.contains("task"), "{error}");
}
