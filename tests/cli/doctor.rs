//! `remote-agent doctor`.

use serde_json::{Value, json};

use super::support::{assert_contains, assert_exit_code, card, command, run, scratch};
use crate::cli::process::wait_for_output;
use testkit::conformance::peers::Peers;

async fn start_desk() -> Peers {
    let script = json!({"peers": {"desk": {"card": card()}, "away": {"unreachable": true}}});
    Peers::start(&script).await.unwrap()
}

#[tokio::test]
async fn doctor_finds_no_fault_in_a_reachable_agent() {
    let peers = start_desk().await;
    let output = run(&["doctor", "--url", peers.origin("desk")]).await;
    assert_exit_code(&output, 0);
    assert_contains(
        &output.stdout,
        &["ok       library", "Help Desk answers at"],
    );
}

#[tokio::test]
async fn doctor_names_a_repair_for_an_unreachable_agent() {
    let peers = start_desk().await;
    let output = run(&["doctor", "--url", peers.origin("away")]).await;
    assert_exit_code(&output, 3);
    assert_contains(
        &output.stdout,
        &[
            "error    agent",
            "repair: Check that the agent, or the proxy that the message names, is running",
        ],
    );
}

/// Returns the output of the doctor for an agent with this card or these routes, and checks its exit code.
async fn diagnosis(peer: Value, options: &[&str], code: i32) -> String {
    let peers = Peers::start(&json!({"peers": {"desk": peer}}))
        .await
        .unwrap();
    let url = peers.origin("desk").to_owned();
    let output = run(&[&["doctor", "--url", &url], options].concat()).await;
    assert_exit_code(&output, code);
    output.stdout.clone()
}

#[tokio::test]
async fn doctor_names_each_address_of_a_missing_card() {
    let found = diagnosis(json!({"card": {"status": 404, "body": ""}}), &[], 3).await;
    assert_contains(
        &found,
        &[
            "no agent card was found; tried `http",
            "/.well-known/agent-card.json`",
            "/.well-known/agent.json`",
            "repair: ",
        ],
    );
}

#[tokio::test]
async fn doctor_distinguishes_a_page_from_a_card() {
    let page = json!({"headers": {"content-type": "text/html"}, "body": "<!doctype html>Sign in"});
    let routes = json!({"GET /.well-known/agent-card.json": page});
    let found = diagnosis(json!({ "routes": routes }), &[], 3).await;
    assert_contains(&found, &["not JSON (text/html", "repair: "]);
}

#[tokio::test]
async fn doctor_finds_an_unsupported_transport() {
    let mut card = card();
    card["preferredTransport"] = json!("GRPC");
    let found = diagnosis(json!({ "card": card }), &[], 1).await;
    assert_contains(&found, &["error    agent", "GRPC", "repair: "]);
}

#[tokio::test]
async fn doctor_finds_an_unsupported_version() {
    let interface =
        json!({"url": "{{origin}}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "9.0"});
    let mut card = card();
    card["supportedInterfaces"] = json!([interface]);
    for member in ["url", "protocolVersion", "preferredTransport"] {
        card.as_object_mut().unwrap().remove(member);
    }
    let found = diagnosis(json!({ "card": card }), &[], 1).await;
    assert_contains(&found, &["error    agent", "9.0", "repair: "]);
}

#[tokio::test]
async fn doctor_finds_a_credential_that_the_agent_refuses() {
    let interface =
        json!({"url": "{{origin}}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
    let mut card = card();
    card["supportedInterfaces"] = json!([interface]);
    let routes = json!({"POST /a2a": {"status": 401, "body": ""}});
    let found = diagnosis(json!({"card": card, "routes": routes}), &[], 1).await;
    assert_contains(&found, &["error    agent", "401", "repair: "]);
}

/// Version 0.3 has no list of tasks, so the doctor requests an unknown task.
#[tokio::test]
async fn doctor_finds_a_credential_that_an_agent_of_0_3_refuses() {
    let routes = json!({"POST /a2a/jsonrpc": {"status": 401, "body": ""}});
    let found = diagnosis(json!({"card": card(), "routes": routes}), &[], 1).await;
    assert_contains(&found, &["error    agent", "401", "repair: "]);
}

#[tokio::test]
async fn doctor_names_a_private_address_and_its_option() {
    let mut card = card();
    card["url"] = json!("http://169.254.169.254/a2a");
    let found = diagnosis(json!({ "card": card }), &[], 1).await;
    assert_contains(
        &found,
        &["169.254.169.254", "repair: ", "`--allow-private`"],
    );
}

#[tokio::test]
async fn doctor_without_network_reports_the_lookup() {
    let output = run(&["doctor", "--url", "http://desk.invalid"]).await;
    assert_exit_code(&output, 3);
    assert_contains(
        &output.stdout,
        &["desk.invalid", "repair: Check the host name"],
    );
}

#[tokio::test]
async fn doctor_reports_bad_tokens_without_printing_them() {
    let peers = start_desk().await;
    let expired = "e30.eyJleHAiOjE3MDAwMDAwMDB9.c2ln";
    let targets = json!([{"alias": "desk", "baseUrl": peers.origin("desk"), "auth": {"type": "bearer", "token": expired}}]);
    let file = scratch("doctor").join("agents.json");
    std::fs::write(&file, json!({ "targets": targets }).to_string()).unwrap();
    let child = command(&["doctor", "--json", "--config", file.to_str().unwrap()]).spawn();
    let output = wait_for_output(child.unwrap()).await;
    assert_exit_code(&output, 1);
    let findings: Value = serde_json::from_str(&output.stdout).unwrap();
    let of_secrets = |severity: &str| {
        let all = findings["findings"].as_array().unwrap();
        all.iter()
            .any(|f| f["check"] == "secrets" && f["severity"] == severity)
    };
    assert!(of_secrets("error") && of_secrets("warning"), "{findings:#}");
    assert!(!output.stdout.contains(expired), "{findings:#}");
}

#[tokio::test]
async fn doctor_finds_a_reference_outside_a_secret() {
    let file = scratch("misplaced").join("agents.json");
    let url = json!({"source": "env", "id": "PATH"});
    let config = json!({"targets": [{"alias": "desk", "baseUrl": url}]});
    std::fs::write(&file, config.to_string()).unwrap();
    let output = run(&["doctor", "--config", file.to_str().unwrap()]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stdout,
        &["error    configuration", "`/targets/0/baseUrl`", "repair: "],
    );
}

#[tokio::test]
async fn agent_that_allows_only_some_callers_is_named() {
    let peers = start_desk().await;
    let file = scratch("restricted").join("agents.json");
    let target = |alias: &str, more: Value| {
        let mut target = json!({"alias": alias, "baseUrl": peers.origin("desk")});
        target
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        target
    };
    let targets = [
        target("desk", json!({})),
        target("shop", json!({"allowedAgents": ["writer"]})),
    ];
    std::fs::write(&file, json!({ "targets": targets }).to_string()).unwrap();
    let config = ["--config", file.to_str().unwrap()];
    for subcommand in ["targets", "doctor"] {
        let output = run(&[&[subcommand], &config[..]].concat()).await;
        assert_exit_code(&output, 0);
        let printed = output.stdout + &output.stderr;
        assert_contains(
            &printed,
            &["shop: only for `writer`; name one with `--agent NAME`"],
        );
        let output = run(&[&[subcommand, "--agent", "writer"], &config[..]].concat()).await;
        let printed = output.stdout + &output.stderr;
        assert!(!printed.contains("only for"), "{printed}");
    }
}
