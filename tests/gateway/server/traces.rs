//! Spans of the running gateway.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;
use crate::support::otlp::{OtlpReceiver, TRACEPARENT};

/// The process of a gateway. Dropping it kills the process.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a gateway that exports its spans.
fn start(receiver: &OtlpReceiver, folder: &std::path::Path) -> (Process, SocketAddr) {
    let mut child = Command::new(crate::support::command())
        .args(["gateway", "--port", "0", "--json", "--state-dir"])
        .arg(folder)
        .envs(receiver.variables())
        .env("OTEL_EXPORTER_OTLP_HEADERS", "key=k3y")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let url = started["url"].as_str().unwrap();
    let address = url.trim_start_matches("ws://").parse().unwrap();
    (Process(child), address)
}

#[tokio::test(flavor = "multi_thread")]
async fn message_is_a_span_of_its_trace_without_contents() {
    let receiver = OtlpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let (_gateway, address) = start(&receiver, folder.path());
    let mut alpha = Client::connect(address).await;
    alpha.advertise(&["alpha"]).await;
    let mut beta = Client::connect(address).await;
    beta.advertise(&["beta"]).await;
    let mut sent = message("alpha", "1");
    sent["content"]["content"] = "s3cret-text".into();
    sent["metadata"]["traceparent"] = TRACEPARENT.into();
    beta.send(sent).await;
    let received = alpha.recv().await;
    assert_eq!(
        received["metadata"]["traceparent"], TRACEPARENT,
        "{received}"
    );
    let (span, batches) = receiver.span("message");
    let expected = [
        ("client.name", "beta"),
        ("messaging.destination.name", "alpha"),
        ("messaging.operation.name", "message"),
        ("messaging.system", "a2a-v1"),
    ];
    span.check_child_of_trace("remote-agent-gateway", &expected);
    assert!(!batches.iter().any(|batch| batch.contains("s3cret")));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_message_is_a_failed_span() {
    let receiver = OtlpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let (_gateway, address) = start(&receiver, folder.path());
    let mut beta = Client::connect(address).await;
    beta.advertise(&["beta"]).await;
    beta.request(message("s3cret-agent", "1")).await;
    let (span, batches) = receiver.span("message");
    assert!(span.is_failed, "{span:?}");
    assert_eq!(span.attributes["error.type"], "AGENT_NOT_FOUND");
    assert!(!batches.iter().any(|batch| batch.contains("s3cret")));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_of_an_agent_inherits_no_credential_of_the_receiver() {
    let receiver = OtlpReceiver::start();
    let folder = tempfile::tempdir().unwrap();
    let run = r#"printf 'key:%s' "$OTEL_EXPORTER_OTLP_HEADERS""#;
    let config = json!({"agents": [{"name": "alpha", "role": "Member", "backend": {"run": run}}]});
    std::fs::write(folder.path().join("gateway.json"), config.to_string()).unwrap();
    let (_gateway, address) = start(&receiver, folder.path());
    let mut watcher = Client::connect(address).await;
    let subscription = json!({"type": "subscribe", "content": {"channel": "agent:status"}});
    watcher.send(subscription).await;
    let is_ready = |status: &Value| status["agent"] == "alpha" && status["status"] == "online";
    while !is_ready(&watcher.recv().await["content"]) {}
    let mut client = Client::connect(address).await;
    let answer = client.request(message("alpha", "1")).await;
    assert_eq!(answer["content"]["content"], "key:", "{answer}");
    assert!(receiver.batch().head.contains("key: k3y\r\n"));
}
