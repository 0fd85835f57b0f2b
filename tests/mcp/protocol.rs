//! Invalid requests, after which the server continues.

use super::*;

fn assert_serves(host: &mut Host) {
    let answer = host.request("tools/list", json!({}));
    assert_eq!(
        answer["result"]["tools"][0]["name"], "remote_agent",
        "{answer}"
    );
}

#[test]
fn server_continues_after_invalid_lines() {
    let mut host = Host::with_version("2025-11-25", &[]);
    for line in [
        "not json",
        "[]",
        "{}",
        "null",
        "[1,2]",
        "\u{0}",
        r#"{"jsonrpc":"1.0","id":1}"#,
    ] {
        host.write(line);
    }
    assert_serves(&mut host);
}

#[test]
fn unknown_methods_and_tools_are_refused() {
    let mut host = Host::with_version("2025-11-25", &[]);
    let unknown = host.request("resources/list", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let unknown = host.request("tools/call", json!({"name": "other", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert_serves(&mut host);
}

#[test]
fn unknown_version_is_refused_with_supported_ones() {
    let mut host = Host::start(&[]);
    let mut params = with_metadata(json!({}), json!({}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let answer = host.request("tools/list", params);
    assert_eq!(answer["error"]["code"], -32022, "{answer}");
}

#[test]
fn ten_megabyte_field_is_refused_and_not_repeated() {
    let mut host = Host::with_version("2025-11-25", &["--url", "http://127.0.0.1:9"]);
    let large = "x".repeat(10 << 20);
    let answer = host.call(json!({"action": large}));
    assert_eq!(answer["result"]["isError"], true);
    assert!(
        answer.to_string().len() < 100_000,
        "{}",
        answer.to_string().len()
    );
    assert_serves(&mut host);
}

#[test]
fn cancellation_of_an_unknown_call_is_ignored() {
    let mut host = Host::with_version("2025-11-25", &[]);
    let params = json!({"requestId": 4711});
    host.write(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            .to_string(),
    );
    assert_serves(&mut host);
}

#[test]
fn thousand_concurrent_calls_are_answered() {
    let (_server, mut host) = host_of_server(&[]);
    let ids: Vec<u64> = (0..1000)
        .map(|_| {
            host.send(
                "tools/call",
                call_params(json!({"action": "status", "task_id": "7"})),
            )
        })
        .collect();
    let mut pending: std::collections::BTreeSet<u64> = ids.into_iter().collect();
    while !pending.is_empty() {
        let answer = host.receive();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(pending.remove(&answer["id"].as_u64().unwrap()));
    }
}

#[test]
fn stdout_has_only_the_protocol() {
    let mut host = Host::with_version("2025-11-25", &["--verbose", "--url", "http://127.0.0.1:9"]);
    host.call(json!({"action": "list_targets"}));
    host.input.take();
    while let Ok(message) = host.output.recv_timeout(ANSWER_TIMEOUT) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
    }
}

#[test]
fn messages_before_the_handshake_do_not_end_the_server() {
    let mut host = Host::start(&["--url", "http://127.0.0.1:9"]);
    host.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    host.write("not json");
    let answer = host.receive();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&Value::Null, &json!(-32700))
    );
    let answer = host.request("tools/call", json!([]));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let answer = host.request("tools/list", with_metadata(json!({}), json!({})));
    assert_eq!(
        answer["result"]["tools"][0]["name"], "remote_agent",
        "{answer}"
    );
}
