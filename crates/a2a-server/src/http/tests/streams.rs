//! Streams, for each version over each binding.

use std::time::Duration;

use futures_util::StreamExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Server, V1, message, message_0_3, proto_0_3};

/// Returns the names of the events of 1.0, or of 0.3 over HTTP+JSON.
fn names(events: &[(Option<String>, Value)]) -> Vec<String> {
    events
        .iter()
        .map(|(_, data)| data.as_object().unwrap().keys().next().unwrap().clone())
        .collect()
}

async fn rpc(server: &Server, method: &str, params: Value) -> Vec<(Option<String>, Value)> {
    let mut events = server.rpc(method, params).await.events();
    for (_, data) in &mut events {
        assert_eq!((&data["jsonrpc"], &data["id"]), (&json!("2.0"), &json!(1)));
        *data = data["result"].take();
    }
    events
}

async fn rpc_0_3(server: &Server, method: &str, params: Value) -> Vec<Value> {
    let events = server.rpc_0_3(method, params).await.events();
    events
        .into_iter()
        .map(|(_, mut data)| data["result"].take())
        .collect()
}

const WHOLE: [&str; 6] = [
    "task",
    "statusUpdate",
    "artifactUpdate",
    "artifactUpdate",
    "artifactUpdate",
    "statusUpdate",
];

#[tokio::test]
async fn stream_begins_with_task_and_ends_with_state() {
    let server = Server::start().await;
    let params = json!({"message": message("slow 50")});
    let events = rpc(&server, "SendStreamingMessage", params).await;
    assert_eq!(names(&events), ["task", "statusUpdate", "statusUpdate"]);
    let (first, last) = (&events[0].1["task"], &events[2].1["statusUpdate"]);
    assert_eq!(first["id"], last["taskId"]);
    assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(last.get("final"), None);
}

#[tokio::test]
async fn chunks_arrive_in_order_with_last_marked() {
    let server = Server::start().await;
    let params = json!({"message": message("stream 3 20")});
    let events = rpc(&server, "SendStreamingMessage", params).await;
    assert_eq!(names(&events), WHOLE);
    let pieces: Vec<_> = events[2..5]
        .iter()
        .map(|(_, data)| &data["artifactUpdate"])
        .collect();
    let texts: Vec<_> = pieces
        .iter()
        .map(|piece| &piece["artifact"]["parts"][0]["text"])
        .collect();
    assert_eq!(texts, ["0 ", "1 ", "2 "]);
    let append: Vec<_> = pieces.iter().map(|piece| &piece["append"]).collect();
    assert_eq!(append, [false, true, true]);
    let last: Vec<_> = pieces.iter().map(|piece| &piece["lastChunk"]).collect();
    assert_eq!(last, [false, false, true]);
}

#[tokio::test]
async fn http_json_stream_has_no_envelope() {
    let server = Server::start().await;
    let body = json!({"message": message("stream 3 20")});
    let reply = server.post("/rest/message:stream", &[V1], body).await;
    assert_eq!(names(&reply.events()), WHOLE);
}

#[tokio::test]
async fn stream_of_0_3_has_kinds_and_final() {
    let server = Server::start().await;
    let params = json!({"message": message_0_3("stream 3 20")});
    let events = rpc_0_3(&server, "message/stream", params).await;
    let kinds: Vec<_> = events.iter().map(|event| &event["kind"]).collect();
    assert_eq!(
        kinds,
        [
            "task",
            "status-update",
            "artifact-update",
            "artifact-update",
            "artifact-update",
            "status-update"
        ]
    );
    assert_eq!(events[1]["final"], false);
    assert_eq!(events[5]["final"], true);
    assert_eq!(events[5]["status"]["state"], "completed");
}

#[tokio::test]
async fn http_json_stream_of_0_3_has_protobuf_form() {
    let server = Server::start().await;
    let body = json!({"message": proto_0_3("stream 3 20")});
    let events = server
        .post("/rest/v1/message:stream", &[], body)
        .await
        .events();
    assert_eq!(names(&events), WHOLE);
    let last = &events[5].1["statusUpdate"];
    assert_eq!(last["final"], true);
    assert_eq!(last["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(last.get("kind"), None);
}

#[tokio::test]
async fn direct_message_is_a_stream_of_one_event() {
    let server = Server::start().await;
    let sent = json!({"message": message("message hi")});
    let events = rpc(&server, "SendStreamingMessage", sent).await;
    assert_eq!(names(&events), ["message"]);
    let sent = json!({"message": message_0_3("message hi")});
    let events = rpc_0_3(&server, "message/stream", sent).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["kind"], "message");
}

#[tokio::test]
async fn stream_ends_at_interrupted_state() {
    let server = Server::start().await;
    for (word, state, state_0_3) in [
        ("ask colour", "TASK_STATE_INPUT_REQUIRED", "input-required"),
        ("auth token", "TASK_STATE_AUTH_REQUIRED", "auth-required"),
    ] {
        let sent = json!({"message": message(word)});
        let events = rpc(&server, "SendStreamingMessage", sent).await;
        let last = &events.last().unwrap().1["statusUpdate"]["status"];
        assert_eq!(last["state"], state);
        let sent = json!({"message": message_0_3(word)});
        let events = rpc_0_3(&server, "message/stream", sent).await;
        let last = events.last().unwrap();
        assert_eq!(
            (&last["status"]["state"], &last["final"]),
            (&json!(state_0_3), &json!(true))
        );
    }
}

#[tokio::test]
async fn stream_of_answer_continues_to_the_end() {
    let server = Server::start().await;
    let question = server
        .rpc("SendMessage", json!({"message": message("ask colour")}))
        .await
        .result();
    let mut answer = message("blue");
    answer["taskId"] = question["task"]["id"].clone();
    let events = rpc(&server, "SendStreamingMessage", json!({"message": answer})).await;
    let last = &events.last().unwrap().1["statusUpdate"]["status"];
    assert_eq!(last["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn stream_headers_forbid_caching_and_buffering() {
    let server = Server::start().await;
    let body = json!({"message": message("echo a")});
    let reply = server.post("/rest/message:stream", &[V1], body).await;
    assert_eq!(reply.header("content-type"), "text/event-stream");
    assert_eq!(reply.header("cache-control"), "no-cache");
    assert_eq!(reply.header("x-accel-buffering"), "no");
    assert!(!reply.text.contains("id:"));
}

/// Subscribes to a slow task, cancels it, and returns its id and the events.
async fn subscribed(
    server: &Server,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl FnOnce(&str) -> Option<Value>,
) -> (String, Vec<Value>) {
    let id = server.start_slow_task().await;
    let path = path.replace("ID", &id);
    let body = body(&id).map(|body| body.to_string());
    let response = server.send(method, &path, headers, body).await;
    assert_eq!(response.status(), StatusCode::OK);
    server.rpc("CancelTask", json!({"id": id})).await.result();
    let text = response.text().await.unwrap();
    let events = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "));
    let events = events.map(|data| serde_json::from_str(data).unwrap());
    let events = events.collect();
    (id, events)
}

#[tokio::test]
async fn subscribe_works_by_get_and_post() {
    let server = Server::start().await;
    for method in [Method::GET, Method::POST] {
        let subscribed = async |path, headers: &[_]| {
            subscribed(&server, method.clone(), path, headers, |_| None)
                .await
                .1
        };
        let events = subscribed("/rest/tasks/ID:subscribe", &[V1]).await;
        assert!(events[0]["task"].is_object(), "{method}: {events:?}");
        let last = &events.last().unwrap()["statusUpdate"]["status"];
        assert_eq!(last["state"], "TASK_STATE_CANCELED", "{method}");
        let events = subscribed("/rest/v1/tasks/ID:subscribe", &[]).await;
        let last = &events.last().unwrap()["statusUpdate"];
        assert_eq!(last["status"]["state"], "TASK_STATE_CANCELLED", "{method}");
        assert_eq!(last["final"], true, "{method}");
    }
}

#[tokio::test]
async fn subscribe_works_over_json_rpc() {
    let server = Server::start().await;
    for (method, headers, task) in [
        ("SubscribeToTask", &[V1][..], "/result/task/id"),
        ("tasks/resubscribe", &[], "/result/id"),
    ] {
        let body = |id: &str| {
            Some(json!({"jsonrpc": "2.0", "id": "s", "method": method, "params": {"id": id}}))
        };
        let (id, events) = subscribed(&server, Method::POST, "/a2a", headers, body).await;
        assert_eq!(events[0]["id"], "s");
        assert_eq!(events[0].pointer(task), Some(&json!(id)), "{method}");
    }
}

#[tokio::test]
async fn subscribe_to_terminal_task_fails_in_1_0() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    let reply = server.rpc("SubscribeToTask", json!({"id": id})).await;
    assert_eq!((reply.status, reply.code()), (StatusCode::OK, -32004));
    let reply = server
        .get(&format!("/rest/tasks/{id}:subscribe"), &[V1])
        .await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.reason(), "UNSUPPORTED_OPERATION");
}

#[tokio::test]
async fn subscribe_to_terminal_task_returns_it_in_0_3() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    let events = rpc_0_3(&server, "tasks/resubscribe", json!({"id": id})).await;
    assert_eq!(events[0]["kind"], "task");
    assert_eq!(events[1]["kind"], "status-update");
    assert_eq!(
        (&events[1]["final"], &events[1]["status"]["state"]),
        (&json!(true), &json!("completed"))
    );
    assert_eq!(events.len(), 2);
}

#[tokio::test]
async fn error_before_first_event_is_no_stream() {
    let server = Server::start().await;
    let reply = server
        .rpc("SendStreamingMessage", json!({"message": {}}))
        .await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.code(), -32602);
    let reply = server.post("/rest/message:stream", &[V1], json!({})).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn silent_stream_sends_keep_alive() {
    let server = Server::changed(|options| options.keep_alive = Duration::from_millis(20)).await;
    let id = server.start_slow_task().await;
    let path = format!("/rest/tasks/{id}:subscribe");
    let response = server.send(Method::GET, &path, &[V1], None).await;
    let mut bytes = response.bytes_stream();
    let mut text = String::new();
    while !text.contains("\n: keep-alive\n\n") {
        text.push_str(std::str::from_utf8(&bytes.next().await.unwrap().unwrap()).unwrap());
    }
}

#[tokio::test]
async fn disconnect_does_not_stop_task() {
    let server = Server::start().await;
    let body = json!({"message": message("slow 300")}).to_string();
    let response = server
        .send(Method::POST, "/rest/message:stream", &[V1], Some(body))
        .await;
    let mut bytes = response.bytes_stream();
    let first = bytes.next().await.unwrap().unwrap();
    let text = std::str::from_utf8(&first).unwrap();
    let event = text.split("\n\n").next().unwrap();
    let event = event.strip_prefix("data: ").unwrap();
    let event: Value = serde_json::from_str(event).unwrap();
    let id = event["task"]["id"].as_str().unwrap().to_owned();
    drop(bytes);
    let path = format!("/rest/tasks/{id}:subscribe");
    let reply = server.get(&path, &[V1]).await;
    let last = &reply.events().pop().unwrap().1["statusUpdate"]["status"];
    assert_eq!(last["state"], "TASK_STATE_COMPLETED");
}
