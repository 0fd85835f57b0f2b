//! Each error of the registry (Heretek A2A appendix B): most from the gateway over real sockets, some only from a client.

use collective::ErrorCode;
use testkit::support::free_port;

use super::*;
use crate::gateway::{
    rig::reason,
    support::{at, scripted, to},
};

/// The text of the tests' clients, which must not appear in a log.
const SECRET: &str = "what-was-said";

fn message_to(agent: &str) -> Value {
    json!({
        "type": "message", "id": "m", "agent": agent,
        "content": {"role": "user", "content": SECRET},
        "metadata": {"correlationId": "c", "requiresResponse": true},
    })
}

/// Checks that a gateway with these settings answers each frame with this error, and logs the outcomes without the texts.
async fn answered(settings: Value, frames: &[(ErrorCode, Value)]) {
    let config = config(settings);
    let log = config.state_dir.join("audit.jsonl");
    let mut gateway = Gateway::of(config, Timeouts::default()).await;
    let mut client = gateway.client().await;
    for (code, frame) in frames {
        let text = frame
            .as_str()
            .map_or_else(|| frame.to_string(), str::to_owned);
        client.raw(Message::Text(text.into())).await;
        let answer = client.recv().await;
        let reported = &answer["content"];
        assert_eq!(reported["code"], code.number(), "{answer}");
        assert_eq!(reported["error"], code.name(), "{answer}");
        println!("{code}: {}", reported["message"].as_str().unwrap());
    }
    gateway.shutdown.cancel();
    gateway.running.take().unwrap().await.unwrap();
    let lines = std::fs::read_to_string(log).unwrap();
    assert!(!lines.contains(SECRET), "{lines}");
    let outcomes: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["outcome"].take())
        .collect();
    let expected: Vec<_> = frames.iter().map(|(code, _)| code.name()).collect();
    assert_eq!(outcomes, expected);
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
        (AgentNotFound, message_to("unknown")),
        (AgentOffline, message_to("alpha")),
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
    answered(json!({"limits": limits}), &frames).await;
}

#[tokio::test]
async fn codes_of_authentication() {
    let auth = |token: &str| json!({"type": "auth", "content": {"token": token}});
    let late =
        json!({"name": "late", "sha256": digest(SECRET), "expiresAt": "2020-01-01T00:00:00Z"});
    let settings = json!({"auth": {"keys": [late]}});
    let expected = [
        (ErrorCode::AuthRequired, message_to("alpha")),
        (ErrorCode::TokenExpired, auth(SECRET)),
    ];
    answered(settings.clone(), &expected).await;
    answered(settings, &[(ErrorCode::AuthFailed, auth("another"))]).await;
}

/// Errors of working agents and sessions have other tests: 3004 in `messages.rs`; 4002, 4003 and 4004 in `sessions.rs`;
/// 1003 in `flow.rs`. No gateway can send those below, because they occur without a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_side_errors_need_no_gateway() {
    let closed_port = format!("ws://127.0.0.1:{}/", free_port());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let deaf = format!("ws://{}/", silent.local_addr().unwrap());
    let acknowledge = json!({"type": "handshake", "content": {"action": "acknowledge", "clientId": "c", "availableAgents": ["alpha"], "protocolVersion": "2.0.0"}});
    let newer = scripted(&json!({"upgrade": {"protocol": "echo"}, "on": [
        {"when": {"/type": "handshake"}, "do": [{"send": acknowledge}]},
    ]}))
    .await;
    for (code, url) in [
        (ErrorCode::ConnectionRefused, closed_port),
        (ErrorCode::ConnectionTimeout, deaf),
        (ErrorCode::ProtocolError, newer.url()),
    ] {
        let envelope = at(&url, json!({"timeoutMs": 500}))
            .call(&to("alpha", "Hello?"))
            .await;
        assert_eq!(reason(&envelope), code.reason(), "{envelope}");
        let number = &envelope["error"]["details"]["gateway_code"];
        assert_eq!(*number, code.number(), "{envelope}");
        println!("{code}: {}", envelope["error"]["message"].as_str().unwrap());
    }
}
