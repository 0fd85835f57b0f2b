//! Requests to the whole server without a token, or with the token of another client.

use serde_json::json;

use super::*;

/// Paths in different spellings, none of which may reveal tasks or data of the server.
const PATHS: &str = "/rest/tasks /rest/tasks/ /rest/tasks?A2A-Version=1.0 /rest/v1/tasks /rest//tasks //rest/tasks \
    /./rest/tasks /rest/../rest/tasks /rest/%2e%2e/rest/tasks /%72est/tasks /REST/tasks \
    /rest%2Ftasks /main/rest/tasks /agents/main/rest/tasks /agents/../rest/tasks \
    /rest/extendedAgentCard /rest/v1/card /api/tasks /api/tasks/ //api/tasks /api/%2e%2e/api/tasks \
    /%61pi/tasks /.well-known/../api/tasks /.well-known/%2e%2e/%2e%2e/etc/passwd";

#[tokio::test]
async fn every_spelling_of_a_path_needs_a_token() {
    let server = with_clients().await;
    let id = server.start_task("ada").await;
    for path in PATHS.split(' ') {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PROPFIND"] {
            let what = format!("{method} {path}");
            let answer = server
                .http
                .request(&what, &["A2A-Version: 1.0", OWN_PAGE], "")
                .await;
            assert!(
                matches!(answer.status, 401 | 404 | 405),
                "{what}: {}",
                answer.status
            );
            assert!(!answer.body.contains(&id), "{what}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn token_counts_in_authorization_only() {
    let server = with_clients().await;
    for (path, line) in [
        ("/rest/tasks?access_token=token-of-ada", "X-Nothing: 1"),
        ("/rest/tasks?token=token-of-ada", "X-Nothing: 1"),
        ("/rest/tasks", "Cookie: token=token-of-ada"),
        ("/rest/tasks", "X-Api-Key: token-of-ada"),
        ("/rest/tasks", "Authorization: Basic dG9rZW4tb2YtYWRh"),
        ("/rest/tasks", "Authorization: token-of-ada"),
        ("/rest/tasks", "Authorization: Bearer token-of-ad"),
        ("/rest/tasks", "Authorization: Bearer token-of-adaa"),
        ("/rest/tasks", "Proxy-Authorization: Bearer token-of-ada"),
    ] {
        let status = server.http.get(path, &["A2A-Version: 1.0", line]).await;
        assert_eq!(status, 401, "{path} {line}");
    }
    let known = server.http.get("/rest/tasks", &["A2A-Version: 1.0", ADA]);
    assert_eq!(known.await, 200);
}

/// The other client is also an operator. Over A2A, that must make no difference.
const OTHER: &str = OPERATOR;

#[tokio::test]
async fn http_json_hides_tasks_of_other_clients() {
    let server = with_clients().await;
    let id = server.start_task("ada").await;
    let hooks = format!("/rest/tasks/{id}/pushNotificationConfigs");
    let push = r#"{"url": "https://hooks.example/"}"#;
    for (what, body) in [
        (format!("GET /rest/tasks/{id}"), ""),
        (format!("POST /rest/tasks/{id}:cancel"), "{}"),
        (format!("POST /rest/tasks/{id}:subscribe"), "{}"),
        (format!("GET /rest/tasks/{id}:subscribe"), ""),
        (format!("GET {hooks}"), ""),
        (format!("POST {hooks}"), push),
        (format!("GET {hooks}/one"), ""),
        (format!("DELETE {hooks}/one"), ""),
    ] {
        for (what, version) in [
            (what.clone(), "A2A-Version: 1.0"),
            (what.replace("/rest/", "/rest/v1/"), "A2A-Version: 0.3"),
        ] {
            let lines = [OTHER, version, "Content-Type: application/json"];
            let answer = server.http.request(&what, &lines, body).await;
            assert_eq!(answer.status, 404, "{what}: {}", answer.body);
            assert!(
                answer.body.contains("TASK_NOT_FOUND"),
                "{what}: {}",
                answer.body
            );
        }
    }
    let tasks = server.tasks(&[OPERATOR]).await;
    assert_eq!(tasks["tasks"][0]["state"], "working");
}

#[tokio::test]
async fn json_rpc_hides_tasks_of_other_clients() {
    let server = with_clients().await;
    let id = server.start_task("ada").await;
    let url = "https://hooks.example/";
    let calls = json!([
        ["1.0", "GetTask", {"id": id}],
        ["1.0", "CancelTask", {"id": id}],
        ["1.0", "SubscribeToTask", {"id": id}],
        ["1.0", "CreateTaskPushNotificationConfig", {"taskId": id, "url": url}],
        ["1.0", "ListTaskPushNotificationConfigs", {"taskId": id}],
        ["0.3", "tasks/get", {"id": id}],
        ["0.3", "tasks/cancel", {"id": id}],
        ["0.3", "tasks/resubscribe", {"id": id}],
        ["0.3", "tasks/pushNotificationConfig/set", {"taskId": id, "pushNotificationConfig": {"url": url}}],
        ["0.3", "tasks/pushNotificationConfig/list", {"id": id}],
    ]);
    for call in calls.as_array().unwrap() {
        let (method, params) = (&call[1], &call[2]);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let version = format!("A2A-Version: {}", call[0].as_str().unwrap());
        let lines = [OTHER, &version, "Content-Type: application/json"];
        let answer = server
            .http
            .request("POST /a2a", &lines, &body.to_string())
            .await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer["error"]["code"], -32001, "{method}: {answer}");
    }
    let tasks = server.tasks(&[OPERATOR]).await;
    assert_eq!(tasks["tasks"][0]["state"], "working");
}

#[tokio::test]
async fn client_lists_own_tasks_only() {
    let server = with_clients().await;
    let id = server.start_task("ada").await;
    for (who, seen) in [(ADA, true), (OTHER, false)] {
        let lines = [who, "A2A-Version: 1.0"];
        let answer = server.http.request("GET /rest/tasks", &lines, "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body.contains(&id), seen, "{who}: {}", answer.body);
    }
}

#[tokio::test]
async fn form_post_of_foreign_page_is_rejected() {
    let server = without_clients().await;
    let sent =
        json!({"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}});
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "text/plain; application/json",
    ] {
        let kind = format!("Content-Type: {kind}");
        let lines = ["A2A-Version: 1.0", &kind];
        let what = "POST /rest/message:send?A2A-Version=1.0";
        let answer = server.http.request(what, &lines, &sent.to_string()).await;
        assert_eq!(answer.status, 415, "{kind}");
    }
    assert_eq!(server.tasks(&[]).await["total"], 0);
}

#[tokio::test]
async fn preflight_of_foreign_page_is_rejected() {
    let server = without_clients().await;
    let lines = [
        "Origin: https://evil.example",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: content-type,a2a-version",
    ];
    for path in ["/a2a", "/", "/api/tasks", "/.well-known/agent-card.json"] {
        let answer = server
            .http
            .request(&format!("OPTIONS {path}"), &lines, "")
            .await;
        assert_eq!(answer.status, 403, "{path}");
        assert!(
            !answer.head.contains("access-control-allow"),
            "{}",
            answer.head
        );
    }
}
