//! Paths of requests.

use http::{Method, StatusCode};
use serde_json::json;

use super::harness::{Server, V1, message, message_0_3};
use crate::service::AGENT;

async fn with_two_agents() -> Server {
    Server::changed(|options| options.agents = &["main", "coder"]).await
}

#[tokio::test]
async fn trailing_slash_makes_no_difference() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    for path in [
        "/.well-known/agent-card.json".to_owned(),
        "/.well-known/agent.json".to_owned(),
        "/rest/tasks".to_owned(),
        format!("/rest/tasks/{id}"),
        format!("/rest/tasks/{id}/pushNotificationConfigs"),
    ] {
        for slash in ["", "/"] {
            let reply = server.get(&format!("{path}{slash}"), &[V1]).await;
            assert_eq!(reply.status, StatusCode::OK, "{path}{slash}");
        }
    }
    for path in ["", "/a2a", "/agents/main", "/agents/main/a2a"] {
        for slash in ["", "/"] {
            let path = format!("{path}{slash}");
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"});
            let reply = server.post(&path, &[V1], body).await;
            assert!(
                reply.json().get("result").is_some(),
                "{path}: {}",
                reply.text
            );
        }
    }
}

#[tokio::test]
async fn wrong_http_method_is_405_with_allow() {
    let server = Server::start().await;
    let hooks = "/rest/tasks/t/pushNotificationConfigs";
    let hook = "/rest/tasks/t/pushNotificationConfigs/c";
    for (method, path, allow) in [
        (Method::GET, "/a2a", "POST"),
        (Method::PUT, "/a2a", "POST"),
        (Method::POST, "/.well-known/agent-card.json", "GET, HEAD"),
        (Method::GET, "/rest/message:send", "POST"),
        (Method::POST, "/rest/tasks", "GET, HEAD"),
        (Method::DELETE, "/rest/tasks/t", "GET, HEAD"),
        (Method::GET, "/rest/tasks/t:cancel", "POST"),
        (Method::PUT, "/rest/tasks/t:subscribe", "GET, HEAD, POST"),
        (Method::DELETE, hooks, "GET, HEAD, POST"),
        (Method::POST, hook, "GET, HEAD, DELETE"),
        (Method::POST, "/rest/v1/card", "GET, HEAD"),
    ] {
        let reply = server.request(method.clone(), path, &[V1], None).await;
        let not_allowed = StatusCode::METHOD_NOT_ALLOWED;
        assert_eq!(reply.status, not_allowed, "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
        assert!(reply.text.contains("accepts"), "{}", reply.text);
    }
}

#[tokio::test]
async fn root_accepts_json_rpc_by_post_only() {
    let server = Server::start().await;
    let reply = server.request(Method::PUT, "/", &[], None).await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(reply.header("allow"), "POST");
}

#[tokio::test]
async fn unknown_path_is_404_in_the_form_of_its_version() {
    let server = Server::start().await;
    for path in [
        "/nothing",
        "/rest",
        "/rest/nothing",
        "/rest/tasks/a/b",
        "/agents",
        "/%ff",
        "/rest/tasks/:cancel",
    ] {
        let reply = server.get(path, &[V1]).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(reply.json()["error"]["status"], "NOT_FOUND", "{path}");
    }
    let reply = server.get("/rest/v1/nothing", &[]).await;
    assert_eq!(
        (reply.status, &reply.json()["code"]),
        (StatusCode::NOT_FOUND, &json!(-32601))
    );
}

#[tokio::test]
async fn head_is_get_without_body() {
    let server = Server::start().await;
    let card = "/.well-known/agent-card.json";
    let whole = server.get(card, &[]).await;
    let head = server.request(Method::HEAD, card, &[], None).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.header("etag"), whole.header("etag"));
    assert_eq!(head.header("content-length"), whole.text.len().to_string());
    let head = server
        .request(Method::HEAD, "/rest/tasks", &[V1], None)
        .await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    let head = server
        .request(Method::HEAD, "/rest/tasks/no", &[V1], None)
        .await;
    assert_eq!(head.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn path_ids_may_be_escaped() {
    let server = Server::start().await;
    let id = server.start_slow_task().await.replace('-', "%2D");
    let reply = server
        .post(&format!("/rest/tasks/{id}%3Acancel"), &[V1], json!({}))
        .await;
    assert_eq!(
        reply.json()["status"]["state"],
        "TASK_STATE_CANCELED",
        "{}",
        reply.text
    );
}

/// Returns the agent in the answer to the command `who`.
fn answering_agent(task: &serde_json::Value) -> String {
    let agent = &task["artifacts"][0]["parts"][0]["data"]["agent"];
    agent.as_str().unwrap_or("unknown").to_owned()
}

#[tokio::test]
async fn path_selects_agent() {
    let server = with_two_agents().await;
    let body = json!({"message": message("who")});
    let reply = server
        .post("/agents/coder/rest/message:send", &[V1], body)
        .await;
    assert_eq!(answering_agent(&reply.json()["task"]), "coder");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {
        "message": message_0_3("who"), "configuration": {"blocking": true},
    }});
    let reply = server.post("/agents/coder", &[], body).await;
    assert_eq!(answering_agent(&reply.result()), "coder");
}

#[tokio::test]
async fn metadata_selects_agent() {
    let server = with_two_agents().await;
    let params = json!({"message": message("who"), "metadata": {AGENT: "coder"}});
    let reply = server.rpc("SendMessage", params).await;
    assert_eq!(answering_agent(&reply.result()["task"]), "coder");
    let mut message = message("who");
    message["metadata"] = json!({AGENT: "coder"});
    let reply = server.rpc("SendMessage", json!({"message": message})).await;
    assert_eq!(answering_agent(&reply.result()["task"]), "coder");
}

#[tokio::test]
async fn tenant_selects_agent() {
    let server = with_two_agents().await;
    let params = json!({"message": message("who"), "tenant": "coder"});
    let reply = server.rpc("SendMessage", params).await;
    assert_eq!(answering_agent(&reply.result()["task"]), "coder");
    let body = json!({"message": message("who"), "tenant": "coder"});
    let reply = server.post("/rest/coder/message:send", &[V1], body).await;
    assert_eq!(answering_agent(&reply.json()["task"]), "coder");
}

#[tokio::test]
async fn empty_tenant_is_ignored() {
    let server = Server::start().await;
    let reply = server.rpc("ListTasks", json!({"tenant": ""})).await;
    assert_eq!(reply.result()["tasks"], json!([]));
}

#[tokio::test]
async fn unknown_tenant_is_rejected() {
    let server = Server::start().await;
    let reply = server.rpc("ListTasks", json!({"tenant": "acme"})).await;
    assert_eq!(reply.code(), -32602);
    let reply = server.get("/rest/acme/tasks", &[V1]).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        reply.json()["error"]["details"][1]["fieldViolations"][0]["field"],
        "tenant"
    );
}

#[tokio::test]
async fn tenant_that_contradicts_path_is_rejected() {
    let server = with_two_agents().await;
    let params =
        json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"tenant": "main"}});
    let reply = server.post("/agents/coder/a2a", &[V1], params).await;
    assert_eq!(reply.code(), -32602);
    let body = json!({"message": message("who"), "tenant": "main"});
    let reply = server.post("/rest/coder/message:send", &[V1], body).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn paths_of_unknown_agent_are_404() {
    let server = Server::start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"});
    let reply = server.post("/agents/unknown/a2a", &[V1], body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::NOT_FOUND, -32601)
    );
    let reply = server.get("/agents/unknown/rest/tasks", &[V1]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
}
