//! Flags, files and refusals of the command.

use std::fs;

use serde_json::{Value, json};

use crate::serve::plain::{ask, command, send};
use testkit::support::serve::Server;

/// How the command ends with these flags, and what it says then.
fn refused(flags: &[&str]) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    let args = [
        &["serve", "--executor", "scripted", "--state-dir", state],
        flags,
    ]
    .concat();
    let ended = command(&args);
    (
        ended.status.code(),
        String::from_utf8(ended.stderr).unwrap(),
    )
}

#[test]
fn what_others_could_reach_is_refused_without_clients_and_without_tls() {
    for (flags, says) in [
        (&["--listen", "0.0.0.0:0"][..], "clients add"),
        (&["--listen", "[::]:0"], "clients add"),
        (&["--behind-proxy", "--port", "0"], "clients add"),
        (
            &["--public-url", "https://agents.example", "--port", "0"],
            "clients add",
        ),
    ] {
        let (code, text) = refused(flags);
        assert_eq!(code, Some(2), "{flags:?}: {text}");
        assert!(text.contains(says), "{flags:?}: {text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_ends_with_2() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("wrong.json");
    fs::write(&file, json!({"limits": {"run": 1}}).to_string()).unwrap();
    for (flags, place) in [
        (&["--config", file.to_str().unwrap()][..], "/limits/run"),
        (&["--limit", "runs=0"], "/limits/runs"),
        (&["--session-id", "Two Words"], "/sessionId"),
        (&["--task-store", "postgres://x"], "/taskStore"),
        (&["--task-store-env", "NOT_SET_ANYWHERE"], "/taskStore"),
        (&["--trusted-proxy", "10.0.0.1"], "/trustedProxies"),
        (
            &["--tls-cert", "/none.pem", "--tls-key", "/none.pem"],
            "/tls/certFile",
        ),
        (&["--listen", "nowhere"], "/listen"),
    ] {
        let (code, text) = refused(flags);
        assert_eq!(code, Some(2), "{flags:?}: {text}");
        assert!(text.contains(&format!("`{place}`")), "{flags:?}: {text}");
    }
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, text) = refused(&["--port", &port, "--task-store", "memory"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--port 0"), "{text}");
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.json");
    let written = json!({"name": "From the file", "description": "Also", "taskStore": "memory"});
    fs::write(&file, written.to_string()).unwrap();
    let server = Server::scripted(&[
        "--config",
        file.to_str().unwrap(),
        "--name",
        "From the flag",
    ]);
    let card = ask(&server, "GET /.well-known/agent-card.json", &[], "").json();
    assert_eq!(card["name"], "From the flag");
    assert_eq!(card["description"], "Also");
    let api = ask(&server, "GET /api/tasks", &[], "").json();
    assert!(
        api["server"].as_str().unwrap().ends_with("tasks in memory"),
        "{api}"
    );
}

#[test]
fn tasks_are_kept_in_the_state_directory_and_are_there_after_a_new_start() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(send(&server, "echo kept", &[]).status, 200);
    assert!(server.stop().status.success());
    let server = Server::scripted(&["--state-dir", state]);
    let tasks = ask(&server, "GET /api/tasks", &[], "").json();
    assert_eq!(tasks["tasks"][0]["asked"], "echo kept");
}

#[test]
fn an_end_in_order_marks_what_ran_and_ends_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(send(&server, "slow", &[]).status, 200);
    assert!(server.stop().status.success());
    let server = Server::scripted(&["--state-dir", state]);
    let tasks = ask(&server, "GET /api/tasks", &[], "").json();
    assert_eq!(tasks["tasks"][0]["settled"], true, "{tasks}");
}

#[test]
fn a_token_is_printed_once_and_listed_never() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let run =
        |args: &[&str]| command(&[&["serve", "clients"], args, &["--state-dir", state]].concat());
    let added = run(&["add", "ada", "--json"]);
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    let token = added["token"].as_str().unwrap();
    assert!(token.len() > 40);
    let listed = run(&["list", "--json"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("\"ada\"") && !listed.contains(token),
        "{listed}"
    );
    assert_eq!(run(&["add", "ada"]).status.code(), Some(1));
    assert!(run(&["remove", "ada"]).status.success());
    assert_eq!(run(&["remove", "ada"]).status.code(), Some(1));
}

#[test]
fn the_log_is_json_where_that_is_asked_for() {
    let server = Server::scripted(&["--task-store", "memory", "--log", "json"]);
    ask(&server, "GET /", &["Host: rebound.example"], "");
    let log = server.stop().log;
    let refusal = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["fields"]["reason"] == "PERMISSION_DENIED");
    assert!(refusal.is_some(), "{log}");
}
