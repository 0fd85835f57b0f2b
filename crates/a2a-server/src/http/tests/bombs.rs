//! Small requests that need much memory once they are parsed.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Server, V1};
use crate::http::request::JSON_LIMITS;

const MAX_DEPTH: usize = JSON_LIMITS.depth;

const REST: &str = "/rest/message:send";

/// Returns a message whose data nests `levels` lists.
fn nested_message(levels: usize) -> Value {
    let mut data = Value::Array(Vec::new());
    for _ in 1..levels {
        data = Value::Array(vec![data]);
    }
    json!({"message": {"messageId": "tck-complete-task-deep", "role": "ROLE_USER", "parts": [{"data": data}]}})
}

/// The nesting around a part in a request over HTTP+JSON.
const ENVELOPE_LEVELS: usize = 4;

#[tokio::test]
async fn deepest_message_is_readable_everywhere() {
    let server = Server::start().await;
    let sent = server
        .post(REST, &[V1], nested_message(MAX_DEPTH - ENVELOPE_LEVELS))
        .await;
    assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
    let id = sent.json()["task"]["id"].as_str().unwrap().to_owned();
    let received = server.rpc("GetTask", json!({"id": id})).await.result();
    let data = &received["history"][0]["parts"][0]["data"];
    assert_eq!(
        data,
        &nested_message(MAX_DEPTH - ENVELOPE_LEVELS)["message"]["parts"][0]["data"]
    );
}

#[tokio::test]
async fn deeper_message_is_rejected_by_both_bindings() {
    let server = Server::start().await;
    let rest = server
        .post(REST, &[V1], nested_message(MAX_DEPTH - ENVELOPE_LEVELS + 1))
        .await;
    assert_eq!(rest.status, StatusCode::BAD_REQUEST);
    let rpc = server
        .rpc("SendMessage", nested_message(MAX_DEPTH - ENVELOPE_LEVELS))
        .await;
    assert_eq!(rpc.code(), -32600);
}

#[tokio::test]
async fn long_request_id_is_rejected() {
    let server = Server::start().await;
    let request_with_id = |length: usize| {
        let id = "x".repeat(length);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "ListTasks", "params": {}});
        let body = body.to_string();
        let server = &server;
        async move {
            server
                .request(Method::POST, "/a2a", &[V1], Some(body))
                .await
                .json()
        }
    };
    assert!(request_with_id(1022).await["result"].is_object());
    let rejected = request_with_id(1023).await;
    assert_eq!(rejected["error"]["code"], -32600);
    assert_eq!(rejected["id"], Value::Null);
}

#[tokio::test]
async fn error_shortens_long_names() {
    let server = Server::start().await;
    let reply = server
        .rpc("GetTask", json!({"id": "x".repeat(100_000)}))
        .await;
    assert_eq!(reply.code(), -32001);
    assert!(reply.text.len() < 1000, "{}", reply.text.len());
}
