//! Discovery, workspaces and subscriptions.

use std::net::Ipv4Addr;

use testkit::http::{Connection, Server, response};
use testkit::support::free_port;

use super::*;

/// Returns an HTTP server that answers every request with this, and its requests.
async fn service(
    status: u16,
    body: &'static str,
) -> (Server, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (sender, requests) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |stream, _| {
        let sender = sender.clone();
        async move {
            let mut connection = Connection::new(stream);
            if let Some(request) = connection.next().await? {
                let _ = sender.send(request.text());
                let status = format!("{status} X");
                let answer = response(&status, "text/plain", "connection: close\r\n", body);
                connection.write(answer).await?;
            }
            Ok(())
        }
    });
    (server.await, requests)
}

fn with_service(address: SocketAddr) -> Value {
    json!({"services": [{"serviceId": "weather", "endpoint": format!("http://{address}/ask"), "capabilities": ["forecast"]}]})
}

fn weather() -> Value {
    json!({"type": "request", "id": "r-1", "content": {"service": "weather", "city": "Bern"}, "metadata": {"correlationId": "c-1"}})
}

#[tokio::test]
async fn h_29_h_30_discovery_lists_agents_and_services() {
    let (server, _requests) = service(200, "{}").await;
    let gateway = Gateway::start(with_service(server.address)).await;
    let _alpha = gateway.serving_client(&["alpha", "stranger"]).await;
    let mut client = gateway.client().await;
    let listed = client.request(json!({"type": "discovery", "content": {"action": "list"}, "metadata": {"correlationId": "d"}})).await;
    assert_eq!(listed["metadata"]["correlationId"], "d");
    let agents = listed["content"]["agents"].as_array().unwrap();
    assert_eq!(
        agents[2],
        json!({"name": "alpha", "role": "Triad member", "status": "online", "workspace": "agents/alpha"})
    );
    let statuses: Vec<String> = agents
        .iter()
        .map(|agent| format!("{} {}", agent["name"], agent["status"]).replace('"', ""))
        .collect();
    let expected = "main offline, steward offline, alpha online, beta offline, charlie offline, examiner offline, \
        explorer offline, sentinel offline, coder offline, dreamer offline, empath offline, historian offline, \
        stranger online";
    assert_eq!(statuses.join(", "), expected);
    assert_eq!(listed["content"]["services"][0]["serviceId"], "weather");
    assert_eq!(
        listed["content"]["services"][0]["capabilities"],
        json!(["forecast"])
    );
    client
        .refuse(
            json!({"type": "discovery", "content": {"action": "destroy"}}),
            2005,
        )
        .await;
}

#[tokio::test]
async fn h_32_subscriber_receives_status_and_changes() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let content = json!({"channel": "agent:status", "agents": ["alpha", "steward"]});
    let subscribe = json!({"type": "subscribe", "content": content});
    let response = client.request(subscribe).await;
    assert_eq!(response["type"], "subscribe");
    assert_eq!(
        response["content"],
        json!({"channel": "agent:status", "status": "subscribed"})
    );
    let mut current = [client.recv().await, client.recv().await];
    current.sort_by_key(|status| status["content"]["agent"].to_string());
    for (status, agent) in current.iter().zip(["alpha", "steward"]) {
        let expected = json!({"agent": agent, "status": "offline"});
        assert_eq!(status["content"], expected);
    }
    let alpha = gateway.serving_client(&["alpha", "beta"]).await;
    assert_eq!(
        client.recv().await["content"],
        json!({"agent": "alpha", "status": "online", "previous": "offline"})
    );
    drop(alpha);
    assert_eq!(client.recv().await["content"]["status"], "offline");
    let response = client
        .request(json!({"type": "unsubscribe", "content": {"channel": "agent:status"}}))
        .await;
    assert_eq!(response["content"]["status"], "unsubscribed");
    let _alpha = gateway.serving_client(&["alpha"]).await;
    client.assert_silent().await;
}

#[tokio::test]
async fn h_32_invalid_subscription_or_status_is_refused() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    for (frame, code) in [
        (
            json!({"type": "subscribe", "content": {"channel": "weather"}}),
            2005,
        ),
        (
            json!({"type": "unsubscribe", "content": {"channel": "weather"}}),
            2005,
        ),
        (json!({"type": "status"}), 2002),
        (json!({"type": "status", "content": {}}), 2002),
        (
            json!({"type": "status", "content": {"status": "asleep"}}),
            2005,
        ),
        (
            json!({"type": "status", "content": {"status": "busy"}}),
            5004,
        ),
    ] {
        client.refuse(frame.clone(), code).await;
    }
}

#[tokio::test]
async fn h_33_workspaces_are_listed() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(message("alpha", "c-1")).await;
    alpha.recv().await;
    let listed = client
        .request(json!({"type": "workspace", "content": {"action": "list"}}))
        .await;
    let workspaces = listed["content"]["workspaces"].as_array().unwrap();
    assert_eq!(workspaces.len(), 12);
    assert_has(
        &workspaces[2],
        json!({"agent": "alpha", "sessions": 1, "path": "agents/alpha"}),
    );
    assert_has(&workspaces[3], json!({"agent": "beta", "sessions": 0}));
    client
        .refuse(
            json!({"type": "workspace", "content": {"action": "get", "agent": "unknown"}}),
            3001,
        )
        .await;
}

#[tokio::test]
async fn h_34_broadcast_reaches_other_agents_and_lists_them() {
    let gateway = Gateway::start(
        json!({"agents": [{"name": "alpha", "role": "r"}, {"name": "away", "role": "r"}]}),
    )
    .await;
    let (mut alpha, mut steward) = (
        gateway.serving_client(&["alpha"]).await,
        gateway.serving_client(&["steward"]).await,
    );
    let response = steward
        .request(json!({"type": "broadcast", "id": "b", "content": {"message": "all hands"}, "metadata": {"correlationId": "bc-1"}}))
        .await;
    assert_has(
        &response,
        json!({"type": "response", "metadata": {"correlationId": "bc-1"}}),
    );
    assert_eq!(
        response["content"]["result"],
        json!({"delivered": ["alpha"], "failed": ["away"]})
    );
    let received = alpha.recv().await;
    assert_has(
        &received,
        json!({"type": "broadcast", "from": "steward", "content": {"message": "all hands"}}),
    );
    steward.assert_silent().await;
}

#[tokio::test]
async fn h_34_service_is_called_over_http() {
    let (server, mut requests) = service(200, r#"{"sky": "blue"}"#).await;
    let gateway = Gateway::start(with_service(server.address)).await;
    let mut steward = gateway.serving_client(&["steward"]).await;
    let response = steward.request(weather()).await;
    assert_eq!(response["type"], "response");
    assert_eq!(
        response["content"],
        json!({"service": "weather", "result": {"sky": "blue"}})
    );
    assert_eq!(response["metadata"]["correlationId"], "c-1");
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("POST /ask HTTP/1.1\r\n"), "{request}");
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_has(
        &body,
        json!({"from": "steward", "content": {"city": "Bern"}}),
    );
}

#[tokio::test]
async fn h_34_service_failures_differ() {
    let (server, _requests) = service(500, "broken").await;
    let gateway = Gateway::start(with_service(server.address)).await;
    let mut client = gateway.client().await;
    client
        .refuse(
            json!({"type": "request", "content": {"service": "none"}}),
            3001,
        )
        .await;
    client.refuse(weather(), 3004).await;
    let closed_port = (Ipv4Addr::LOCALHOST, free_port()).into();
    let gateway = Gateway::start(with_service(closed_port)).await;
    let mut client = gateway.client().await;
    client.refuse(weather(), 3002).await;
}
