//! A server without a configured gateway: its port and token come from the configuration of OpenClaw.

use bytes::BytesMut;
use serde_json::{Value, json};
use testkit::http::Connection;
use testkit::support::serve::Server;
use testkit::websocket::{Incoming, Reader, TEXT, frame, switching};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::{cli::support::scratch, serve::http_client::exchange};

/// Starts a server whose OpenClaw has this configuration, in the folder `name`.
fn start_server(name: &str, config: &Value, flags: &[&str]) -> Server {
    let file = scratch(name).join("openclaw.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let variables = [
        ("OPENCLAW_CONFIG_PATH", file.to_str().unwrap()),
        ("OPENCLAW_GATEWAY_PORT", ""),
        ("OPENCLAW_GATEWAY_TOKEN", ""),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let base_flags = ["--port", "0", "--task-store", "memory"];
    Server::start(&[&base_flags, flags].concat(), &variables)
}

/// Answers the next connection of a server like OpenClaw's gateway, with `refusal`; returns its `connect` request.
async fn refuse_connect(listener: &TcpListener, refusal: &Value) -> Value {
    let (stream, _) = listener.accept().await.unwrap();
    let mut connection = Connection::new(stream);
    let request = connection.next().await.unwrap().unwrap();
    let mut reader = Reader::new(connection.stream, BytesMut::new());
    let challenge = json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n-1", "ts": 1}});
    let response = switching(&request, "");
    reader.stream.write_all(response.as_bytes()).await.unwrap();
    send_message(&mut reader.stream, &challenge).await;
    let Some(Incoming::Text(text)) = reader.next().await.unwrap() else {
        panic!("no `connect`");
    };
    let request: Value = serde_json::from_slice(&text).unwrap();
    let answer = json!({"type": "res", "id": request["id"], "ok": false, "error": refusal});
    send_message(&mut reader.stream, &answer).await;
    request
}

async fn send_message(stream: &mut TcpStream, message: &Value) {
    let bytes = frame(0x80 | TEXT, message.to_string().as_bytes());
    stream.write_all(&bytes).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn port_and_token_come_from_the_configuration_of_openclaw() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let config =
        json!({"gateway": {"port": port, "auth": {"mode": "token", "token": "of-openclaw"}}});
    let server = start_server("serve-port", &config, &[]);
    let refusal = json!({"code": "UNAVAILABLE", "message": "starting"});
    let connect = refuse_connect(&listener, &refusal).await;
    assert_eq!(
        connect["params"]["auth"]["token"], "of-openclaw",
        "{connect}"
    );
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_token_is_explained_in_the_log() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = start_server("serve-no-token", &json!({"gateway": {"port": port}}), &[]);
    let refusal = json!({"code": "NOT_PAIRED", "message": "device identity required", "details": {"code": "DEVICE_IDENTITY_REQUIRED"}});
    let connect = refuse_connect(&listener, &refusal).await;
    assert_eq!(connect["params"].get("auth"), None, "{connect}");
    drop(listener);
    // Its executor was found not ready before the next request is answered.
    exchange(&server, "GET /readyz", &[], "");
    let log = server.stop().log;
    for part in [
        "OPENCLAW_GATEWAY_TOKEN",
        "`gateway.auth.token` in openclaw.json",
        "openclaw config set gateway.auth.token TOKEN",
    ] {
        assert!(log.contains(part), "no `{part}` in {log}");
    }
    assert!(!log.contains("connect over loopback"), "{log}");
}

#[test]
fn config_error_omits_token_of_openclaw() {
    let file = scratch("serve-broken").join("openclaw.json");
    std::fs::write(
        &file,
        "{\"gateway\": {\"auth\": {\"token\": \"of-openclaw\" oops}}}",
    )
    .unwrap();
    let output = std::process::Command::new(testkit::support::command())
        .args(["serve", "--port", "0", "--task-store", "memory"])
        .env("OPENCLAW_CONFIG_PATH", &file)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("openclaw.json`: line 1 is not valid"),
        "{error}"
    );
    assert!(!error.contains("of-openclaw"), "{error}");
}

#[test]
fn failed_request_logs_one_line() {
    let server = start_server("serve-down", &json!({}), &["--gateway", "ws://127.0.0.1:1"]);
    let answer = exchange(&server, "GET /.well-known/agent-card.json", &[], "");
    assert_eq!(answer.status, 503, "{answer:?}");
    let log = server.stop().log;
    let lines = log.lines().filter(|line| line.contains("127.0.0.1:1"));
    // One says at the start that the executor is not ready.
    let lines: Vec<_> = lines.filter(|line| !line.contains("not ready")).collect();
    assert_eq!(lines.len(), 1, "{log}");
}
