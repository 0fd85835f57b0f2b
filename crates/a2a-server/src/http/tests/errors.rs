//! The formats of errors.

use futures_util::{StreamExt, stream};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Clients, Server, V1, message};
use crate::http::envelope::Id;
use crate::http::sse::{self, Binding};
use a2a::Dialect;
use a2a::v0_3;
use a2a::{A2aError, ErrorReason};

const RPC: &str = "/a2a";

/// Posts a body over JSON-RPC of 1.0.
async fn raw(server: &Server, body: &str) -> Value {
    let reply = server.post_text(RPC, &[V1], body).await;
    assert_eq!(reply.status, StatusCode::OK);
    reply.json()
}

#[tokio::test]
async fn json_rpc_error_has_error_info() {
    let server = Server::start().await;
    let reply = server.rpc("GetTask", json!({"id": "nope"})).await;
    assert_eq!(reply.status, StatusCode::OK);
    let body = reply.json();
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(1)));
    assert_eq!(body["error"]["code"], -32001);
    assert!(body["error"]["message"].as_str().unwrap().contains("nope"));
    let info = json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {},
    });
    assert_eq!(body["error"]["data"], json!([info]));
    assert_eq!(body.get("result"), None);
}

#[tokio::test]
async fn http_json_error_is_google_rpc_status() {
    let server = Server::start().await;
    let reply = server.get("/rest/tasks/nope", &[V1]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    assert_eq!(reply.header("content-type"), "application/json");
    let error = &reply.json()["error"];
    assert_eq!(
        (&error["code"], &error["status"]),
        (&json!(404), &json!("NOT_FOUND"))
    );
    assert!(error["message"].as_str().unwrap().contains("nope"));
    assert_eq!(error["details"][0]["reason"], "TASK_NOT_FOUND");
    assert_eq!(error["details"][0]["domain"], "a2a-protocol.org");
}

#[tokio::test]
async fn http_json_error_of_0_3_has_code_type_and_message() {
    let server = Server::start().await;
    let reply = server.get("/rest/v1/tasks/nope", &[]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
    let body = reply.json();
    assert_eq!(body["code"], -32001);
    assert_eq!(body["type"], "TaskNotFoundError");
    assert!(body["message"].as_str().unwrap().contains("nope"));
}

#[tokio::test]
async fn error_names_the_invalid_field() {
    let server = Server::start().await;
    let mut message = message("x");
    message["parts"] = json!([{"text": "a"}, {"text": 5}]);
    let body = server
        .rpc("SendMessage", json!({"message": message}))
        .await
        .json();
    assert_eq!(body["error"]["code"], -32602);
    let violations = &body["error"]["data"][1];
    assert_eq!(
        violations["@type"],
        "type.googleapis.com/google.rpc.BadRequest"
    );
    assert_eq!(
        violations["fieldViolations"][0]["field"],
        "message.parts[1].text"
    );
}

#[tokio::test]
async fn http_json_error_names_the_missing_field() {
    let server = Server::start().await;
    let parts = json!([{"text": "a"}]);
    for (message, field) in [
        (
            json!({"role": "ROLE_USER", "parts": parts}),
            "message.messageId",
        ),
        (json!({"messageId": "m", "parts": parts}), "message.role"),
        (
            json!({"messageId": "m", "role": "ROLE_USER"}),
            "message.parts",
        ),
        (
            json!({"messageId": "m", "role": "ROLE_USER", "parts": []}),
            "message.parts",
        ),
    ] {
        let body = json!({"message": message});
        let reply = server.post("/rest/message:send", &[V1], body).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{field}");
        let error = &reply.json()["error"];
        assert_eq!(error["status"], "INVALID_ARGUMENT");
        assert_eq!(error["details"][1]["fieldViolations"][0]["field"], field);
    }
    let reply = server.post("/rest/message:send", &[V1], json!({})).await;
    let error = &reply.json()["error"];
    assert_eq!(
        error["details"][1]["fieldViolations"][0]["field"],
        "message"
    );
}

#[tokio::test]
async fn invalid_json_is_parse_error_with_null_id() {
    let server = Server::start().await;
    for body in ["{", "", "nonsense", "{\"jsonrpc\": \"2.0\", \"id\": 1,}"] {
        let answer = raw(&server, body).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(-32700)),
            "{body}"
        );
    }
    let reply = server.post_text("/rest/message:send", &[V1], "{").await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.reason(), "PARSE_ERROR");
}

#[tokio::test]
async fn batch_is_rejected() {
    let server = Server::start().await;
    let batch = r#"[{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}]"#;
    let reply = server.post_text(RPC, &[V1], batch).await;
    assert_eq!((reply.code(), &reply.json()["id"]), (-32600, &Value::Null));
    assert!(reply.error_contains("batch"), "{}", reply.text);
}

#[tokio::test]
async fn malformed_envelope_is_invalid_request() {
    let server = Server::start().await;
    for body in [
        "3",
        "null",
        "{}",
        "{\"id\": 1, \"method\": \"ListTasks\"}",
        "{\"jsonrpc\": \"1.0\", \"id\": 1, \"method\": \"ListTasks\"}",
        "{\"jsonrpc\": \"2.0\", \"id\": 1}",
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": 7}",
        "{\"jsonrpc\": \"2.0\", \"id\": {}, \"method\": \"ListTasks\"}",
        "{\"jsonrpc\": \"2.0\", \"id\": true, \"method\": \"ListTasks\"}",
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"id\": 2, \"method\": \"ListTasks\"}",
    ] {
        let answer = raw(&server, body).await;
        assert_eq!(answer["error"]["code"], -32600, "{body}");
    }
}

#[tokio::test]
async fn response_repeats_id_verbatim() {
    let server = Server::start().await;
    for id in [
        "\"a\\u0062\"",
        "0",
        "-7",
        "12345678901234567890123",
        "1.50",
        "null",
    ] {
        let body = format!(r#"{{"jsonrpc": "2.0", "id": {id}, "method": "ListTasks"}}"#);
        let text = server.post_text(RPC, &[V1], body).await.text;
        assert!(text.contains(&format!("\"id\":{id},")), "{text}");
        assert!(text.contains("\"result\":"), "{text}");
    }
}

#[tokio::test]
async fn params_may_be_missing() {
    let server = Server::start().await;
    let answer = raw(
        &server,
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ListTasks\"}",
    )
    .await;
    assert_eq!(answer["result"]["tasks"], json!([]));
    let answer = raw(
        &server,
        "{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ListTasks\", \"params\": []}",
    )
    .await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn unknown_method_is_not_found() {
    let server = Server::start().await;
    assert_eq!(server.rpc("SendMassage", json!({})).await.code(), -32601);
    assert_eq!(server.rpc_0_3("tasks/list", json!({})).await.code(), -32601);
}

#[tokio::test]
async fn oversized_body_is_rejected() {
    let server = Server::changed(|options| options.body_limit = 1000).await;
    let body = json!({"message": message(&"x".repeat(1000))});
    let reply = server.post("/rest/message:send", &[V1], body.clone()).await;
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(reply.error_contains("1000"));
    let reply = server.post(RPC, &[V1], body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::PAYLOAD_TOO_LARGE, -32600)
    );
}

async fn refusing(reason: ErrorReason, retry_after_s: Option<u64>) -> Server {
    let mut error = A2aError::new(reason, "not you");
    error.retry_after_s = retry_after_s;
    Server::changed(|options| options.clients = Clients::Refused(error)).await
}

#[tokio::test]
async fn unauthorized_request_has_http_status() {
    for (reason, status) in [
        (ErrorReason::Unauthenticated, StatusCode::UNAUTHORIZED),
        (ErrorReason::PermissionDenied, StatusCode::FORBIDDEN),
        (
            ErrorReason::ResourceExhausted,
            StatusCode::TOO_MANY_REQUESTS,
        ),
        (ErrorReason::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let server = refusing(reason, None).await;
        let rpc = server.rpc("ListTasks", json!({})).await;
        assert_eq!((rpc.status, &rpc.json()["id"]), (status, &Value::Null));
        assert_eq!(rpc.json()["error"]["data"][0]["reason"], reason.name());
        let rest = server.get("/rest/tasks", &[V1]).await;
        assert_eq!(rest.status, status);
        assert_eq!(rest.json()["error"]["code"], status.as_u16());
        let rest = server.get("/rest/v1/tasks", &[]).await;
        assert_eq!(rest.status, status);
    }
}

#[tokio::test]
async fn unauthenticated_response_names_the_scheme() {
    let server = refusing(ErrorReason::Unauthenticated, None).await;
    let reply = server.rpc("ListTasks", json!({})).await;
    assert!(reply.header("www-authenticate").starts_with("Bearer"));
}

#[tokio::test]
async fn rate_limit_response_has_retry_after() {
    let server = refusing(ErrorReason::ResourceExhausted, Some(7)).await;
    let reply = server.get("/rest/tasks", &[V1]).await;
    assert_eq!(reply.header("retry-after"), "7");
    let details = reply.json()["error"]["details"].clone();
    assert_eq!(
        details[1],
        json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"})
    );
}

#[tokio::test]
async fn unauthorized_body_is_not_read() {
    let server = refusing(ErrorReason::Unauthenticated, None).await;
    let headers = [("content-type", "text/plain")];
    let reply = server
        .request(Method::POST, RPC, &headers, Some("{".to_owned()))
        .await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn public_card_needs_no_authentication() {
    let server = refusing(ErrorReason::Unauthenticated, None).await;
    let reply = server.get("/.well-known/agent-card.json", &[]).await;
    assert_eq!(reply.status, StatusCode::OK);
}

/// Returns the text of a stream whose first item is an error.
async fn failing(dialect: Dialect, binding: Binding) -> String {
    let failed = Err(A2aError::new(
        ErrorReason::InternalError,
        "the store failed",
    ));
    let updates = stream::iter([failed]).boxed();
    let response = sse::response(updates, dialect, binding, crate::http::DEFAULT_KEEP_ALIVE);
    let bytes = axum::body::to_bytes(response.into_body(), 10_000)
        .await
        .unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn failed_stream_ends_with_an_error_of_its_binding() {
    const EVENT: &str = "event: error\ndata: ";
    let rpc = || Binding::Rpc(Id::null());
    let error = json!({"code": -32603, "message": "the store failed"});
    let error_1_0 = json!({"code": 500, "status": "INTERNAL"});
    for (dialect, binding, prefix, path, fields) in [
        (Dialect::V1_0, rpc(), "data: ", "/error", &error),
        (
            Dialect::V0_3(v0_3::Dialect::Rpc),
            rpc(),
            "data: ",
            "/error",
            &error,
        ),
        (Dialect::V1_0, Binding::Rest, EVENT, "/error", &error_1_0),
        (
            Dialect::V0_3(v0_3::Dialect::Rest),
            Binding::Rest,
            EVENT,
            "",
            &error,
        ),
    ] {
        let text = failing(dialect, binding).await;
        let data: Value = serde_json::from_str(text.strip_prefix(prefix).unwrap()).unwrap();
        let found = data.pointer(path).unwrap();
        for (name, value) in fields.as_object().unwrap() {
            assert_eq!(&found[name], value, "{text}");
        }
    }
}

#[tokio::test]
async fn early_rejection_has_the_form_of_the_binding() {
    let error = A2aError::new(ErrorReason::ResourceExhausted, "slower");
    for (method, path, code) in [
        (Method::POST, "/", "-32603"),
        (Method::POST, "/agents/a/a2a/", "-32603"),
        (Method::GET, "/", "429"),
        (Method::POST, "/rest/message:send", "429"),
        (Method::POST, "/rest/v1/message:send", "-32603"),
        (Method::GET, "/api/tasks", "429"),
    ] {
        let response = crate::http::error::respond_at(&method, path, &error);
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
        let body = axum::body::to_bytes(response.into_body(), 10_000).await;
        let text = String::from_utf8(body.unwrap().to_vec()).unwrap();
        assert!(
            text.contains(&format!("\"code\":{code},")),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn error_of_a_stream_is_an_event_for_clients_that_accept_only_events() {
    let server = Server::start().await;
    let only_events = [("accept", "text/event-stream;q=0.9")];
    let body = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    for (headers, method, params, code) in [
        (&[][..], "tasks/resubscribe", json!({"id": "no"}), -32001),
        (&[], "message/stream", json!({}), -32602),
        (&[V1], "SubscribeToTask", json!({"id": "no"}), -32001),
        (&[V1], "SendStreamingMessage", json!({"message": 1}), -32602),
    ] {
        let headers = [headers, &only_events].concat();
        let reply = server.post(RPC, &headers, body(method, params)).await;
        let events = reply.events();
        assert_eq!(events.len(), 1, "{method}: {}", reply.text);
        let (name, event) = &events[0];
        assert_eq!((name, &event["id"]), (&None, &json!(7)));
        assert_eq!(event["error"]["code"], code, "{method}");
    }
    let body = |method: &str| body(method, json!({"id": "no"}));
    for accept in ["text/event-stream, application/json", "*/*", ""] {
        let resubscribe = body("tasks/resubscribe");
        let reply = server.post(RPC, &[("accept", accept)], resubscribe).await;
        assert_eq!(reply.code(), -32001, "{accept}");
    }
    let reply = server.post(RPC, &only_events, body("tasks/get")).await;
    assert_eq!(reply.code(), -32001, "no stream");
}
