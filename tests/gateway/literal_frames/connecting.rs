//! Paths, subprotocols, frames, the handshake, credentials and the end of a connection.

use serde_json::{Value, json};
use testkit::conformance::gateways::{LogEvent, Member};

use super::{
    assert_alive, client, error_code, exchange, exchange_error, gateway, listener, message,
    wait_for_close,
};
use crate::gateway::{support::voters, tool_fixture::within_timeout};

/// SHA-256 of `open sesame`.
const KEY: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

fn advertise() -> Value {
    json!({"type": "handshake", "content": {"action": "advertise", "capabilities": {"supportedMessageTypes": ["message"], "version": "1.0.0"}}})
}

const ACKNOWLEDGED: fn() -> Value =
    || json!({"/type": "handshake", "/content/action": "acknowledge"});

#[tokio::test]
async fn h_01_only_root_path_is_served() {
    let gateway = gateway(json!({})).await;
    client(&gateway).await;
    for path in ["/a2a", "/ws"] {
        let refused = Member::join(&format!("{}{path}", gateway.url), &json!({})).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("404"), "{path}: {refused}");
    }
}

#[tokio::test]
async fn h_02_server_selects_subprotocol_only_if_offered() {
    let gateway = gateway(json!({})).await;
    for script in [json!({"upgrade": {"protocol": "a2a-v1"}}), json!({})] {
        let client = Member::join(&gateway.url, &script).await.unwrap();
        assert_alive(&client).await;
    }
}

#[tokio::test]
async fn h_04_invalid_envelope_is_reported_and_connection_stays() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    for (act, expected) in [
        (json!({"text": "{not json"}), 2001),
        (json!({"text": "null"}), 2003),
        (json!({"text": "[1,2]"}), 2003),
        (json!({"text": "7"}), 2003),
        (
            json!({"frame": {"opcode": 2, "masked": true, "payload": "{}"}}),
            2003,
        ),
    ] {
        let before = client.log().matching(&json!({"/type": "error"})).len();
        client.act(&act).await.unwrap();
        let reported =
            within_timeout(client.log().frame(before + 1, &json!({"/type": "error"}))).await;
        assert_eq!(error_code(&reported), expected, "{act}");
    }
    assert_alive(&client).await;
}

#[tokio::test]
async fn h_04_more_than_1_mib_closes_with_1009() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    let large = json!({"frame": {"opcode": 1, "masked": true, "payload": {"repeat": {"chunk": "x", "count": 1_048_577}}}});
    // The gateway may close the connection before it has read the whole frame.
    let _ = client.act(&large).await;
    assert_eq!(wait_for_close(&client).await, Some(1009));
}

#[tokio::test]
async fn h_07_both_kinds_of_ping_are_answered() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    assert_alive(&client).await;
    let with_content = json!({"type": "ping", "id": "p-2", "content": {}, "timestamp": 5});
    let pong = exchange(
        &client,
        with_content,
        json!({"/type": "pong", "/metadata/parentId": "p-2"}),
    )
    .await;
    assert_eq!(pong["type"], "pong");
    client
        .act(&json!({"frame": {"opcode": 9, "masked": true, "payload": "?"}}))
        .await
        .unwrap();
    within_timeout(
        client
            .log()
            .until(|all| all.iter().any(|entry| entry.what == LogEvent::Pong)),
    )
    .await;
}

#[tokio::test]
async fn h_08_optional_advertisement_is_acknowledged() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    assert_eq!(
        exchange_error(&client, message("unknown", json!({}))).await,
        3001,
        "served without a handshake"
    );
    let first = exchange(&client, advertise(), ACKNOWLEDGED()).await;
    let second = exchange(&client, advertise(), ACKNOWLEDGED()).await;
    assert!(first["content"]["clientId"].is_string(), "{first}");
    assert_eq!(first["content"]["clientId"], second["content"]["clientId"]);
    assert_eq!(first["content"]["protocolVersion"], "1.0.0", "{first}");
}

#[tokio::test]
async fn h_14_acknowledgement_names_online_agents() {
    let gateway = gateway(json!({})).await;
    let _alpha = listener(&gateway, "alpha").await;
    let reported = exchange(&client(&gateway).await, advertise(), ACKNOWLEDGED()).await;
    let agents = reported["content"]["availableAgents"].as_array().unwrap();
    assert!(agents.contains(&json!("alpha")), "{reported}");
}

fn locked() -> Value {
    json!({"auth": {"keys": [{"name": "bridge", "sha256": KEY, "roles": []}]}})
}

#[tokio::test]
async fn h_10_third_frame_without_credential_closes() {
    let gateway = gateway(locked()).await;
    let client = client(&gateway).await;
    assert_eq!(exchange_error(&client, advertise()).await, 5001);
    assert_eq!(
        exchange_error(&client, message("alpha", json!({}))).await,
        5001
    );
    assert_eq!(
        exchange_error(
            &client,
            json!({"type": "discovery", "content": {"action": "list"}})
        )
        .await,
        5001
    );
    assert_eq!(wait_for_close(&client).await, Some(1008));
}

#[tokio::test]
async fn h_11_invalid_credential_closes_the_connection() {
    let gateway = gateway(locked()).await;
    let auth = |token: &str| json!({"type": "auth", "content": {"token": token}});
    let answered = || json!({"/type": "auth-response"});
    let right = client(&gateway).await;
    let reported = exchange(&right, auth("open sesame"), answered()).await;
    assert_eq!(reported["content"]["status"], "ok", "{reported}");
    exchange(&right, advertise(), ACKNOWLEDGED()).await;
    let member = client(&gateway).await;
    let reported = exchange(&member, auth("open barley"), answered()).await;
    let expected = json!({"status": "failed", "error": "AUTH_FAILED", "code": 5002});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&reported["content"][name], value, "{reported}");
    }
    assert_eq!(wait_for_close(&member).await, Some(1008));
}

#[tokio::test]
async fn h_13_advertised_agents_are_served_by_the_client() {
    let gateway = gateway(json!({})).await;
    let _coder =
        voters::start_agent(&gateway.url, "coder", json!([voters::answer_rule("mine")])).await;
    let client = client(&gateway).await;
    let reply = exchange(
        &client,
        message("coder", json!({})),
        json!({"/type": "message"}),
    )
    .await;
    assert_eq!(reply["content"]["content"], "mine", "{reply}");
}

#[tokio::test]
async fn h_47_disconnect_gets_a_close() {
    let gateway = gateway(json!({})).await;
    let client = client(&gateway).await;
    client
        .send(&json!({"type": "disconnect", "content": {"reason": "manual"}}))
        .await
        .unwrap();
    client
        .send(&json!({"type": "ping", "id": "too late"}))
        .await
        .unwrap();
    client
        .act(&json!({"frame": {"opcode": 8, "masked": true, "payload": {"hex": "03e8"}}}))
        .await
        .unwrap();
    assert_eq!(wait_for_close(&client).await, Some(1000));
    assert_eq!(
        client.log().matching(&json!({"/type": "disconnect"})).len(),
        0
    );
}
