//! The command as people and scripts use it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/process.rs"]
mod process;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use openclaw_remote_agent::conformance::peers::Peers;
use process::{Ended, end};
use serde_json::{Value, json};

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for variable in ["REMOTE_AGENT_LIBRARY", "REMOTE_AGENT_CONFIG", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
}

async fn run(args: &[&str]) -> Ended {
    end(command(args).spawn().unwrap()).await
}

/// An empty directory of this test's own.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cli")
        .join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn text(text: &str) -> Value {
    json!([{"kind": "text", "text": text}])
}

fn message(said: &str) -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "agent", "contextId": "ctx-1", "parts": text(said)})
}

fn task(state: &str, more: Value) -> Value {
    let mut task =
        json!({"kind": "task", "id": "task-1", "contextId": "ctx-1", "status": {"state": state}});
    let fields = task.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    task
}

fn status(state: &str, said: &str) -> Value {
    let said = json!({"kind": "message", "messageId": "m-2", "role": "agent", "parts": text(said)});
    json!({"kind": "status-update", "taskId": "task-1", "contextId": "ctx-1", "final": state == "completed",
        "status": {"state": state, "message": said}})
}

fn chunk(said: &str, append: bool) -> Value {
    let artifact = json!({"artifactId": "a-1", "name": "report", "parts": text(said)});
    json!({"kind": "artifact-update", "taskId": "task-1", "contextId": "ctx-1", "append": append, "artifact": artifact})
}

fn results<const N: usize>(all: [Value; N]) -> Value {
    all.into_iter()
        .map(|result| json!({"result": result}))
        .collect()
}

fn stream<const N: usize>(all: [Value; N]) -> Value {
    json!([{"sse": results(all)}])
}

fn card() -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Help Desk", "description": "Helps.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "triage", "name": "Triage", "description": "Sorts.", "tags": []}],
    })
}

/// A peer with the usual card that answers these methods.
async fn desk(rpc: Value) -> Peers {
    peer(json!({"card": card(), "rpc": rpc})).await
}

async fn peer(desk: Value) -> Peers {
    let script = json!({"peers": {"desk": desk}});
    Peers::start(&script).await.unwrap()
}

/// The message that the desk received last.
fn received(peers: &Peers) -> Value {
    let last = peers.log("desk").pop().unwrap();
    last.body.unwrap()["params"]["message"].take()
}

/// Runs a subcommand with the desk as its `--url`.
async fn ask(peers: &Peers, subcommand: &str, args: &[&str]) -> Ended {
    let url = ["--url", peers.origin("desk")];
    run(&[&[subcommand], &url[..], args].concat()).await
}

fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[track_caller]
fn exits(ended: &Ended, code: i32) {
    assert_eq!(ended.status.code(), Some(code), "{ended:?}");
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[tokio::test]
async fn an_answer_goes_to_standard_output_and_nothing_else_does() {
    let peers = desk(json!({"message/send": results([message("All is well.")])})).await;
    let ended = ask(&peers, "send", &["Is", "the shop", "down?"]).await;
    exits(&ended, 0);
    assert_eq!(ended.stdout, "All is well.\n");
    let sent = received(&peers)["parts"].take();
    assert_eq!(sent, text("Is the shop down?"));
    let again = format!("send --url {} --context ctx-1 'TEXT'", peers.origin("desk"));
    has(&ended.stderr, &[&again]);
}

#[tokio::test]
async fn files_and_data_are_parts_of_their_own() {
    let peers = desk(json!({"message/send": results([message("Thanks.")])})).await;
    let file = scratch("parts").join("notes.txt");
    fs::write(&file, "hello").unwrap();
    let file = file.to_str().unwrap();
    let ended = ask(
        &peers,
        "send",
        &[
            "--file",
            file,
            "--file",
            "https://files.example/a.pdf",
            "--data",
            r#"{"ticket":7}"#,
        ],
    )
    .await;
    exits(&ended, 0);
    let sent = received(&peers)["parts"].take();
    assert_eq!(
        sent,
        json!([
            {"kind": "file", "file": {"bytes": "aGVsbG8=", "name": "notes.txt", "mimeType": "text/plain"}},
            {"kind": "file", "file": {"uri": "https://files.example/a.pdf", "name": "a.pdf", "mimeType": "application/pdf"}},
            {"kind": "data", "data": {"ticket": 7}},
        ])
    );
}

#[tokio::test]
async fn a_followed_task_shows_its_states_and_its_artifact_once() {
    let events = [
        task("submitted", json!({})),
        status("working", "reading the log"),
        chunk("One line\nand ", false),
        chunk("another", true),
        task(
            "completed",
            json!({"artifacts": [{"artifactId": "a-1", "parts": text("One line\nand another")}]}),
        ),
    ];
    let peers = desk(json!({"message/stream": stream(events)})).await;
    let ended = ask(&peers, "send", &["--follow", "go"]).await;
    exits(&ended, 0);
    assert_eq!(ended.stdout, "One line\nand another\n");
    has(
        &ended.stderr,
        &[
            "submitted\n",
            "working: reading the log\n",
            "task task-1 of target: completed\n",
        ],
    );
}

#[tokio::test]
async fn updates_and_the_envelope_are_lines_of_json() {
    let events = [
        task("working", json!({})),
        chunk("Done", false),
        status("completed", "bye"),
    ];
    let peers = desk(json!({"message/stream": stream(events)})).await;
    let ended = ask(&peers, "send", &["--follow", "--json", "go"]).await;
    exits(&ended, 0);
    let lines = lines(&ended);
    let phases: Vec<_> = lines.iter().map(|line| line["phase"].as_str()).collect();
    assert_eq!(
        phases,
        [Some("update"), Some("update"), Some("update"), None]
    );
    assert_eq!(lines[3]["summary"]["message_text"], "Done");
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn a_continuation_is_kept_for_this_user_and_read_back_by_later_commands() {
    let asks = task(
        "input-required",
        json!({"status": {"state": "input-required", "message": message("Publish it?")}}),
    );
    let done = json!({"artifacts": [{"artifactId": "a-1", "parts": text("Published.")}]});
    let peers = desk(json!({
        "message/send": results([asks.clone(), task("completed", done)]),
        "tasks/get": results([asks]),
        "tasks/cancel": results([task("canceled", json!({}))]),
        "tasks/resubscribe": stream([status("completed", "over")]),
    }))
    .await;
    let file = scratch("continuation").join("task one.json");
    let path = file.to_str().unwrap();

    let first = ask(&peers, "send", &["--save", path, "Write it"]).await;
    exits(&first, 0);
    assert_eq!(first.stdout, "Publish it?\n");
    let again = format!(
        "--url {} --continuation '{path}' 'YOUR ANSWER'",
        peers.origin("desk")
    );
    has(&first.stderr, &["input-required", &again]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    // The file alone says where to go.
    for (subcommand, said) in [
        ("status", "Publish it?\n"),
        ("watch", "over\n"),
        ("cancel", ""),
    ] {
        let ended = run(&[subcommand, "--continuation", path]).await;
        exits(&ended, 0);
        assert_eq!(ended.stdout, said, "{subcommand}");
    }
    let answered = run(&["send", "--continuation", path, "Yes"]).await;
    exits(&answered, 0);
    assert_eq!(answered.stdout, "Published.\n");
    let sent = received(&peers);
    assert_eq!(
        (&sent["taskId"], &sent["contextId"]),
        (&json!("task-1"), &json!("ctx-1"))
    );
}

#[tokio::test]
async fn a_task_is_found_by_its_id_and_the_configured_alias() {
    let peers = desk(json!({"tasks/get": results([task("working", json!({}))])})).await;
    let config = scratch("task-id").join("agents.json");
    let targets = json!([{"alias": "my desk", "baseUrl": peers.origin("desk")}]);
    fs::write(&config, json!({"targets": targets}).to_string()).unwrap();
    let config = config.to_str().unwrap();
    let ended = run(&[
        "status", "--config", config, "--target", "my desk", "--task", "task-1",
    ])
    .await;
    exits(&ended, 0);
    let options = format!("--config {config} --target 'my desk' --task task-1");
    has(
        &ended.stderr,
        &[
            "task task-1 of my desk: working",
            &format!("watch {options}"),
            &format!("cancel {options}"),
        ],
    );
}

#[tokio::test]
async fn targets_are_a_plain_table_where_there_is_no_terminal() {
    let script = json!({"peers": {"desk": {"card": card()}, "gone": {"unreachable": true}}});
    let peers = Peers::start(&script).await.unwrap();
    let config = scratch("targets").join("agents.json");
    let targets = json!([
        {"alias": "desk", "baseUrl": peers.origin("desk"), "default": true},
        {"alias": "gone", "baseUrl": peers.origin("gone")},
    ]);
    fs::write(&config, json!({"targets": targets}).to_string()).unwrap();
    let config = config.to_str().unwrap();
    let ended = run(&["targets", "--config", config]).await;
    exits(&ended, 0);
    let rows: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["ALIAS", "NAME", "ADDRESS", "STREAMING", "SKILLS", "CARD"]
    );
    let address = |name: &str| format!("{}/", peers.origin(name));
    assert_eq!(
        rows[1],
        [
            "desk",
            "(default)",
            "Help",
            "Desk",
            &address("desk"),
            "yes",
            "Triage",
            "ok"
        ]
    );
    assert_eq!(rows[2], ["gone", "?", &address("gone"), "?", "unreachable"]);
    has(&ended.stdout, &["\ngone: ", "\nwhat to do: "]);
    assert!(ended.stdout.is_ascii(), "no lines drawn: {}", ended.stdout);

    let ended = run(&["targets", "--config", config, "--json"]).await;
    let lines = lines(&ended);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["summary"]["targets"][0]["target_alias"], "desk");
}

#[tokio::test]
async fn an_agent_cannot_drive_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{1b}[0m\r\u{8}";
    let mut bad = card();
    bad["name"] = json!(evil);
    bad["skills"][0]["name"] = json!(evil);
    let events = [
        task("working", json!({})),
        status("working", evil),
        chunk(evil, false),
        status("completed", evil),
    ];
    let rpc = json!({
        "message/stream": stream(events),
        "message/send": [{"error": {"code": -32000, "message": evil}}],
    });
    let peers = peer(json!({"card": bad, "rpc": rpc})).await;
    for (subcommand, args) in [
        ("targets", &[][..]),
        ("send", &["--follow", "go"][..]),
        ("send", &["go"][..]),
    ] {
        let ended = ask(&peers, subcommand, args).await;
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        has(&shown, &["red"]);
        let controls: Vec<_> = shown
            .chars()
            .filter(|c| c.is_control() && *c != '\n')
            .collect();
        assert!(controls.is_empty(), "{controls:?} in {ended:?}");
    }
}

#[tokio::test]
async fn a_task_id_cannot_smuggle_a_command_into_the_advice() {
    let mut evil = task("working", json!({}));
    evil["id"] = json!("x; reboot '");
    let peers = desk(json!({"message/send": results([evil])})).await;
    let ended = ask(&peers, "send", &["go"]).await;
    has(&ended.stderr, &[r"--task 'x; reboot '\'''"]);
}

#[tokio::test]
async fn what_the_peer_says_against_it_is_a_failure() {
    let peers =
        desk(json!({"message/send": [{"error": {"code": -32000, "message": "not today"}}]})).await;
    let ended = ask(&peers, "send", &["hi"]).await;
    exits(&ended, 1);
    assert_eq!(ended.stdout, "");
    has(&ended.stderr, &["error: ", "not today", "what to do: "]);
}

#[tokio::test]
async fn a_wrong_command_line_is_told_with_what_is_wrong() {
    for (args, told) in [
        (&["send"][..], "<TEXT>..."),
        (&["send", "--data", "[]", "hi"], "it is not a JSON object"),
        (&["send", "hi"], "remote-agent help send"),
        (&["send", "hi", "--bearer-env", "X"], "--url"),
        (&["send", "hi", "--url", "nonsense"], "/targets/0/baseUrl"),
        (
            &[
                "send",
                "hi",
                "--file",
                "/nowhere/x",
                "--url",
                "http://127.0.0.1:1",
            ],
            "/nowhere/x",
        ),
        (&["status"], "--continuation FILE"),
        (
            &["watch", "--continuation", "/nowhere/task.json"],
            "/nowhere/task.json",
        ),
        (&["frobnicate"], "frobnicate"),
    ] {
        let ended = run(args).await;
        exits(&ended, 2);
        has(&ended.stderr, &[told]);
        assert_eq!(ended.stdout, "", "{args:?}");
    }
}

#[tokio::test]
async fn a_peer_that_is_not_there_is_unreachable() {
    let peers = peer(json!({"unreachable": true})).await;
    let ended = ask(&peers, "send", &["hi"]).await;
    exits(&ended, 3);
    has(&ended.stderr, &["cannot connect", "what to do: "]);
    exits(
        &ask(&peers, "status", &["--task", "task-1", "--json"]).await,
        3,
    );
}

#[tokio::test]
async fn a_peer_that_wants_a_token_gets_it_from_the_environment() {
    let peers =
        desk(json!({"message/send": [{"status": 401}, {"result": message("Welcome.")}]})).await;
    exits(&ask(&peers, "send", &["hi"]).await, 4);
    let url = peers.origin("desk");
    let child = command(&["send", "hi", "--url", url, "--bearer-env", "DESK_TOKEN"])
        .env("DESK_TOKEN", "s3cret-token")
        .spawn();
    let ended = end(child.unwrap()).await;
    exits(&ended, 0);
    let log = peers.log("desk");
    assert_eq!(
        log.last().unwrap().headers["authorization"],
        "Bearer s3cret-token"
    );
    assert!(!format!("{ended:?}").contains("s3cret"), "{ended:?}");
    has(&ended.stderr, &["--bearer-env DESK_TOKEN"]);
    let unset = run(&[
        "send",
        "hi",
        "--url",
        url,
        "--bearer-env",
        "REMOTE_AGENT_NO_SUCH",
    ])
    .await;
    exits(&unset, 2);
    has(&unset.stderr, &["REMOTE_AGENT_NO_SUCH"]);
}

#[tokio::test]
async fn a_peer_that_says_nothing_runs_out_of_time() {
    let peers = desk(json!({"message/send": [{"delay_ms": 3_600_000, "result": {}}]})).await;
    exits(
        &ask(&peers, "send", &["hi", "--timeout-ms", "200"]).await,
        5,
    );
}

#[tokio::test]
async fn a_cut_stream_still_shows_what_came_and_how_to_go_on() {
    let events = results([task("working", json!({})), chunk("Half of ", false)]);
    let cut = json!([{"sse": events, "end": "destroy"}]);
    let peers = desk(json!({"message/stream": cut})).await;
    let file = scratch("cut").join("task.json");
    let path = file.to_str().unwrap();
    let ended = ask(&peers, "send", &["--follow", "--save", path, "go"]).await;
    exits(&ended, 1);
    assert_eq!(ended.stdout, "Half of \n");
    let watch = format!(
        "remote-agent watch --url {} --continuation {path}",
        peers.origin("desk")
    );
    has(&ended.stderr, &["error: the stream broke off", &watch]);
    assert!(file.exists());
}

#[cfg(unix)]
#[tokio::test]
async fn an_interrupt_ends_a_call_with_its_outcome() {
    let peers = desk(json!({"message/send": [{"delay_ms": 3_600_000, "result": {}}]})).await;
    let child = command(&["send", "hi", "--json", "--url", peers.origin("desk")])
        .spawn()
        .unwrap();
    peers.wait_for("desk", 2).await;
    interrupt(&child);
    let ended = end(child).await;
    exits(&ended, 1);
    assert_eq!(lines(&ended)[0]["error"]["reason"], "aborted");
}

#[cfg(unix)]
fn interrupt(child: &std::process::Child) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[tokio::test]
async fn every_subcommand_has_a_help_with_examples() {
    for subcommand in [
        "targets", "send", "watch", "status", "cancel", "call", "package",
    ] {
        let ended = run(&[subcommand, "--help"]).await;
        exits(&ended, 0);
        has(&ended.stdout, &["Usage: ", "Examples:"]);
    }
}

#[tokio::test]
async fn without_arguments_the_help_is_shown() {
    let ended = run(&[]).await;
    exits(&ended, 2);
    has(&ended.stderr, &["Usage: remote-agent", "Exit codes:"]);
}
