//! The command and a local gateway, without any configuration.

use std::fs;

use serde_json::{Value, json};
use testkit::conformance::gateways::Gateways;

use crate::{cli::support::*, support::assert_has};

/// Returns a gateway with three agents, of which alpha answers, and gamma never does. Requires `token` if given.
pub(crate) async fn gateway(token: Option<&str>) -> Gateways {
    let known = json!([
        {"name": "alpha", "role": "steward", "status": "Active", "workspace": "/home/secret/alpha"},
        {"name": "beta", "role": "triad", "status": "offline", "workspace": "/home/secret/beta"},
        {"name": "gamma", "role": "scribe", "status": "Active", "workspace": "/home/secret/gamma"},
    ]);
    let error = |code: u16, name: &str| {
        json!({"type": "error", "from": "gateway", "metadata": {"parentId": "{{/id}}"},
        "content": {"error": name, "message": "no", "code": code}})
    };
    let answer = json!({"type": "message", "id": "reply-1", "from": "{{/agent}}", "sessionId": "session-1", "timestamp": "{{now}}",
        "content": {"role": "agent", "content": "All is well."}, "metadata": {"correlationId": "{{/metadata/correlationId}}", "parentId": "{{/id}}"}});
    let mut rules = vec![
        json!({"when": {"/type": "handshake"}, "do": [{"send": {"type": "handshake", "metadata": {"parentId": "{{/id}}"},
            "content": {"action": "acknowledge", "clientId": "c-1", "availableAgents": ["alpha", "beta", "gamma"], "protocolVersion": "1.0.0"}}}]}),
        json!({"when": {"/type": "discovery"}, "do": [{"send": {"type": "discovery", "content": {"agents": known},
            "metadata": {"correlationId": "{{/metadata/correlationId}}"}}}]}),
        json!({"when": {"/type": "message", "/agent": "alpha"}, "do": [{ "send": answer }]}),
        json!({"when": {"/type": "message", "/agent": "gamma"}, "do": []}),
        json!({"when": {"/type": "message"}, "do": [{"send": error(3002, "AGENT_OFFLINE")}]}),
        json!({"when": {}, "do": []}),
    ];
    if let Some(token) = token {
        let admitted = json!({"type": "auth-response", "content": {"status": "ok"}, "metadata": {"parentId": "{{/id}}"}});
        let refused = json!({"type": "auth-response", "metadata": {"parentId": "{{/id}}"},
            "content": {"status": "failed", "error": "AUTH_FAILED", "code": 5002}});
        rules.splice(
            0..0,
            [
                json!({"when": {"/type": "auth", "/content/token": token}, "do": [{"remember": {"{{connection}}": "in"}}, { "send": admitted }]}),
                json!({"when": {"/type": "auth"}, "do": [{ "send": refused }, {"close": {"code": 1008, "reason": "no"}}]}),
            ],
        );
    }
    let profile = json!({"upgrade": {"protocol": "a2a-v1"}, "on": rules});
    Gateways::start(&profile).await.unwrap()
}

#[tokio::test]
async fn targets_shows_gateway_agents_and_connection() {
    let gateway = gateway(None).await;
    let output = run(&["targets", "--gateway", &gateway.url()]).await;
    assert_exit_code(&output, 0);
    assert_contains(
        &output.stdout,
        &[
            "STATUS",
            "ROLE",
            "gateway:alpha",
            "steward",
            "online",
            "gateway:beta",
            "offline",
            "gateway:triad",
        ],
    );
    let connection = format!(
        "gateway {}: OPEN (1), a2a-v1, subprotocol a2a-v1, timeout 30000 ms, heartbeat 30000 ms",
        gateway.url()
    );
    assert_contains(&output.stdout, &[&connection]);
    assert!(!output.stdout.contains("/home"), "{}", output.stdout);
}

#[tokio::test]
async fn json_targets_have_a_numeric_state_and_no_path() {
    let gateway = gateway(None).await;
    let output = run(&["targets", "--json", "--gateway", &gateway.url()]).await;
    let envelope = &json_lines(&output)[0];
    let shown = &envelope["summary"]["gateway"];
    assert_has(
        shown,
        json!({"state": "OPEN", "state_code": 1, "protocol": "a2a-v1", "timeout_ms": 30_000, "heartbeat_ms": 30_000}),
    );
    let members = envelope["summary"]["targets"][3]["members"].as_array();
    assert_eq!(members.unwrap().len(), 3);
    assert!(!output.stdout.contains("/home"), "{}", output.stdout);
}

#[tokio::test]
async fn agent_is_called_by_name_and_continued_from_file() {
    let gateway = gateway(None).await;
    let file = scratch("gateway").join("task.json");
    let file = file.to_str().unwrap();
    let url = gateway.url();
    let output = run_line(&format!(
        "send --gateway {url} --target alpha --save '{file}' How are you?"
    ))
    .await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stdout, &["All is well."]);
    let continuation: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(
        continuation["target"]["preferred_transports"],
        json!(["GATEWAY"])
    );
    // Only the file names the gateway.
    let output = run(&["send", "--continuation", file, "And", "now?"]).await;
    assert_exit_code(&output, 0);
    let messages = gateway.log().matching(&json!({"/type": "message"}));
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[1]["agent"], "alpha");
    assert_eq!(
        messages[1]["sessionId"],
        continuation["conversation"]["context_id"]
    );
}

#[tokio::test]
async fn gateway_receives_token_of_environment() {
    let gateway = gateway(Some("s3cret-token")).await;
    let url = gateway.url();
    let line = format!("targets --gateway {url} --gateway-token-env GATE_TOKEN");
    for (token, code) in [("s3cret-token", 0), ("an0ther-token", 4)] {
        let output = run_with_env(&words(&line), ("GATE_TOKEN", token)).await;
        assert_exit_code(&output, code);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert!(!all.contains(token), "{all}");
        if code == 4 {
            assert_contains(&all, &["auth_failed", "`GATE_TOKEN`"]);
        }
    }
}

#[tokio::test]
async fn missing_agent_is_unreachable() {
    let gateway = gateway(None).await;
    let url = gateway.url();
    let output = run_line(&format!("send --gateway {url} --target gateway:beta hi")).await;
    assert_exit_code(&output, 3);
    let output = run_line(&format!("send --gateway {url} --target delta hi")).await;
    assert_exit_code(&output, 1);
    let targets = format!("`remote-agent targets --gateway {url}`");
    assert_contains(&output.stderr, &["delta", &targets]);
}

#[tokio::test]
async fn unreachable_gateway_is_reported_once() {
    let settings = json!({"gateway": {"enabled": true, "url": "ws://127.0.0.1:1", "agents": ["alpha", "beta"]}});
    let config = config_file("gateway-away", &settings);
    let output = run(&["targets", "--config", &config]).await;
    assert_exit_code(&output, 3);
    assert_contains(
        &output.stdout,
        &[
            "gateway:alpha",
            "gateway:beta",
            "CLOSED (3)",
            "connection_refused",
        ],
    );
    assert_eq!(
        output.stdout.matches("what to do").count(),
        1,
        "{}",
        output.stdout
    );
}

#[tokio::test]
async fn invalid_gateway_address_is_reported_with_hint() {
    for (line, reported) in [
        (
            "targets --gateway http://127.0.0.1:18789",
            "try `ws://127.0.0.1:18789`",
        ),
        (
            "targets --gateway 127.0.0.1:18789",
            "try `ws://127.0.0.1:18789`",
        ),
        ("targets --gateway ws://192.0.2.1:1", "begin it with `wss:`"),
        (
            "targets --gateway ws://127.0.0.1:1 --url http://a.example",
            "cannot be used with",
        ),
        ("send --gateway ws://127.0.0.1:1 hi", "`--target NAME`"),
    ] {
        let output = run_line(line).await;
        assert_exit_code(&output, 2);
        assert_contains(&output.stderr, &[reported]);
    }
}
