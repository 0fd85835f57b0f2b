//! Large answers in bounded memory, measured as the peak of a separate process.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::faults::jsonl_process::JsonlProcess;
use crate::faults::tool_fixture::{
    card, parse, peers, reason, result, send_request, stream_request, task,
};

/// The memory that a call may add to the process under the default limits.
const MAX_GROWTH_KB: u64 = 150 * 1024;

/// The memory for an answer with 32 MB of artifacts. The result contains them as artifacts and as text.
const MAX_GROWTH_CARRYING_KB: u64 = 256 * 1024;

/// The memory for events and artifacts of mostly structure, which may each take eight times their counted bytes.
const MAX_GROWTH_DENSE_KB: u64 = (8 + 8) * 32 * 1024 + MAX_GROWTH_KB;

const MEGABYTE: usize = 1 << 20;

/// Returns a process with these peers as targets.
fn start_process(peers: &Peers) -> JsonlProcess {
    let targets: Vec<Value> = peers
        .origins()
        .iter()
        .map(|(name, origin)| json!({"alias": name, "baseUrl": origin}))
        .collect();
    JsonlProcess::start(&json!({"targets": targets}))
}

fn call(process: &mut JsonlProcess, alias: &str, mut request: Value) -> Value {
    request["target_alias"] = json!(alias);
    parse(&process.call(&request).to_string())
}

/// Returns the peak memory of the process, in kB.
fn peak_kb(process: &JsonlProcess) -> u64 {
    process.memory_kb("VmHWM")
}

/// Makes the call in a new process, checks its peak memory and returns the envelope.
async fn call_within_default_growth(script: Value, request: Value) -> Value {
    call_within_growth(MAX_GROWTH_KB, script, request).await
}

async fn call_within_growth(max_growth_kb: u64, script: Value, request: Value) -> Value {
    let peers = peers(json!({
        "main": script,
        "small": {"card": card(), "rpc": {"message/send": result(task("completed"))}},
    }))
    .await;
    let measurement = tokio::task::spawn_blocking(move || {
        let mut process = start_process(&peers);
        assert_eq!(call(&mut process, "small", send_request())["ok"], true);
        let before = peak_kb(&process);
        let envelope = call(&mut process, "main", request);
        (envelope, peak_kb(&process) - before)
    });
    // A debug build on a busy machine handles megabytes slowly.
    let measurement = tokio::time::timeout(Duration::from_secs(120), measurement).await;
    let (envelope, growth) = measurement
        .expect("the call ends before the timeout")
        .unwrap();
    assert!(
        growth < max_growth_kb,
        "{growth} kB more for {:.300}",
        envelope.to_string()
    );
    envelope
}

fn repeated_body(chunk: &str, count: Option<usize>) -> Value {
    let mut repeat = json!({"chunk": chunk});
    if let Some(count) = count {
        repeat["count"] = json!(count);
    }
    json!({"body_repeat": repeat, "headers": {"content-type": "application/json"}})
}

#[tokio::test]
async fn hundred_megabyte_reply_is_refused() {
    let reply = repeated_body(&"x".repeat(MEGABYTE), Some(100));
    let envelope = call_within_default_growth(
        json!({"card": card(), "rpc": {"message/send": reply}}),
        send_request(),
    )
    .await;
    assert_eq!(reason(&envelope), "too_large", "{envelope}");
}

#[tokio::test]
async fn endless_reply_is_refused() {
    let reply = repeated_body(&" ".repeat(MEGABYTE), None);
    let envelope = call_within_default_growth(
        json!({"card": card(), "rpc": {"message/send": reply}}),
        send_request(),
    )
    .await;
    assert_eq!(reason(&envelope), "too_large", "{envelope}");
}

#[tokio::test]
async fn endless_error_is_truncated() {
    let mut reply = repeated_body(&"x".repeat(MEGABYTE), None);
    reply["status"] = json!(500);
    let envelope = call_within_default_growth(
        json!({"card": card(), "rpc": {"message/send": reply}}),
        send_request(),
    )
    .await;
    assert_eq!(
        reason(&envelope),
        "http_status",
        "{:.300}",
        envelope.to_string()
    );
}

#[tokio::test]
async fn endless_card_is_refused() {
    let reply = repeated_body(&" ".repeat(MEGABYTE), None);
    let routes = json!({"GET /.well-known/agent-card.json": reply});
    let envelope = call_within_default_growth(json!({"routes": routes}), send_request()).await;
    assert_eq!(reason(&envelope), "too_large", "{envelope}");
}

#[tokio::test]
async fn endless_event_is_refused() {
    let events =
        json!({"sse": [{"raw": "data: "}, {"raw_repeat": {"chunk": "x".repeat(MEGABYTE)}}]});
    let script = json!({"card": card(), "rpc": {"message/stream": events}});
    let envelope = call_within_default_growth(script, stream_request()).await;
    assert_eq!(reason(&envelope), "event_too_large", "{envelope}");
}

/// Returns a request whose deadline a busy machine does not reach before the limit.
fn patient_stream_request() -> Value {
    let mut request = stream_request();
    request["timeout_ms"] = json!(110_000);
    request
}

#[tokio::test]
async fn endless_artifacts_are_refused() {
    let piece = result(
        json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": true,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "x".repeat(MEGABYTE)}]}}),
    );
    let events = json!({"sse": [result(task("working")), {"repeat": {"each": piece}}]});
    let script = json!({"card": card(), "rpc": {"message/stream": events}});
    let envelope =
        call_within_growth(MAX_GROWTH_CARRYING_KB, script, patient_stream_request()).await;
    assert_eq!(
        reason(&envelope),
        "artifacts_too_large",
        "{:.300}",
        envelope.to_string()
    );
}

#[tokio::test]
async fn hundred_thousand_events_are_followed() {
    let working = result(
        json!({"kind": "status-update", "taskId": "t-1", "contextId": "c-1",
        "status": {"state": "working", "message": {"kind": "message", "messageId": "m", "role": "agent",
            "parts": [{"kind": "text", "text": "x".repeat(1000)}]}}}),
    );
    let events = json!({"sse": [{"repeat": {"count": 100_000, "each": working}}, result(task("completed"))]});
    let script = json!({"card": card(), "rpc": {"message/stream": events}});
    let envelope = call_within_default_growth(script, stream_request()).await;
    assert_eq!(envelope["ok"], true, "{:.300}", envelope.to_string());
}

/// Returns a reply of 30 MB that repeats this piece of JSON in an array.
fn dense_reply(piece: &str) -> Value {
    let values = piece.repeat(30 * MEGABYTE / piece.len());
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"kind\":\"message\",\"parts\":[],\"x\":[{values}0]}}}}"
    );
    let reply = json!({"body": body, "headers": {"content-type": "application/json"}});
    json!({"card": card(), "rpc": {"message/send": reply}})
}

#[tokio::test]
async fn reply_of_many_small_values_is_refused() {
    for piece in ["[],", "{\"a\":0},", "[0],"] {
        let envelope = call_within_default_growth(dense_reply(piece), send_request()).await;
        assert_eq!(
            reason(&envelope),
            "too_large",
            "{:.300}",
            envelope.to_string()
        );
    }
}

#[tokio::test]
async fn events_of_many_small_values_are_refused() {
    let data: Vec<Value> = vec![json!({"a": 0}); 20_000];
    let piece = result(
        json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": true,
        "artifact": {"artifactId": "a", "parts": [{"kind": "data", "data": data}]}}),
    );
    let events = json!({"sse": [result(task("working")), {"repeat": {"each": piece}}]});
    let script = json!({"card": card(), "rpc": {"message/stream": events}});
    let envelope = call_within_growth(MAX_GROWTH_DENSE_KB, script, patient_stream_request()).await;
    assert_eq!(
        reason(&envelope),
        "artifacts_too_large",
        "{:.300}",
        envelope.to_string()
    );
}
