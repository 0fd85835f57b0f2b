//! `remote-agent doctor`.

use serde_json::{Value, json};

use testkit::conformance::peers::Peers;

use super::support::{
    assert_contains, assert_exit_code, card, config_file, run, run_subcommand, scratch, start_peer,
};
use crate::support::merge;

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
async fn card_at_the_origin_of_a_wrong_path_is_named() {
    let peers = start_desk().await;
    let origin = peers.origin("desk").trim_end_matches('/');
    let file = scratch("wrong-path").join("agents.json");
    let (url, file) = (format!("{origin}/wrong/path"), file.display().to_string());
    let shown = format!("card found at {origin}/.well-known/agent-card.json, not under {url}");
    for args in [
        &["targets", "--url", &url][..],
        &["doctor", "--url", &url],
        &["add", &url, "--config", &file],
    ] {
        let output = run(args).await;
        assert_exit_code(&output, 0);
        let all = output.stdout + &output.stderr;
        assert_eq!(all.matches(&shown).count(), 1, "{args:?}: {all}");
        assert!(!all.contains("warning"), "{args:?}: {all}");
        let right = run(&[args[0], "--url", origin]).await;
        assert!(!right.stdout.contains("card found at"), "{}", right.stdout);
    }
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

#[tokio::test]
async fn doctor_names_the_fault_of_an_agent_and_a_repair() {
    let page = json!({"headers": {"content-type": "text/html"}, "body": "<!doctype html>Sign in"});
    let with = |fields: Value| {
        let mut card = card();
        merge(&mut card, fields);
        card
    };
    let interface = |version: &str| json!([{"url": "{{origin}}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": version}]);
    let mut only_9 = with(json!({"supportedInterfaces": interface("9.0")}));
    for member in ["url", "protocolVersion", "preferredTransport"] {
        only_9.as_object_mut().unwrap().remove(member);
    }
    let with_1 = with(json!({"supportedInterfaces": interface("1.0")}));
    let refusal = json!({"status": 401, "body": ""});
    for (peer, code, parts) in [
        (
            json!({"card": {"status": 404, "body": ""}}),
            3,
            &[
                "no agent card was found; tried `http",
                "/.well-known/agent-card.json`",
                "/.well-known/agent.json`",
            ][..],
        ),
        (
            json!({"routes": {"GET /.well-known/agent-card.json": page}}),
            3,
            &["not JSON (text/html"],
        ),
        (
            json!({"card": with(json!({"preferredTransport": "GRPC"}))}),
            1,
            &["error    agent", "GRPC"],
        ),
        (json!({"card": only_9}), 1, &["error    agent", "9.0"]),
        (
            json!({"card": with_1, "routes": {"POST /a2a": refusal}}),
            1,
            &["error    agent", "401"],
        ),
        // Version 0.3 has no list of tasks, so the doctor requests an unknown task.
        (
            json!({"card": card(), "routes": {"POST /a2a/jsonrpc": refusal}}),
            1,
            &["error    agent", "401"],
        ),
        (
            json!({"card": with(json!({"url": "http://169.254.169.254/a2a"}))}),
            1,
            &["169.254.169.254", "`--allow-private`"],
        ),
    ] {
        let peers = start_peer(peer).await;
        let output = run_subcommand(&peers, "doctor", &[]).await;
        assert_exit_code(&output, code);
        assert_contains(&output.stdout, parts);
        assert_contains(&output.stdout, &["repair: "]);
    }
}

#[tokio::test]
async fn doctor_reports_an_unset_variable_once() {
    let peers = start_desk().await;
    let auth = json!({"type": "bearer", "token": {"source": "env", "id": "NO_SUCH_TOKEN"}});
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "auth": auth});
    let config = config_file("doctor-unset", &json!({ "targets": [target] }));
    let output = run(&["doctor", "--config", &config]).await;
    let errors = output
        .stdout
        .lines()
        .filter(|line| line.starts_with("error"));
    assert_eq!(errors.count(), 1, "{}", output.stdout);
    assert_contains(
        &output.stdout,
        &["repair: Set the variable `NO_SUCH_TOKEN`"],
    );
}

#[tokio::test]
async fn configuration_without_agents_is_named_as_such() {
    let config = config_file("doctor-empty", &json!({}));
    for args in [&["doctor"][..], &["send", "hi"], &["list"]] {
        let output = run(&[args, &["--config", &config]].concat()).await;
        assert_exit_code(&output, 2);
        let shown = output.stdout + &output.stderr;
        assert_contains(&shown, &["no agents are configured", "to `targets`"]);
    }
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
    let config = config_file("doctor", &json!({ "targets": targets }));
    let output = run(&["doctor", "--json", "--config", &config]).await;
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
    let url = json!({"source": "env", "id": "PATH"});
    let config = json!({"targets": [{"alias": "desk", "baseUrl": url}]});
    let config = config_file("misplaced", &config);
    let output = run(&["doctor", "--config", &config]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stdout,
        &["error    configuration", "`/targets/0/baseUrl`", "repair: "],
    );
}

#[tokio::test]
async fn agent_that_allows_only_some_callers_is_named() {
    let peers = start_desk().await;
    let url = peers.origin("desk");
    let targets = json!([
        {"alias": "desk", "baseUrl": url},
        {"alias": "shop", "baseUrl": url, "allowedAgents": ["writer"]},
    ]);
    let config = config_file("restricted", &json!({ "targets": targets }));
    let config = ["--config", &config];
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
