//! Where things are.

use http::{Method, StatusCode};
use serde_json::json;

use super::harness::{Options, Server, V1, message, message_0_3};
use crate::service::AGENT;

fn two() -> Options {
    Options {
        agents: &["main", "coder"],
        ..Options::default()
    }
}

#[tokio::test]
async fn every_endpoint_is_there_with_and_without_a_slash_at_the_end() {
    let server = Server::start().await;
    let id = server.done_task().await;
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
async fn a_method_that_a_path_does_not_take_is_told_which_it_takes() {
    let server = Server::start().await;
    for (method, path, allow) in [
        (Method::GET, "/a2a", "POST"),
        (Method::PUT, "/a2a", "POST"),
        (Method::POST, "/.well-known/agent-card.json", "GET, HEAD"),
        (Method::GET, "/rest/message:send", "POST"),
        (Method::POST, "/rest/tasks", "GET, HEAD"),
        (Method::DELETE, "/rest/tasks/t", "GET, HEAD"),
        (Method::GET, "/rest/tasks/t:cancel", "POST"),
        (Method::PUT, "/rest/tasks/t:subscribe", "GET, HEAD, POST"),
        (
            Method::DELETE,
            "/rest/tasks/t/pushNotificationConfigs",
            "GET, HEAD, POST",
        ),
        (
            Method::POST,
            "/rest/tasks/t/pushNotificationConfigs/c",
            "GET, HEAD, DELETE",
        ),
        (Method::POST, "/rest/v1/card", "GET, HEAD"),
    ] {
        let reply = server.ask(method.clone(), path, &[V1], None).await;
        assert_eq!(
            reply.status,
            StatusCode::METHOD_NOT_ALLOWED,
            "{method} {path}"
        );
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
        assert!(reply.text.contains("takes"), "{}", reply.text);
    }
}

#[tokio::test]
async fn the_root_takes_json_rpc_by_post_alone() {
    let server = Server::start().await;
    let reply = server.ask(Method::PUT, "/", &[], None).await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(reply.header("allow"), "POST");
}

#[tokio::test]
async fn what_is_not_there_is_not_found_in_the_shape_of_its_tree() {
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
async fn a_head_is_a_get_without_the_body() {
    let server = Server::start().await;
    let card = "/.well-known/agent-card.json";
    let whole = server.get(card, &[]).await;
    let head = server.ask(Method::HEAD, card, &[], None).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.header("content-length"), whole.text.len().to_string());
    let head = server.ask(Method::HEAD, "/rest/tasks", &[V1], None).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    let head = server
        .ask(Method::HEAD, "/rest/tasks/no", &[V1], None)
        .await;
    assert_eq!(head.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn ids_in_paths_may_be_escaped() {
    let server = Server::start().await;
    let id = server.slow_task().await.replace('-', "%2D");
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

/// The agent that a task of the script `who` says it was worked on by.
fn who(task: &serde_json::Value) -> String {
    let said = &task["artifacts"][0]["parts"][0]["data"]["agent"];
    said.as_str().unwrap_or("nobody").to_owned()
}

#[tokio::test]
async fn an_agent_is_chosen_by_path() {
    let server = Server::with(two()).await;
    let body = json!({"message": message("who")});
    let reply = server
        .post("/agents/coder/rest/message:send", &[V1], body)
        .await;
    assert_eq!(who(&reply.json()["task"]), "coder");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {
        "message": message_0_3("who"), "configuration": {"blocking": true},
    }});
    let reply = server.post("/agents/coder", &[], body).await;
    assert_eq!(who(&reply.result()), "coder");
}

#[tokio::test]
async fn an_agent_is_chosen_by_metadata() {
    let server = Server::with(two()).await;
    let params = json!({"message": message("who"), "metadata": {AGENT: "coder"}});
    let reply = server.rpc("SendMessage", params).await;
    assert_eq!(who(&reply.result()["task"]), "coder");
    let mut message = message("who");
    message["metadata"] = json!({AGENT: "coder"});
    let reply = server.rpc("SendMessage", json!({"message": message})).await;
    assert_eq!(who(&reply.result()["task"]), "coder");
}

#[tokio::test]
async fn a_tenant_is_another_name_of_an_agent() {
    let server = Server::with(two()).await;
    let params = json!({"message": message("who"), "tenant": "coder"});
    let reply = server.rpc("SendMessage", params).await;
    assert_eq!(who(&reply.result()["task"]), "coder");
    let body = json!({"message": message("who"), "tenant": "coder"});
    let reply = server.post("/rest/coder/message:send", &[V1], body).await;
    assert_eq!(who(&reply.json()["task"]), "coder");
}

#[tokio::test]
async fn an_empty_tenant_is_none() {
    let server = Server::start().await;
    let reply = server.rpc("ListTasks", json!({"tenant": ""})).await;
    assert_eq!(reply.result()["tasks"], json!([]));
}

#[tokio::test]
async fn a_tenant_that_names_no_agent_is_refused() {
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
async fn a_tenant_that_contradicts_the_path_is_refused() {
    let server = Server::with(two()).await;
    let params =
        json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"tenant": "main"}});
    let reply = server.post("/agents/coder/a2a", &[V1], params).await;
    assert_eq!(reply.code(), -32602);
    let body = json!({"message": message("who"), "tenant": "main"});
    let reply = server.post("/rest/coder/message:send", &[V1], body).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn the_tree_of_an_agent_that_is_not_there_is_not_found() {
    let server = Server::start().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"});
    let reply = server.post("/agents/nobody/a2a", &[V1], body).await;
    assert_eq!(
        (reply.status, reply.code()),
        (StatusCode::NOT_FOUND, -32601)
    );
    let reply = server.get("/agents/nobody/rest/tasks", &[V1]).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
}
