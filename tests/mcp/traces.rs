//! Spans of the server.

use super::http::HttpServer;
use super::*;
use crate::support::otlp::{OtlpReceiver, PARENT_ID, TRACE_ID, TRACEPARENT};

const CALL: &str = "tools/call remote_agent";

fn call_in_trace() -> Value {
    let mut params = call_params(send_request("echo s3cret-text"));
    params["_meta"]["traceparent"] = TRACEPARENT.into();
    params
}

#[test]
fn call_over_standard_input_is_a_span_of_the_hosts_trace() {
    let receiver = OtlpReceiver::start();
    let server = Server::scripted(&["--task-store", "memory"]);
    let flags = ["--url", server.url(), "--as", "coder"];
    let mut host = Host::of(command(&flags).envs(receiver.variables()));
    host.shake_hands("2025-11-25");
    let answer = host.request("tools/call", call_in_trace());
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let (span, batches) = receiver.span(CALL);
    let expected = [
        ("client.name", "coder"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "remote_agent"),
        ("mcp.method.name", "tools/call"),
    ];
    span.check_child_of_trace("remote-agent-mcp", &expected);
    assert!(!batches.iter().any(|batch| batch.contains("s3cret")));
    let failed = host.call(json!({"action": "s3cret-action"}));
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let (span, batches) = receiver.span(CALL);
    assert!(span.is_failed && span.trace_id != TRACE_ID, "{span:?}");
    assert!(!batches.iter().any(|batch| batch.contains("s3cret")));
    assert!(host.end().success());
}

#[test]
fn call_over_http_is_a_span_below_that_of_its_request() {
    let receiver = OtlpReceiver::start();
    let server = Server::scripted(&["--task-store", "memory"]);
    let variables = receiver.variables();
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    let mcp_server = HttpServer::with_environment(&["--url", server.url()], &variables);
    let params = call_params(send_request("echo hello"));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [
        "Content-Type: application/json",
        "Accept: application/json",
        "MCP-Protocol-Version: 2025-11-25",
        &format!("traceparent: {TRACEPARENT}"),
    ];
    let answer = mcp_server.request("POST /mcp", &headers, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut spans = Vec::new();
    while spans.len() < 2 {
        spans.extend(receiver.batch().spans());
    }
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let (request, call) = (named("POST"), named(CALL));
    assert_eq!(
        (&*request.trace_id, &*request.parent_id),
        (TRACE_ID, PARENT_ID)
    );
    assert_eq!(
        (&*call.trace_id, &call.parent_id),
        (TRACE_ID, &request.span_id)
    );
}
