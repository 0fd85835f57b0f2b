//! Each error of the registry (Heretek A2A appendix B): most from the gateway over real sockets, some only from a client.

use collective::ErrorCode;
use testkit::support::free_port;

use super::*;
use crate::gateway::{
    support::{message_to, start_scripted, tool_with_gateway},
    tool_fixture::reason,
};

/// The text of the messages, which must not appear in a log.
const SECRET: &str = "secret-message-text";

fn message_frame(agent: &str) -> Value {
    json!({
        "type": "message", "id": "m", "agent": agent,
        "content": {"role": "user", "content": SECRET},
        "metadata": {"correlationId": "c", "requiresResponse": true},
    })
}

/// Checks that a gateway with these settings answers each frame with this error, and logs the outcomes without the texts.
async fn check_errors(settings: Value, frames: &[(ErrorCode, Value)]) {
    let gateway = Gateway::start(settings).await;
    let mut client = gateway.client().await;
    for (code, frame) in frames {
        let text = frame
            .as_str()
            .map_or_else(|| frame.to_string(), str::to_owned);
        client.send_raw(Message::Text(text.into())).await;
        let answer = client.recv().await;
        let content = &answer["content"];
        assert_eq!(content["code"], code.number(), "{answer}");
        assert_eq!(content["error"], code.name(), "{answer}");
        println!("{code}: {}", content["message"].as_str().unwrap());
    }
    let lines = audit_log(gateway).await;
    let outcomes: Vec<_> = lines.iter().map(|line| &line["outcome"]).collect();
    let expected: Vec<_> = frames.iter().map(|(code, _)| code.name()).collect();
    assert_eq!(outcomes, expected);
}

/// Stops the gateway and returns the lines of its audit log, which omit the texts.
async fn audit_log(mut gateway: Gateway) -> Vec<Value> {
    gateway.shutdown.cancel();
    gateway.running.take().unwrap().await.unwrap();
    let lines = std::fs::read_to_string(gateway.folder.join("audit.jsonl")).unwrap();
    assert!(!lines.contains(SECRET), "{lines}");
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn h_50_audit_log_has_the_parties_without_the_content() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut steward = gateway.serving_client(&["steward"]).await;
    steward.send(message_frame("alpha")).await;
    alpha.recv().await;
    let lines = audit_log(gateway).await;
    let line = lines.iter().find(|line| line["id"] == "m").unwrap();
    assert_has(
        line,
        json!({"type": "message", "from": "steward", "to": "alpha", "outcome": "delivered"}),
    );
}

#[tokio::test]
async fn message_error_names_fault_and_recipient() {
    use ErrorCode::{
        AgentBusy, AgentNotFound, AgentOffline, InvalidContent, InvalidJson, InvalidType,
        MissingField, PermissionDenied, SessionNotFound, UnknownType,
    };
    let missing = json!({"type": "message", "content": {"role": "user", "content": SECRET}});
    let get = json!({"service": "gateway", "operation": "sessions.get", "agent": "alpha", "sessionId": "s"});
    let frames = [
        (InvalidJson, json!(SECRET)),
        (MissingField, missing),
        (
            InvalidType,
            json!({"type": "message", "agent": 7, "content": {}}),
        ),
        (UnknownType, json!({"type": SECRET, "content": {}})),
        (
            InvalidContent,
            json!({"type": "discovery", "content": {"action": SECRET}}),
        ),
        (AgentNotFound, message_frame("unknown")),
        (AgentOffline, message_frame("alpha")),
        (SessionNotFound, json!({"type": "request", "content": get})),
        (
            PermissionDenied,
            json!({"type": "event", "content": {"event": SECRET}}),
        ),
        (
            AgentBusy,
            json!({"type": "broadcast", "content": {"message": SECRET}}),
        ),
    ];
    // The last one exceeds the limit.
    let limits = json!({"messagesPerSecond": 1, "burst": frames.len() - 1});
    check_errors(json!({"limits": limits}), &frames).await;
}

#[tokio::test]
async fn codes_of_authentication() {
    let auth = |token: &str| json!({"type": "auth", "content": {"token": token}});
    let late =
        json!({"name": "late", "sha256": digest(SECRET), "expiresAt": "2020-01-01T00:00:00Z"});
    let settings = json!({"auth": {"keys": [late]}});
    let expected = [
        (ErrorCode::AuthRequired, message_frame("alpha")),
        (ErrorCode::TokenExpired, auth(SECRET)),
    ];
    check_errors(settings.clone(), &expected).await;
    check_errors(settings, &[(ErrorCode::AuthFailed, auth("another"))]).await;
}

/// Errors of working agents and sessions have other tests: 3004 in `messages.rs`; 4002, 4003 and 4004 in `sessions.rs`;
/// 1003 in `flow.rs`. No gateway can send those below, because they occur without a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_side_errors_need_no_gateway() {
    let closed_port = format!("ws://127.0.0.1:{}/", free_port());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deaf = format!("ws://{}/", silent.local_addr().unwrap());
    let acknowledge = json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "c", "availableAgents": ["alpha"], "protocolVersion": "2.0.0"}});
    let newer = start_scripted(&json!({"upgrade": {"protocol": "echo"}, "on": [
        {"when": {"/type": "handshake"}, "do": [{"send": acknowledge}]},
    ]}))
    .await;
    for (code, url, timeout_ms) in [
        (ErrorCode::ConnectionRefused, closed_port, 20_000),
        (ErrorCode::ConnectionTimeout, deaf, 500),
        (ErrorCode::ProtocolError, newer.url(), 20_000),
    ] {
        let envelope = tool_with_gateway(&url, json!({"timeoutMs": timeout_ms}))
            .call(&message_to("alpha", "Hello?"))
            .await;
        assert_eq!(
            reason(&envelope),
            code.name().to_ascii_lowercase(),
            "{envelope}"
        );
        let number = &envelope["error"]["details"]["gateway_code"];
        assert_eq!(*number, code.number(), "{envelope}");
        println!("{code}: {}", envelope["error"]["message"].as_str().unwrap());
    }
}
