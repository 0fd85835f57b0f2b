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

/// The memory for an answer with 32 MB of artifacts. The result contains them as artifacts and as text. mimalloc, the allocator of the
/// command, copies a text that grows, where glibc moves its pages: 250 MB in place of 170.
const MAX_GROWTH_CARRYING_KB: u64 = 384 * 1024;

/// The memory for artifacts of mostly structure, whose values may take twice their counted bytes, and their result.
const MAX_GROWTH_DENSE_KB: u64 = 2 * 32 * 1024 + MAX_GROWTH_KB;

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

/// Makes the call in a new process, checks its peak memory and returns the envelope.
async fn call_within_growth(max_growth_kb: u64, script: Value, request: Value) -> Value {
    let peers = peers(json!({
        "main": script,
        "small": {"card": card(), "rpc": {"message/send": result(task("completed"))}},
    }))
    .await;
    let measurement = tokio::task::spawn_blocking(move || {
        let mut process = start_process(&peers);
        assert_eq!(call(&mut process, "small", send_request())["ok"], true);
        let before = process.memory_kb("VmHWM");
        let envelope = call(&mut process, "main", request);
        (envelope, process.memory_kb("VmHWM") - before)
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
async fn large_or_endless_answer_is_refused() {
    let text = "x".repeat(MEGABYTE);
    let spaces = repeated_body(&" ".repeat(MEGABYTE), None);
    let mut error = repeated_body(&text, None);
    error["status"] = json!(500);
    let event = json!({"sse": [{"raw": "data: "}, {"raw_repeat": {"chunk": text}}]});
    let rpc = |method: &str, reply: Value| json!({"card": card(), "rpc": {(method): reply}});
    for (name, script, request, expected) in [
        (
            "reply of a hundred megabytes",
            rpc("message/send", repeated_body(&text, Some(100))),
            send_request(),
            "too_large",
        ),
        (
            "endless reply",
            rpc("message/send", spaces.clone()),
            send_request(),
            "too_large",
        ),
        (
            "endless error",
            rpc("message/send", error),
            send_request(),
            "http_status",
        ),
        (
            "endless card",
            json!({"routes": {"GET /.well-known/agent-card.json": spaces}}),
            send_request(),
            "too_large",
        ),
        (
            "endless event",
            rpc("message/stream", event),
            stream_request(),
            "event_too_large",
        ),
    ] {
        let envelope = call_within_growth(MAX_GROWTH_KB, script, request).await;
        assert_eq!(
            reason(&envelope),
            expected,
            "{name}: {:.300}",
            envelope.to_string()
        );
    }
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
    let envelope = call_within_growth(MAX_GROWTH_KB, script, stream_request()).await;
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
        let envelope = call_within_growth(MAX_GROWTH_KB, dense_reply(piece), send_request()).await;
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
