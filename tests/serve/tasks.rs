//! `remote-agent serve tasks` with and without a running server.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::serve::plain::{call, client, command, message_params, send};
use testkit::support::serve::Server;

fn tasks(state: &str, args: &[&str]) -> Output {
    command(&[&["serve", "tasks"], args, &["--state-dir", state]].concat())
}

/// Returns the list with these flags.
fn listed(state: &str, flags: &[&str]) -> Vec<Value> {
    let listed = tasks(state, &[&["list", "--json"], flags].concat());
    assert!(listed.status.success(), "{listed:?}");
    let lines = String::from_utf8(listed.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the task with the message `text`.
fn start_task(server: &Server, text: &str) -> String {
    let task = call(server, "SendMessage", &message_params(text, true))["result"]["task"].take();
    task["id"].as_str().unwrap().to_owned()
}

fn code_of(server: &Server, task: &str) -> Value {
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
    let all = listed(state, &[]);
    // The last changed first.
    let ids: Vec<_> = all.iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, [answer, &json!(question)]);
    let completed = listed(state, &["--state", "completed"]);
    assert_eq!(completed.len(), 1);
    assert_eq!(completed[0]["asked"], "echo blue");
}

#[test]
fn deleted_task_is_gone_from_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let (gone, kept) = (
        start_task(&server, "slow"),
        start_task(&server, "ask which colour"),
    );
    let deleted = tasks(state, &["delete", &gone]);
    assert!(deleted.status.success(), "{deleted:?}");
    assert_eq!(code_of(&server, &gone), -32001);
    assert_eq!(code_of(&server, &kept), Value::Null);
    let remaining = listed(state, &[]);
    assert_eq!((remaining.len(), &remaining[0]["id"]), (1, &json!(kept)));
    let again = tasks(state, &["delete", &gone]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains(&format!("unknown task `{gone}`")));
}

#[test]
fn command_works_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let (gone, kept) = (
        start_task(&server, "ask one"),
        start_task(&server, "ask two"),
    );
    assert!(server.stop().status.success());
    assert_eq!(listed(state, &["--state", "input-required"]).len(), 2);
    assert!(tasks(state, &["delete", &gone]).status.success());
    assert_eq!(listed(state, &[])[0]["id"], kept);
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(code_of(&server, &gone), -32001);
    assert_eq!(code_of(&server, &kept), Value::Null);
}

#[test]
fn killed_server_frees_its_directory() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let server = Server::scripted(&["--state-dir", state]);
    let task = start_task(&server, "begun well");
    server.kill();
    server.ended();
    assert_eq!(listed(state, &[])[0]["id"], task);
}

#[test]
fn task_commands_need_operator_token() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let ada = client(folder.path(), "ada", &[]);
    let operator = client(folder.path(), "me", &["--operator"]);
    let server = Server::scripted(&["--state-dir", state]);
    assert_eq!(send(&server, "echo a", &[&ada]).status, 200);
    let refused = tasks(state, &["list"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--bearer-env"));
    assert_eq!(with_token(folder.path(), &ada).status.code(), Some(4));
    let shown = with_token(folder.path(), &operator);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["client"], "ada");
}

/// Requests the list with this header.
fn with_token(state: &Path, header: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_remote-agent"))
        .args([
            "serve",
            "tasks",
            "list",
            "--json",
            "--bearer-env",
            "TOKEN",
            "--state-dir",
        ])
        .arg(state)
        .env("TOKEN", header.rsplit(' ').next().unwrap())
        .output()
        .unwrap()
}
