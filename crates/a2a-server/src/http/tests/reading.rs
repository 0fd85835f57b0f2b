//! Accepted spellings of requests, and parts that the server rejects.

use serde_json::{Value, json};

use super::harness::{Server, V1};

fn method(version: &str) -> &'static str {
    match version {
        "1.0" => "SendMessage",
        _ => "message/send",
    }
}

/// Sends `message` over JSON-RPC and returns the parts that arrived at the agent, in the format of 1.0.
async fn parts(server: &Server, version: &str, mut message: Value) -> Value {
    let name = method(version);
    let first = json!({"text": "parts"});
    message["parts"].as_array_mut().unwrap().insert(0, first);
    let params = json!({"message": message, "configuration": {"blocking": true}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": name, "params": params});
    let reply = server.post("/a2a", &[("a2a-version", version)], body).await;
    let result = reply.result();
    let task = if version == "1.0" {
        &result["task"]
    } else {
        &result
    };
    task["artifacts"][0]["parts"][0]["data"]["parts"].clone()
}

fn v1(parts: Value) -> Value {
    json!({"messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": parts})
}

fn v0_3(parts: Value) -> Value {
    json!({"messageId": uuid::Uuid::new_v4().to_string(), "role": "user", "parts": parts})
}

#[tokio::test]
async fn files_of_0_3_are_converted() {
    let server = Server::start().await;
    let sent = v0_3(json!([
        {"kind": "file", "file": {"bytes": "AP9o", "name": "a.bin", "mimeType": "application/x"}},
        {"type": "file", "file": {"uri": "https://f.test/b", "mimeType": "image/png"}},
    ]));
    let same = v1(json!([
        {"raw": "AP9o", "filename": "a.bin", "mediaType": "application/x"},
        {"url": "https://f.test/b", "mediaType": "image/png"},
    ]));
    let received = parts(&server, "0.3", sent).await;
    assert_eq!(received.as_array().unwrap().len(), 2);
    assert_eq!(received, parts(&server, "1.0", same).await);
}

#[tokio::test]
async fn base64_accepts_both_alphabets_and_no_padding() {
    let server = Server::start().await;
    let expected = parts(&server, "1.0", v1(json!([{"raw": "+/8="}]))).await;
    for raw in ["+/8", "-_8=", "-_8"] {
        assert_eq!(
            parts(&server, "1.0", v1(json!([{"raw": raw}]))).await,
            expected,
            "{raw}"
        );
    }
}

async fn refused(server: &Server, version: &str, message: Value) -> (i64, String, Value) {
    let name = method(version);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": name, "params": {"message": message}});
    let error = server
        .post("/a2a", &[("a2a-version", version)], body)
        .await
        .json()["error"]
        .clone();
    let field = error["data"][1]["fieldViolations"][0]["field"].clone();
    (
        error["code"].as_i64().unwrap(),
        error["message"].as_str().unwrap().to_owned(),
        field,
    )
}

#[tokio::test]
async fn unknown_part_is_rejected_by_name() {
    let server = Server::start().await;
    let kind = v0_3(json!([{"kind": "text", "text": "a"}, {"kind": "video", "video": {}}]));
    let field = v1(json!([{"audio": {}, "metadata": {}}]));
    for (version, message, place, name) in [
        ("0.3", kind, "message.parts[1]", "`video`"),
        ("1.0", field, "message.parts[0]", "`audio`"),
    ] {
        let (code, text, field) = refused(&server, version, message).await;
        assert_eq!((code, field), (-32005, json!(place)));
        assert!(text.contains(name), "{text}");
    }
}

#[tokio::test]
async fn invalid_part_is_rejected_by_place() {
    let server = Server::start().await;
    let mut two_lists = v1(json!([{"text": "a"}]));
    two_lists["content"] = json!([{"text": "b"}]);
    for (version, message, place) in [
        (
            "1.0",
            v1(json!([{"text": "a", "url": "https://f.test"}])),
            "message.parts[0]",
        ),
        ("1.0", v1(json!([{"raw": "a*b"}])), "message.parts[0].raw"),
        (
            "0.3",
            v0_3(json!([{"kind": "data", "data": [1]}])),
            "message.parts[0].data",
        ),
        ("1.0", two_lists, "message.content"),
    ] {
        let (code, _, field) = refused(&server, version, message).await;
        assert_eq!((code, field), (-32602, json!(place)));
    }
}

#[tokio::test]
async fn data_of_1_0_may_be_any_json() {
    let server = Server::start().await;
    for data in [
        json!(null),
        json!(5),
        json!("x"),
        json!([1, null]),
        json!({"data": {}}),
    ] {
        let received = parts(&server, "1.0", v1(json!([{"data": data}]))).await;
        assert_eq!(received[0]["data"], data);
    }
}

#[tokio::test]
async fn snake_case_names_are_accepted() {
    let server = Server::start().await;
    let body = json!({
        "message": {"message_id": "m", "context_id": "c-snake", "role": "ROLE_USER", "parts": [{"text": "echo a", "media_type": "text/plain"}]},
        "configuration": {"return_immediately": true, "history_length": 0},
    });
    let task = server.post("/rest/message:send", &[V1], body).await.json()["task"].clone();
    assert_eq!(task["contextId"], "c-snake");
    assert_eq!(task.get("history"), None);
}

#[tokio::test]
async fn null_and_unknown_fields_are_ignored() {
    let server = Server::start().await;
    let body = json!({
        "message": {
            "messageId": "m", "contextId": null, "taskId": "", "role": "ROLE_USER", "future": {"x": 1},
            "parts": [{"text": "echo a", "raw": null, "metadata": null, "future": true}],
            "metadata": null, "extensions": null, "referenceTaskIds": [],
        },
        "configuration": null, "metadata": null, "future": [1],
    });
    let task = server.post("/rest/message:send", &[V1], body).await.json()["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn numbers_may_be_strings() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    let task = server
        .rpc("GetTask", json!({"id": id, "historyLength": "0"}))
        .await
        .result();
    assert_eq!(task.get("history"), None);
    let reply = server
        .rpc("GetTask", json!({"id": id, "historyLength": -1}))
        .await;
    assert_eq!(reply.code(), -32602);
    let reply = server
        .rpc("GetTask", json!({"id": id, "historyLength": "many"}))
        .await;
    assert_eq!(
        reply.json()["error"]["data"][1]["fieldViolations"][0]["field"],
        "historyLength"
    );
}

#[tokio::test]
async fn protobuf_parts_of_0_3_have_two_names() {
    let server = Server::start().await;
    for name in ["content", "parts"] {
        let mut message =
            json!({"messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER"});
        message[name] = json!([
            {"text": "parts"},
            {"file": {"fileWithBytes": "AP9o", "mimeType": "a/b", "name": "n"}},
            {"file": {"fileWithUri": "https://f.test/b"}},
            {"data": {"data": {"x": 1}}},
        ]);
        let body = json!({"message": message, "configuration": {"blocking": true}});
        let reply = server.post("/rest/v1/message:send", &[], body).await.json();
        let received = &reply["task"]["artifacts"][0]["parts"][0]["data"]["data"]["parts"];
        assert_eq!(
            received.as_array().map(Vec::len),
            Some(3),
            "{name}: {reply}"
        );
        assert_eq!(received[2]["data"], json!({"x": 1}));
    }
}

#[tokio::test]
async fn unknown_state_is_rejected_and_unspecified_ignored() {
    let server = Server::start().await;
    let reply = server
        .rpc("ListTasks", json!({"status": "TASK_STATE_DONE"}))
        .await;
    assert_eq!(reply.code(), -32602);
    for nothing in ["TASK_STATE_UNSPECIFIED", "UNRECOGNIZED", ""] {
        let reply = server.rpc("ListTasks", json!({"status": nothing})).await;
        assert_eq!(reply.result()["tasks"], json!([]), "{nothing}");
    }
}
