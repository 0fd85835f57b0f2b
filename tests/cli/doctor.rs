//! `remote-agent doctor`.

use serde_json::{Value, json};

use super::support::{card, command, exits, has, run, scratch};
use crate::cli::process::end;
use testkit::conformance::peers::Peers;

async fn desk() -> Peers {
    let script = json!({"peers": {"desk": {"card": card()}, "away": {"unreachable": true}}});
    Peers::start(&script).await.unwrap()
}

#[tokio::test]
async fn doctor_finds_no_fault_in_a_reachable_agent() {
    let peers = desk().await;
    let ended = run(&["doctor", "--url", peers.origin("desk")]).await;
    exits(&ended, 0);
    has(&ended.stdout, &["ok       library", "Help Desk answers at"]);
}

#[tokio::test]
async fn doctor_names_a_repair_for_an_unreachable_agent() {
    let peers = desk().await;
    let ended = run(&["doctor", "--url", peers.origin("away")]).await;
    exits(&ended, 3);
    has(
        &ended.stdout,
        &["error    agent", "repair: Check that the agent is running"],
    );
}

#[tokio::test]
async fn doctor_finds_expired_and_plaintext_tokens_without_printing_them() {
    let peers = desk().await;
    let expired = "e30.eyJleHAiOjE3MDAwMDAwMDB9.c2ln";
    let targets = json!([{"alias": "desk", "baseUrl": peers.origin("desk"), "auth": {"type": "bearer", "token": expired}}]);
    let file = scratch("doctor").join("agents.json");
    std::fs::write(&file, json!({ "targets": targets }).to_string()).unwrap();
    let child = command(&["doctor", "--json", "--config", file.to_str().unwrap()]).spawn();
    let ended = end(child.unwrap()).await;
    exits(&ended, 1);
    let findings: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of_secrets = |severity: &str| {
        let all = findings["findings"].as_array().unwrap();
        all.iter()
            .any(|f| f["check"] == "secrets" && f["severity"] == severity)
    };
    assert!(of_secrets("error") && of_secrets("warning"), "{findings:#}");
    assert!(!ended.stdout.contains(expired), "{findings:#}");
}
