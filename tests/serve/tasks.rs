//! `remote-agent serve tasks` with and without a running server.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::cli::support::words;
use crate::serve::http_client::{call, client, command, message_params, send};
use testkit::authority::Authority;
use testkit::support::serve::Server;

fn tasks_command(state: &str, args: &[&str]) -> Output {
    command(&[&["serve", "tasks"], args, &["--state-dir", state]].concat())
}

/// Lists tasks with these flags.
fn list_tasks(state: &str, flags: &[&str]) -> Vec<Value> {
    let output = tasks_command(state, &[&["list", "--json"], flags].concat());
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Starts a task with the message `text`, and returns its id.
fn start_task(server: &Server, text: &str) -> String {
    let task = call(server, "SendMessage", &message_params(text, true))["result"]["task"].take();
    task["id"].as_str().unwrap().to_owned()
}

fn error_code(server: &Server, task: &str) -> Value {
    call(server, "GetTask", &json!({"id": task}))["error"]["code"].clone()
}

#[test]
fn command_lists_tasks_of_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let question = start_task(&server, "ask which colour");
    let answer = call(&server, "SendMessage", &message_params("echo blue", false));
    let answer = &answer["result"]["task"]["id"];
    let all = list_tasks(state, &[]);
    // The last changed first.
    let ids: Vec<_> = all.iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, [answer, &json!(question)]);
    let completed = list_tasks(state, &["--state", "completed"]);
    assert_eq!(completed.len(), 1);
    assert_eq!(completed[0]["asked"], "echo blue");
}

#[test]
fn private_certificate_of_a_server_is_trusted_by_option() {
    let authority = Authority::new();
    authority.signed("127.0.0.1");
    let [ca, certificate, key] = ["ca.pem", "127.0.0.1.pem", "127.0.0.1.key"]
        .map(|name| authority.file(name).to_str().unwrap().to_owned());
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let files = ["--tls-cert", &certificate, "--tls-key", &key];
    let _server = Server::scripted(&[&files[..], &["--state-dir", state]].concat());
    let untrusted = tasks_command(state, &["list"]);
    assert_eq!(untrusted.status.code(), Some(3), "{untrusted:?}");
    let message = String::from_utf8(untrusted.stderr).unwrap();
    assert!(message.contains("`--ca-file FILE`"), "{message}");
    let trusted = tasks_command(state, &["list", "--ca-file", &ca]);
    assert!(trusted.status.success(), "{trusted:?}");
    let missing = tasks_command(state, &["list", "--ca-file", "/none.pem"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn deleted_task_is_unknown_to_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let (deleted_id, kept_id) = (
        start_task(&server, "slow"),
        start_task(&server, "ask which colour"),
    );
    let deleted = tasks_command(state, &["delete", &deleted_id]);
    assert!(deleted.status.success(), "{deleted:?}");
    assert_eq!(error_code(&server, &deleted_id), -32001);
    assert_eq!(error_code(&server, &kept_id), Value::Null);
    let remaining = list_tasks(state, &[]);
    assert_eq!((remaining.len(), &remaining[0]["id"]), (1, &json!(kept_id)));
    let repeated = tasks_command(state, &["delete", &deleted_id]);
    assert_eq!(repeated.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&repeated.stderr).contains(&format!("unknown task `{deleted_id}`"))
    );
}

#[test]
fn command_works_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let (deleted_id, kept_id) = (
        start_task(&server, "ask one"),
        start_task(&server, "ask two"),
    );
    assert!(server.stop().status.success());
    assert_eq!(list_tasks(state, &["--state", "input-required"]).len(), 2);
    assert!(
        tasks_command(state, &["delete", &deleted_id])
            .status
            .success()
    );
    assert_eq!(list_tasks(state, &[])[0]["id"], kept_id);
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(error_code(&server, &deleted_id), -32001);
    assert_eq!(error_code(&server, &kept_id), Value::Null);
}

#[test]
fn killed_server_frees_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let task = start_task(&server, "begun well");
    server.kill();
    server.wait_for_exit();
    assert_eq!(list_tasks(state, &[])[0]["id"], task);
}

#[test]
fn task_commands_need_operator_token() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let ada = client(folder.path(), "ada", &[]);
    let operator = client(folder.path(), "me", &["--operator"]);
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(send(&server, "echo a", &[&ada]).status, 200);
    let refused = tasks_command(state, &["list"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--bearer-env"));
    assert_eq!(list_with_token(folder.path(), &ada).status.code(), Some(4));
    let output = list_with_token(folder.path(), &operator);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["client"], "ada");
}

/// Requests the list with this header.
fn list_with_token(state: &Path, header: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_remote-agent"))
        .args(words(
            "serve tasks list --json --bearer-env TOKEN --state-dir",
        ))
        .arg(state)
        .env("TOKEN", header.rsplit(' ').next().unwrap())
        .output()
        .unwrap()
}
