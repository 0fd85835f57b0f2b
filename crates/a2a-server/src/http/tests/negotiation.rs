//! Versions, media types and extensions.

use http::{Method, StatusCode};
use serde_json::json;

use super::harness::{Reply, Server, V1, message};

const RPC: &str = "/a2a";

#[tokio::test]
async fn method_of_other_version_is_rejected() {
    let server = Server::start().await;
    let reply = server
        .rpc_0_3("SendMessage", json!({"message": message("echo a")}))
        .await;
    assert_eq!(reply.code(), -32009);
    assert!(reply.error_contains("A2A-Version: 1.0"));
    assert_eq!(
        reply.json()["error"]["data"][0]["reason"],
        "VERSION_NOT_SUPPORTED"
    );
    let reply = server
        .rpc("message/send", json!({"message": message("echo a")}))
        .await;
    assert_eq!(reply.code(), -32009);
}

#[tokio::test]
async fn path_of_other_version_is_rejected() {
    let server = Server::start().await;
    let reply = server.get("/rest/tasks", &[]).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.reason(), "VERSION_NOT_SUPPORTED");
    let reply = server.get("/rest/v1/tasks", &[V1]).await;
    assert_eq!(
        (reply.status, reply.json()["code"].clone()),
        (StatusCode::BAD_REQUEST, json!(-32009))
    );
}

#[tokio::test]
async fn version_ignores_patch_number() {
    let server = Server::start().await;
    let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
    for version in [
        "1.0", "1.0.0", "1.0.7", " 1.0 ", "1", "v1", "v1.0", "V1.0.0",
    ] {
        let reply = server
            .post(RPC, &[("a2a-version", version)], listing.clone())
            .await;
        assert!(
            reply.json().get("result").is_some(),
            "{version}: {}",
            reply.text
        );
    }
    for version in [
        "2.0", "1.1", "0.2", "0", "2", "v", "10", "01", "0.30", "one",
    ] {
        let reply = server
            .post(RPC, &[("a2a-version", version)], listing.clone())
            .await;
        assert_eq!(reply.code(), -32009, "{version}");
    }
    for version in ["", "0.3", "0.3.0", "v0.3"] {
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": "no"}});
        let reply = server.post(RPC, &[("a2a-version", version)], body).await;
        assert_eq!(reply.code(), -32001, "{version}");
    }
}

#[tokio::test]
async fn version_may_be_a_query_parameter() {
    let server = Server::start().await;
    let reply = server.get("/rest/tasks?A2A-Version=1.0", &[]).await;
    assert_eq!(reply.status, StatusCode::OK);
    let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
    let reply = server.post("/a2a?A2A-Version=1.0", &[], listing).await;
    assert!(reply.json().get("result").is_some());
}

#[tokio::test]
async fn other_content_type_is_rejected_unread() {
    let server = Server::start().await;
    let types = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/jsonp",
    ];
    for path in [
        RPC,
        "/",
        "/rest/message:send",
        "/rest/v1/message:send",
        "/rest/tasks/x:cancel",
    ] {
        for media_type in types {
            let version = if path.starts_with("/rest/") && !path.starts_with("/rest/v1") {
                V1
            } else {
                ("a2a-version", "")
            };
            let headers = [("content-type", media_type), version];
            let Reply { status, text, .. } = server.post_text(path, &headers, "{}").await;
            let unsupported = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            assert_eq!(status, unsupported, "{path} {media_type}");
            assert!(text.contains("-32005") || text.contains("CONTENT_TYPE_NOT_SUPPORTED"));
        }
    }
}

#[tokio::test]
async fn request_with_origin_needs_content_type() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let headers = [V1, ("origin", "https://evil.test")];
    let reply = server
        .request(
            Method::POST,
            &format!("/rest/tasks/{id}:cancel"),
            &headers,
            None,
        )
        .await;
    assert_eq!(reply.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let task = server.rpc("GetTask", json!({"id": id})).await.result();
    assert_ne!(task["status"]["state"], "TASK_STATE_CANCELED");
}

#[tokio::test]
async fn both_json_media_types_are_accepted() {
    let server = Server::start().await;
    for media_type in [
        "application/a2a+json",
        "application/json; charset=utf-8",
        "Application/JSON",
    ] {
        let listing = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
        let headers = [V1, ("content-type", media_type)];
        let reply = server
            .request(Method::POST, RPC, &headers, Some(listing))
            .await;
        assert!(reply.json().get("result").is_some(), "{media_type}");
    }
}

#[tokio::test]
async fn response_has_media_type_of_binding() {
    let server = Server::start().await;
    let reply = server.rpc("ListTasks", json!({})).await;
    assert_eq!(reply.header("content-type"), "application/json");
    for (accept, media_type) in [
        ("*/*", "application/a2a+json"),
        (
            "application/a2a+json, application/json",
            "application/a2a+json",
        ),
        ("application/json", "application/json"),
    ] {
        let reply = server.get("/rest/tasks", &[V1, ("accept", accept)]).await;
        assert_eq!(reply.header("content-type"), media_type, "{accept}");
    }
    let reply = server.get("/rest/v1/tasks", &[]).await;
    assert_eq!(reply.header("content-type"), "application/json");
}

#[tokio::test]
async fn unknown_extensions_are_ignored() {
    let server = Server::start().await;
    let headers = [
        V1,
        ("a2a-extensions", "https://x.test/ext/v1, urn:y"),
        ("x-a2a-extensions", "urn:z"),
    ];
    let reply = server
        .post(
            "/rest/message:send",
            &headers,
            json!({"message": message("echo a")}),
        )
        .await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.headers.get("a2a-extensions"), None);
}
