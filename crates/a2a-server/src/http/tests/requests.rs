//! Notifications, ids, encodings and compression of requests.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Server, V1, message};

const RPC: &str = "/a2a";

#[tokio::test]
async fn notification_gets_no_answer() {
    let server = Server::start().await;
    let notify = async |headers: &[(&str, &str)], method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let reply = server.post(RPC, headers, body).await;
        assert_eq!(reply.text, "", "{method}");
        reply.status
    };
    let id = server.start_slow_task().await;
    let sent = json!({"message": message("slow")});
    assert_eq!(
        notify(&[V1], "SendMessage", sent.clone()).await,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        notify(&[V1], "SendStreamingMessage", sent).await,
        StatusCode::NO_CONTENT
    );
    let listed = server.rpc("ListTasks", json!({})).await.result();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(
        notify(&[], "tasks/cancel", json!({"id": id})).await,
        StatusCode::NO_CONTENT
    );
    let task = server.rpc("GetTask", json!({"id": id})).await.result();
    assert_eq!(task["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(
        notify(&[], "tasks/get", json!({"id": "no"})).await,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        notify(&[], "no/method", json!({})).await,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn request_with_null_as_id_is_answered() {
    let server = Server::start().await;
    let body = r#"{"jsonrpc":"2.0","id":null,"method":"tasks/get","params":{"id":"no"}}"#;
    let reply = server
        .request(Method::POST, RPC, &[], Some(body.to_owned()))
        .await
        .json();
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&Value::Null, &json!(-32001))
    );
}

#[tokio::test]
async fn compressed_body_is_refused_by_name() {
    let server = Server::start().await;
    for path in [
        RPC,
        "/rest/message:send",
        "/rest/v1/message:send",
        "/ap/v1/agent/tasks",
    ] {
        let version = if path.contains("/v1/") { "0.3" } else { "1.0" };
        let headers = [("content-encoding", "gzip"), ("a2a-version", version)];
        let reply = server.post(path, &headers, json!({})).await;
        assert_eq!(reply.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{path}");
        assert!(
            reply.text.contains("Content-Encoding: `gzip`"),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn byte_order_mark_and_lone_surrogate_are_accepted() {
    let server = Server::start().await;
    let message = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"echo \ud83d"}]}"#;
    let rpc = format!(
        "\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"SendMessage\",\"params\":{{\"message\":{message}}}}}"
    );
    for (path, body) in [
        (RPC, rpc),
        (
            "/rest/message:send",
            format!("\u{feff}{{\"message\":{message}}}"),
        ),
    ] {
        let reply = server.request(Method::POST, path, &[V1], Some(body)).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
        assert!(reply.text.contains('\u{fffd}'), "{path}: {}", reply.text);
    }
    let body = "\u{feff}{\"input\": \"echo a\"}".to_owned();
    let reply = server
        .request(Method::POST, "/ap/v1/agent/tasks", &[], Some(body))
        .await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
}
