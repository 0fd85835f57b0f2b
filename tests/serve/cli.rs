//! Flags, files and errors of the command.

use std::fs;

use serde_json::{Value, json};

use crate::cli::support::words;
use crate::serve::http_client::{client, command, exchange, send};
use testkit::support::serve::Server;

/// Returns the exit code and the output of the command with these flags.
fn run_serve(flags: &[&str]) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap();
    let serve = ["serve", "--executor", "scripted", "--state-dir", state];
    let output = command(&[&serve, flags].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), text)
}

#[test]
fn public_address_needs_clients_and_tls() {
    for flags in [
        "--listen 0.0.0.0:0",
        "--listen [::]:0",
        "--behind-proxy --port 0",
        "--public-url https://agents.example --port 0",
    ] {
        let (code, text) = run_serve(&words(flags));
        assert_eq!(code, Some(2), "{flags}: {text}");
        assert!(text.contains("clients add"), "{flags}: {text}");
    }
}

#[test]
fn invalid_configuration_exits_with_2() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("invalid.json");
    fs::write(&file, json!({"limits": {"run": 1}}).to_string()).unwrap();
    let config = format!("--config '{}'", file.display());
    for (flags, place) in [
        (&*config, "/limits/run"),
        ("--limit runs=0", "/limits/runs"),
        ("--session-id 'Two Words'", "/sessionId"),
        ("--task-store postgres://x", "/taskStore"),
        ("--task-store-env NOT_SET_ANYWHERE --port 0", "/taskStore"),
        ("--trusted-proxy 10.0.0.1", "/trustedProxies"),
        ("--tls-cert /none.pem --tls-key /none.pem", "/tls/certFile"),
        ("--listen nowhere", "/listen"),
    ] {
        let (code, text) = run_serve(&words(flags));
        assert_eq!(code, Some(2), "{flags}: {text}");
        assert!(text.contains(&format!("`{place}`")), "{flags}: {text}");
    }
}

#[test]
fn used_port_is_reported_with_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let (code, text) = run_serve(&["--port", &port, "--task-store", "memory"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--port 0"), "{text}");
}

#[test]
fn flag_overrides_file_and_file_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.json");
    let file_config =
        json!({"name": "From the file", "description": "Also", "taskStore": "memory"});
    fs::write(&file, file_config.to_string()).unwrap();
    let flags = format!("--config '{}' --name 'From the flag'", file.display());
    let server = Server::scripted(&words(&flags));
    let card = exchange(&server, "GET /.well-known/agent-card.json", &[], "").json();
    assert_eq!(card["name"], "From the flag");
    assert_eq!(card["description"], "Also");
    let api = exchange(&server, "GET /api/tasks", &[], "").json();
    assert!(
        api["server"].as_str().unwrap().ends_with("tasks in memory"),
        "{api}"
    );
}

#[test]
fn graceful_shutdown_marks_runs_and_exits_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(send(&server, "slow", &[]).status, 200);
    assert!(server.stop().status.success());
    let server = Server::scripted(&["--state-dir", state]);
    let tasks = exchange(&server, "GET /api/tasks", &[], "").json();
    assert_eq!(tasks["tasks"][0]["settled"], true, "{tasks}");
}

#[test]
fn token_is_printed_once() {
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
fn log_has_a_line_per_request_and_task_without_contents() {
    let state = tempfile::tempdir().unwrap();
    let ada = client(state.path(), "ada", &[]);
    let folder = state.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", folder, "--log-format", "json"]);
    assert_eq!(send(&server, "ask secret question", &[&ada]).status, 200);
    exchange(&server, "GET /x\u{1b}[31m", &[&ada], "");
    let log = server.stop().log;
    assert!(
        !log.contains("secret question") && !log.contains('\u{1b}'),
        "{log}"
    );
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let find = |message: &str, field: &str, value: &str| {
        let mut fields = lines.iter().map(|line| &line["fields"]);
        fields.find(|fields| fields["message"] == message && fields[field] == value)
    };
    let request = find("request", "method", "SendMessage");
    let request = request.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(request["client"], "ada", "{request}");
    assert_eq!(request["status"], 200, "{request}");
    assert!(request["ms"].is_u64(), "{request}");
    let task = find("task", "state", "input-required");
    let task = task.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(task["task"], request["task"], "{task}");
    assert_eq!(task["client"], "ada", "{task}");
}

#[test]
fn client_commands_name_a_server_that_started_without_clients() {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", folder]);
    for arguments in [&["add", "ada"][..], &["rotate", "ada"], &["remove", "ada"]] {
        let output =
            command(&[&["serve", "clients"], arguments, &["--state-dir", folder]].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        let expected = format!("the server at {}/ started without clients", server.url());
        assert!(text.contains(&expected), "{arguments:?}: {text}");
    }
}

#[test]
fn client_of_the_configuration_is_not_added_again() {
    let state = tempfile::tempdir().unwrap();
    let folder = state.path().to_str().unwrap();
    client(state.path(), "ada", &[]);
    let config = state.path().join("serve.json");
    std::fs::rename(state.path().join("clients.json"), &config).unwrap();
    let add = ["serve", "clients", "add", "ada", "--state-dir", folder];
    let output = command(&[&add[..], &["--config", config.to_str().unwrap()]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("`ada` is in the configuration already"),
        "{text}"
    );
    assert!(output.stdout.is_empty() && !state.path().join("clients.json").exists());
}

#[test]
fn log_format_json_writes_json() {
    let server = Server::scripted(&["--task-store", "memory", "--log", "json"]);
    exchange(&server, "GET /", &["Host: rebound.example"], "");
    let log = server.stop().log;
    let refusal = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["fields"]["reason"] == "PERMISSION_DENIED");
    assert!(refusal.is_some(), "{log}");
}
