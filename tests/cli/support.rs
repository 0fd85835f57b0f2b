//! The command as a process, and a scripted peer for it to call.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::cli::process::{ProcessOutput, wait_for_output};
use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for variable in [
        "REMOTE_AGENT_LIBRARY",
        "REMOTE_AGENT_CONFIG",
        "NO_COLOR",
        "OPENCLAW_CONFIG_PATH",
    ] {
        command.env_remove(variable);
    }
    // The machine may have an OpenClaw, whose settings are the default.
    let state_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-openclaw");
    command.env("OPENCLAW_STATE_DIR", state_dir);
    command
}

pub(crate) async fn run(args: &[&str]) -> ProcessOutput {
    wait_for_output(command(args).spawn().unwrap()).await
}

/// Runs a command whose standard input is a pipe with this text.
pub(crate) async fn run_with_input(args: &[&str], typed: &str) -> ProcessOutput {
    let mut child = command(args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(typed.as_bytes()).unwrap();
    drop(stdin);
    wait_for_output(child).await
}

/// Returns the words of a command line, which may be in single quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let pieces = line.split('\'').enumerate();
    pieces
        .flat_map(|(index, piece)| match index % 2 {
            0 => piece.split_whitespace().collect(),
            _ => vec![piece],
        })
        .collect()
}

/// Runs a command line without the name of the command.
pub(crate) async fn run_line(line: &str) -> ProcessOutput {
    run(&words(line)).await
}

/// Runs a command with a variable of the environment.
pub(crate) async fn run_with_env(args: &[&str], (name, value): (&str, &str)) -> ProcessOutput {
    wait_for_output(command(args).env(name, value).spawn().unwrap()).await
}

/// Writes a configuration into an empty directory for one test, and returns its path.
pub(crate) fn config_file(test: &str, config: &Value) -> String {
    let file = scratch(test).join("config.json");
    fs::write(&file, config.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Returns an empty directory for one test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

pub(crate) fn text_parts(text: &str) -> Value {
    json!([{"kind": "text", "text": text}])
}

pub(crate) fn message(reply: &str) -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "agent", "contextId": "ctx-1", "parts": text_parts(reply)})
}

pub(crate) fn task(state: &str, fields: Value) -> Value {
    let mut task =
        json!({"kind": "task", "id": "task-1", "contextId": "ctx-1", "status": {"state": state}});
    let members = task.as_object_mut().unwrap();
    members.extend(fields.as_object().unwrap().clone());
    task
}

pub(crate) fn status(state: &str, reply: &str) -> Value {
    let reply =
        json!({"kind": "message", "messageId": "m-2", "role": "agent", "parts": text_parts(reply)});
    json!({"kind": "status-update", "taskId": "task-1", "contextId": "ctx-1", "final": state == "completed",
        "status": {"state": state, "message": reply}})
}

pub(crate) fn artifact_update(reply: &str, append: bool) -> Value {
    let artifact = json!({"artifactId": "a-1", "name": "report", "parts": text_parts(reply)});
    json!({"kind": "artifact-update", "taskId": "task-1", "contextId": "ctx-1", "append": append, "artifact": artifact})
}

pub(crate) fn results<const N: usize>(values: [Value; N]) -> Value {
    values
        .into_iter()
        .map(|result| json!({"result": result}))
        .collect()
}

pub(crate) fn sse_stream<const N: usize>(events: [Value; N]) -> Value {
    json!([{"sse": results(events)}])
}

pub(crate) fn card() -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Help Desk", "description": "Helps.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "triage", "name": "Triage", "description": "Sorts.", "tags": []}],
    })
}

/// Returns a peer with the usual card that answers these methods.
pub(crate) async fn start_desk(rpc: Value) -> Peers {
    start_peer(json!({"card": card(), "rpc": rpc})).await
}

pub(crate) async fn start_peer(desk: Value) -> Peers {
    let script = json!({"peers": {"desk": desk}});
    Peers::start(&script).await.unwrap()
}

/// Returns the last message that the desk received.
pub(crate) fn last_message(peers: &Peers) -> Value {
    let last = peers.log("desk").pop().unwrap();
    last.body.unwrap()["params"]["message"].take()
}

/// Runs a subcommand with the desk as its `--url`.
pub(crate) async fn run_subcommand(
    peers: &Peers,
    subcommand: &str,
    args: &[&str],
) -> ProcessOutput {
    let url = ["--url", peers.origin("desk")];
    run(&[&[subcommand], &url[..], args].concat()).await
}

pub(crate) fn json_lines(output: &ProcessOutput) -> Vec<Value> {
    let lines = output.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[track_caller]
pub(crate) fn assert_exit_code(output: &ProcessOutput, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

#[track_caller]
pub(crate) fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[cfg(unix)]
pub(crate) fn interrupt(child: &std::process::Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}
