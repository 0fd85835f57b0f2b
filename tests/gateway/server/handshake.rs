//! Frames, credentials, names.

use super::*;

/// Returns the SHA-256 of `steward-key` and `late-key`.
fn keys() -> Value {
    json!({
        "auth": {"keys": [
            {"name": "steward", "sha256": digest("steward-key"), "roles": ["worker"], "agent": "steward"},
            {"name": "late", "sha256": digest("late-key"), "roles": ["worker"], "expiresAt": "2020-01-01T00:00:00Z"},
        ]},
        "roles": {"worker": {"send": ["alpha"]}},
    })
}

fn auth(token: &str) -> Value {
    json!({"type": "auth", "id": "a", "content": {"token": token}})
}

#[tokio::test]
async fn h_04_h_15_invalid_message_is_answered_and_connection_stays() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let cases = [
        ("{", 2001),
        ("[]", 2003),
        ("null", 2003),
        ("7", 2003),
        (r#"{"content":{}}"#, 2002),
        (r#"{"type":"dance","content":{}}"#, 2004),
        (r#"{"type":"message","agent":7,"content":{}}"#, 2003),
        (r#"{"type":"message","agent":"alpha"}"#, 2002),
        (
            r#"{"type":"message","content":{"role":"user","content":"x"}}"#,
            2002,
        ),
        (r#"{"type":"handshake","content":{}}"#, 2002),
        (r#"{"type":"subscribe","content":{}}"#, 2002),
        (r#"{"type":"proposal","content":{}}"#, 2002),
        (r#"{"type":"vote","content":{"proposalId":"p"}}"#, 2002),
        (r#"{"type":"request","content":{}}"#, 2002),
        (r#"{"type":"broadcast","content":{}}"#, 2002),
        (
            r#"{"type":"message","agent":"alpha","content":{"role":"king","content":"x"}}"#,
            2005,
        ),
    ];
    for (frame, code) in cases {
        client.send_raw(Message::Text(frame.into())).await;
        assert_eq!(client.expect_error().await, code, "{frame}");
    }
    client
        .send_raw(Message::Binary(b"{}".as_slice().into()))
        .await;
    assert_eq!(client.expect_error().await, 2003);
    client.advertise(&[]).await;
}

#[tokio::test]
async fn h_04_frame_above_the_limit_closes_with_1009() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let _ = client
        .0
        .send(Message::Text("x".repeat((1 << 20) + 1).into()))
        .await;
    assert_eq!(client.wait_for_close().await, 1009);
}

#[tokio::test]
async fn h_06_protocol_violations_close_with_1008() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    // A text frame of one byte that is not UTF-8, with a mask of zeros.
    let stream = client.0.get_mut();
    stream
        .write_all(&[0x81, 0x81, 0, 0, 0, 0, 0xff])
        .await
        .unwrap();
    assert_eq!(client.wait_for_close().await, 1008);
}

#[tokio::test]
async fn h_07_both_kinds_of_ping_are_answered() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let pong = client
        .request(json!({"type": "ping", "id": "p-1", "timestamp": 1}))
        .await;
    assert_has(
        &pong,
        json!({"type": "pong", "metadata": {"parentId": "p-1"}}),
    );
    client.send_raw(Message::Ping(b"?".as_slice().into())).await;
    let frame = timeout(WAIT_TIMEOUT, client.0.next()).await.unwrap();
    assert_eq!(
        frame.unwrap().unwrap(),
        Message::Pong(b"?".as_slice().into())
    );
}

#[tokio::test]
async fn h_08_every_advertisement_is_acknowledged() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let first = client.advertise(&[]).await;
    assert_eq!(first["content"]["protocolVersion"], "1.0.0");
    let agents = first["content"]["availableAgents"].as_array().unwrap();
    assert_eq!(agents.len(), 12);
    let id = &first["content"]["clientId"];
    assert!(id.as_str().unwrap().starts_with("client-"), "{id}");
    assert_eq!(client.advertise(&[]).await["content"]["clientId"], *id);
}

#[tokio::test]
async fn h_08_message_before_handshake_is_served() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    gateway.client().await.send(message("alpha", "c")).await;
    assert_eq!(alpha.recv().await["content"]["content"], "hello");
}

#[tokio::test]
async fn h_09_other_major_version_is_refused_and_closed() {
    let gateway = Gateway::start(json!({})).await;
    let mut watcher = gateway.client().await;
    for version in ["2.0.0", "0.9", "10.0", "next", ""] {
        let mut client = gateway.client().await;
        let capabilities = json!({"supportedAgents": ["alpha"], "version": version});
        client.refuse(advertisement(&capabilities), 1004).await;
        assert_eq!(client.wait_for_close().await, 1008, "{version}");
        let listed = watcher
            .request(json!({"type": "discovery", "content": {"action": "list"}}))
            .await;
        let agents = listed["content"]["agents"].as_array().unwrap();
        let alpha = agents.iter().find(|agent| agent["name"] == "alpha");
        assert_eq!(alpha.unwrap()["status"], "offline", "{version}");
    }
}

#[tokio::test]
async fn h_09_same_major_version_is_served() {
    let gateway = Gateway::start(json!({})).await;
    for version in [json!("1"), json!("1.7"), json!("v1.0.0"), json!(null)] {
        let response = advertisement(&json!({"version": version}));
        let acknowledged = gateway.client().await.request(response).await;
        assert_eq!(
            acknowledged["content"]["action"], "acknowledge",
            "{version}"
        );
    }
}

#[tokio::test]
async fn h_10_third_unauthenticated_frame_closes() {
    let gateway = Gateway::start(keys()).await;
    let mut client = gateway.client().await;
    for frame in [
        advertisement(&json!({})),
        message("alpha", "c"),
        json!({"type": "discovery", "content": {"action": "list"}}),
    ] {
        client.refuse(frame, 5001).await;
    }
    assert_eq!(client.wait_for_close().await, 1008);
}

#[tokio::test]
async fn h_11_valid_credential_is_accepted() {
    let gateway = Gateway::start(keys()).await;
    let mut client = gateway.client().await;
    let response = client.request(auth("steward-key")).await;
    assert_has(
        &response,
        json!({"type": "auth-response", "content": {"status": "ok"}, "metadata": {"parentId": "a"}}),
    );
    client.advertise(&["steward"]).await;
}

#[tokio::test]
async fn h_11_invalid_credential_closes() {
    let gateway = Gateway::start(keys()).await;
    for (token, code, name) in [
        ("wrong", 5002, "AUTH_FAILED"),
        ("late-key", 5003, "TOKEN_EXPIRED"),
    ] {
        let mut client = gateway.client().await;
        let response = client.request(auth(token)).await;
        assert_eq!(response["content"]["status"], "failed");
        assert_eq!(response["content"]["error"], name);
        assert_eq!(response["content"]["code"], code);
        assert!(!response.to_string().contains(token), "{response}");
        assert_eq!(client.wait_for_close().await, 1008);
    }
}

#[tokio::test]
async fn missing_credential_is_not_awaited() {
    let timeouts = Timeouts {
        authentication: Duration::from_millis(40),
        ..Timeouts::default()
    };
    let gateway = Gateway::with_timeouts(keys(), timeouts).await;
    let mut client = gateway.client().await;
    assert_eq!(client.expect_error().await, 5001);
    assert_eq!(client.wait_for_close().await, 1008);
}

#[tokio::test]
async fn operation_outside_all_roles_is_refused() {
    let gateway = Gateway::start(keys()).await;
    let mut client = gateway.client().await;
    client.request(auth("steward-key")).await;
    for refused in [
        message("beta", "c"),
        json!({"type": "broadcast", "content": {"message": "all"}}),
        json!({"type": "proposal", "content": {"proposal": "do"}}),
        json!({"type": "subscribe", "content": {"channel": "agent:status"}}),
        advertisement(&json!({"supportedAgents": ["beta"]})),
        json!({"type": "workspace", "content": {"action": "get", "agent": "beta"}}),
    ] {
        client.refuse(refused.clone(), 5004).await;
    }
    client.refuse(message("alpha", "c"), 3002).await;
}

#[tokio::test]
async fn served_name_is_refused_to_a_second() {
    let gateway = Gateway::start(json!({})).await;
    let mut first = gateway.serving_client(&["alpha"]).await;
    let mut second = gateway.client().await;
    second
        .refuse(advertisement(&json!({"supportedAgents": ["alpha"]})), 5004)
        .await;
    second.send(message("alpha", "c")).await;
    assert_eq!(first.recv().await["content"]["content"], "hello");
}

#[tokio::test]
async fn reserved_names_are_refused() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    for (name, code) in [
        ("gateway", 5004),
        ("triad", 5004),
        ("client-1", 5004),
        ("../x", 2005),
        ("", 2005),
    ] {
        client
            .refuse(advertisement(&json!({"supportedAgents": [name]})), code)
            .await;
    }
}

#[tokio::test]
async fn gateway_only_types_are_refused() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    for (kind, content) in [
        ("event", json!({"event": "x"})),
        ("decision", json!({"result": "approved"})),
        ("auth-response", json!({"status": "ok"})),
    ] {
        client
            .refuse(json!({"type": kind, "content": content}), 5004)
            .await;
    }
    client
        .refuse(
            json!({"type": "handshake", "content": {"action": "acknowledge"}}),
            2005,
        )
        .await;
}

#[tokio::test]
async fn error_gets_no_error_response() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    client
        .send(json!({"type": "error", "content": {"error": "AGENT_ERROR", "code": 3004}}))
        .await;
    client.send(json!({"type": "error", "content": {}})).await;
    client.assert_silent().await;
}

#[tokio::test]
async fn too_many_agents_are_refused_unread() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    let names: Vec<String> = (0..100_000).map(|n| format!("a{n}")).collect();
    let capabilities =
        json!({"supportedMessageTypes": [], "supportedAgents": names, "version": "1.0.0"});
    client.refuse(advertisement(&capabilities), 2005).await;
    let watched = json!({"channel": "agent:status", "agents": names});
    client
        .refuse(json!({"type": "subscribe", "content": watched}), 2005)
        .await;
}
