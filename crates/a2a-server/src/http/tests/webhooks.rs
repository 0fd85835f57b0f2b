//! Webhooks, for each version over each binding.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::Server;
use super::unary::{ALL_INTERFACES, Interface, immediate_configuration, rest, send, task};

/// Returns a response without a value.
fn empty_result() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": null})
}

#[tokio::test]
async fn webhook_crud_over_json_rpc_1_0() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let config = json!({
        "taskId": id, "id": "one", "url": "https://hook.test/a", "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "c"},
    });
    let call = async |method, params: &Value| server.rpc(method, params.clone()).await.result();
    let made = call("CreateTaskPushNotificationConfig", &config).await;
    assert_eq!(made, config);
    let which = json!({"taskId": id, "id": "one"});
    let got = call("GetTaskPushNotificationConfig", &which).await;
    assert_eq!(got, config);
    let all = json!({"taskId": id});
    let listed = call("ListTaskPushNotificationConfigs", &all).await;
    assert_eq!(listed, json!({"configs": [config], "nextPageToken": ""}));
    let deleted = server.rpc("DeleteTaskPushNotificationConfig", which).await;
    assert_eq!(deleted.json(), empty_result());
    let listed = call("ListTaskPushNotificationConfigs", &all).await;
    assert_eq!(listed, json!({"configs": [], "nextPageToken": ""}));
}

#[tokio::test]
async fn webhook_crud_over_http_json_1_0() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let path = format!("/tasks/{id}/pushNotificationConfigs");
    let one = format!("{path}/one");
    let config = json!({"id": "one", "url": "https://hook.test/a"});
    let full = json!({"id": "one", "url": "https://hook.test/a", "taskId": id});
    let call =
        async |method, path: &str, body| rest(&server, Interface::Rest1, method, path, body).await;
    let made = call(Method::POST, &path, Some(config)).await;
    assert_eq!((made.status, made.json()), (StatusCode::OK, full.clone()));
    assert_eq!(call(Method::GET, &one, None).await.json(), full);
    let listed = call(Method::GET, &path, None).await.json();
    assert_eq!(listed, json!({"configs": [full], "nextPageToken": ""}));
    let deleted = call(Method::DELETE, &one, None).await;
    assert_eq!(
        (deleted.status, deleted.json()),
        (StatusCode::OK, json!({}))
    );
    assert_ne!(call(Method::GET, &one, None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn webhook_crud_over_json_rpc_0_3() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let config = json!({"taskId": id, "pushNotificationConfig": {
        "id": "one", "url": "https://hook.test/a", "token": "t",
        "authentication": {"schemes": ["Bearer"], "credentials": "c"},
    }});
    let call = async |method, params: &Value| {
        let method = format!("tasks/pushNotificationConfig/{method}");
        server.rpc_0_3(&method, params.clone()).await
    };
    assert_eq!(call("set", &config).await.result(), config);
    let which = json!({"id": id, "pushNotificationConfigId": "one"});
    assert_eq!(call("get", &which).await.result(), config);
    let first = json!({"id": id});
    assert_eq!(call("get", &first).await.result(), config);
    assert_eq!(call("list", &first).await.result(), json!([config]));
    assert_eq!(call("delete", &which).await.json(), empty_result());
}

#[tokio::test]
async fn webhook_crud_over_http_json_0_3() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let path = format!("/tasks/{id}/pushNotificationConfigs");
    let one = format!("{path}/one");
    let name = format!("tasks/{id}/pushNotificationConfigs/one");
    let full = json!({"name": name, "pushNotificationConfig": {"id": "one", "url": "https://hook.test/a"}});
    let body = json!({"parent": format!("tasks/{id}"), "configId": "one", "config": full});
    let call =
        async |method, path: &str, body| rest(&server, Interface::Rest0, method, path, body).await;
    assert_eq!(call(Method::POST, &path, Some(body)).await.json(), full);
    assert_eq!(call(Method::GET, &one, None).await.json(), full);
    let listed = call(Method::GET, &path, None).await.json();
    assert_eq!(listed, json!({"configs": [full], "nextPageToken": ""}));
    let deleted = call(Method::DELETE, &one, None).await;
    assert_eq!(deleted.status, StatusCode::OK);
}

#[tokio::test]
async fn message_may_register_webhook() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        let (name, auth) = match interface {
            Interface::Rpc1 | Interface::Rest1 => {
                ("taskPushNotificationConfig", json!({"scheme": "Bearer"}))
            }
            Interface::Rpc0 => ("pushNotificationConfig", json!({"schemes": ["Bearer"]})),
            Interface::Rest0 => ("pushNotification", json!({"schemes": ["Bearer"]})),
        };
        let mut configuration = immediate_configuration(interface);
        configuration[name] = json!({"url": "https://hook.test/b", "authentication": auth});
        let answer = send(&server, interface, "slow", configuration).await;
        let id = task(interface, &answer)["id"].clone();
        let listed = server
            .rpc("ListTaskPushNotificationConfigs", json!({"taskId": id}))
            .await
            .result();
        let config = &listed["configs"][0];
        assert_eq!(config["url"], "https://hook.test/b", "{interface:?}");
        assert_eq!(
            config["authentication"]["scheme"], "Bearer",
            "{interface:?}"
        );
    }
}

#[tokio::test]
async fn forbidden_webhook_is_rejected() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let config = json!({"taskId": id, "url": "http://hook.test/a"});
    let reply = server.rpc("CreateTaskPushNotificationConfig", config).await;
    assert_eq!(reply.code(), -32602);
}
