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
async fn h_29_discovery_lists_agents_and_services() {
    let (server, _requests) = service(200, "{}").await;
    let gateway = Gateway::start(with_service(server.address)).await;
    let _alpha = gateway.serving_client(&["alpha", "stranger"]).await;
    let mut client = gateway.client().await;
    let listed = client.request(json!({"type": "discovery", "content": {"action": "list"}, "metadata": {"correlationId": "d"}})).await;
    assert_eq!(listed["metadata"]["correlationId"], "d");
    let agents = listed["content"]["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 13);
    assert_eq!(
        agents[2],
        json!({"name": "alpha", "role": "Triad member", "status": "online", "workspace": "agents/alpha"})
    );
    assert_eq!(agents[3]["status"], "offline");
    assert_eq!(agents[12]["name"], "stranger");
    assert_eq!(listed["content"]["services"][0]["serviceId"], "weather");
    assert_eq!(
        listed["content"]["services"][0]["capabilities"],
        json!(["forecast"])
    );
    client
        .send(json!({"type": "discovery", "content": {"action": "destroy"}}))
        .await;
    assert_eq!(client.expect_error().await, 2005);
}

#[tokio::test]
async fn h_32_subscriber_receives_status_and_changes() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let subscribe =
        json!({"type": "subscribe", "content": {"channel": "agent:status", "agents": ["alpha"]}});
    let response = client.request(subscribe).await;
    assert_eq!(response["type"], "subscribe");
    assert_eq!(
        response["content"],
        json!({"channel": "agent:status", "status": "subscribed"})
    );
    assert_eq!(
        client.recv().await["content"],
        json!({"agent": "alpha", "status": "offline"})
    );
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
        client.send(frame.clone()).await;
        assert_eq!(client.expect_error().await, code, "{frame}");
    }
}

#[tokio::test]
async fn h_33_workspaces_are_listed() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let listed = client
        .request(json!({"type": "workspace", "content": {"action": "list"}}))
        .await;
    let workspaces = listed["content"]["workspaces"].as_array().unwrap();
    assert_eq!(workspaces.len(), 12);
    assert_eq!(workspaces[2]["agent"], "alpha");
    assert_eq!(workspaces[2]["sessions"], 0);
    assert_eq!(workspaces[2]["path"], "agents/alpha");
    client
        .send(json!({"type": "workspace", "content": {"action": "get", "agent": "unknown"}}))
        .await;
    assert_eq!(client.expect_error().await, 3001);
}

#[tokio::test]
async fn h_34_broadcast_reaches_other_agents_and_lists_them() {
    let gateway = Gateway::start(
        json!({"agents": [{"name": "alpha", "role": "r"}, {"name": "away", "role": "r"}]}),
    )
    .await;
    let (mut alpha, mut client) = (
        gateway.serving_client(&["alpha"]).await,
        gateway.client().await,
    );
    let response = client
        .request(json!({"type": "broadcast", "id": "b", "content": {"message": "all hands"}}))
        .await;
    assert_eq!(response["type"], "response");
    assert_eq!(
        response["content"]["result"],
        json!({"delivered": ["alpha"], "failed": ["away"]})
    );
    let received = alpha.recv().await;
    assert_eq!(
        (&received["type"], &received["content"]["message"]),
        (&json!("broadcast"), &json!("all hands"))
    );
    client.assert_silent().await;
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
    assert_eq!(
        (&body["from"], &body["content"]["city"]),
        (&json!("steward"), &json!("Bern"))
    );
}

#[tokio::test]
async fn h_34_service_failures_differ() {
    let (server, _requests) = service(500, "broken").await;
    let gateway = Gateway::start(with_service(server.address)).await;
    let mut client = gateway.client().await;
    client
        .send(json!({"type": "request", "content": {"service": "none"}}))
        .await;
    assert_eq!(client.expect_error().await, 3001);
    client.send(weather()).await;
    assert_eq!(client.expect_error().await, 3004);
    let closed_port = (Ipv4Addr::LOCALHOST, free_port()).into();
    let gateway = Gateway::start(with_service(closed_port)).await;
    let mut client = gateway.client().await;
    client.send(weather()).await;
    assert_eq!(client.expect_error().await, 3002);
}
