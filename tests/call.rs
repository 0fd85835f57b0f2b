//! `remote-agent call`, driven by a script.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use openclaw_remote_agent::BUILD_ID;
use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::support::{config_file, json_lines, scratch};
use crate::support::assert_has;
use crate::support::process::{EXIT_TIMEOUT, ProcessOutput, wait_for_output};

fn command(args: &[&str]) -> Command {
    let mut command = crate::cli::support::command(args);
    command.stdin(Stdio::piped());
    command
}

fn filter() -> Child {
    command(&["call", "--jsonl"]).spawn().unwrap()
}

fn write_line(child: &mut Child, line: &str) {
    writeln!(child.stdin.as_mut().unwrap(), "{line}").unwrap();
}

/// Sends these operations and ends the input.
async fn operate(mut child: Child, operations: &[Value]) -> ProcessOutput {
    for operation in operations {
        write_line(&mut child, &operation.to_string());
    }
    drop(child.stdin.take());
    wait_for_output(child).await
}

/// Sends lines, ends the input and returns the answers.
async fn answers(lines: &[&str]) -> Vec<Value> {
    let ended = run(&["call", "--jsonl"], &(lines.join("\n") + "\n")).await;
    assert!(ended.status.success(), "{ended:?}");
    json_lines(&ended)
}

/// Runs the command with this input.
pub(crate) async fn run(args: &[&str], input: &str) -> ProcessOutput {
    let mut child = command(args).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    wait_for_output(child).await
}

/// Returns a peer that receives a message and never answers.
async fn silent_peer() -> Peers {
    peer("silent", &json!([{"delay_ms": 3_600_000, "result": {}}])).await
}

async fn answering_peer() -> Peers {
    let parts = json!([{"kind": "text", "text": "pong"}]);
    let message = json!({"kind": "message", "messageId": "m-1", "role": "agent", "parts": parts});
    peer("desk", &json!([{"result": message}])).await
}

async fn peer(name: &str, answers: &Value) -> Peers {
    let card = json!({
        "protocolVersion": "0.3.0", "name": "Desk", "description": "A peer.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC", "capabilities": {},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    });
    let script = json!({"peers": {name: {"card": card, "rpc": {"message/send": answers}}}});
    Peers::start(&script).await.unwrap()
}

fn init(peers: &Peers) -> String {
    let targets = json!([{"alias": "silent", "baseUrl": peers.origin("silent")}]);
    let config = json!({"targets": targets, "policy": {"allowPrivateTargetUrls": true}});
    json!({"id": "init", "op": "init", "config": config}).to_string()
}

/// Returns a message to the peer of that name, with the name as text.
fn send(name: &str) -> Value {
    let parts = json!([{"kind": "text", "text": "Good morning"}]);
    let request = json!({"action": "send", "target_alias": name, "parts": parts});
    json!({"id": name, "op": "execute", "request": request})
}

#[tokio::test]
async fn each_operation_is_answered_under_its_id() {
    let answers = answers(&[
        r#"{"id":1,"op":"parse_config","config":{}}"#,
        r#"{"id":2,"op":"init","config":{}}"#,
        r#"{"id":3,"op":"tool_definition"}"#,
        r#"{"id":"four","op":"execute","request":{"action":"list_targets"},"caller":{"agent_id":"main"}}"#,
    ])
    .await;
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_has(&answers[0], json!({"id": 1, "parsed": {"enabled": false}}));
    assert_eq!(answers[1], json!({"id": 2, "ok": true}));
    assert_has(
        &answers[2],
        json!({"id": 3, "tool_definition": {"name": "remote_agent"}}),
    );
    assert_has(&answers[3], json!({"id": "four", "result": {"ok": true}}));
}

#[tokio::test]
async fn invalid_line_is_answered_and_the_next_read() {
    let answers = answers(&[
        "nonsense",
        r#"["an array"]"#,
        "",
        r#"{"op":"tool_definition"}"#,
        r#"{"id":{},"op":"tool_definition"}"#,
        r#"{"id":1,"op":"sing"}"#,
        r#"{"id":2,"op":7}"#,
        r#"{"id":3,"op":"tool_definition"}"#,
        r#"{"id":4,"op":"init"}"#,
        r#"{"id":5,"op":"init","config":{}}"#,
        r#"{"id":6,"op":"execute"}"#,
        r#"{"id":7,"op":"execute","request":{},"abort_after_ms":-1}"#,
        r#"{"id":8,"op":"tool_definition"}"#,
    ])
    .await;
    let reported: Vec<Value> = answers
        .iter()
        .map(|answer| json!([answer["id"], answer["error"]["code"]]))
        .collect();
    let bad = |id: Value| json!([id, "BAD_LINE"]);
    assert_eq!(
        reported,
        [
            bad(json!(null)),
            bad(json!(null)),
            bad(json!(null)),
            bad(json!({})),
            json!([1, "UNKNOWN_OP"]),
            bad(json!(2)),
            json!([3, "NOT_INITIALIZED"]),
            bad(json!(4)),
            json!([5, null]),
            bad(json!(6)),
            bad(json!(7)),
            json!([8, null]),
        ]
    );
    assert!(answers[11]["tool_definition"].is_object());
}

#[tokio::test]
async fn content_has_the_model_text() {
    let init = r#"{"id":1,"op":"init","config":{}}"#;
    let with = r#"{"id":"with","op":"execute","request":{"action":"list_targets"},"content":true}"#;
    let without =
        r#"{"id":"without","op":"execute","request":{"action":"list_targets"},"content":false}"#;
    let wrong =
        r#"{"id":"wrong","op":"execute","request":{"action":"list_targets"},"content":"yes"}"#;
    let answers = answers(&[init, with, without, wrong]).await;
    let of = |id: &str| answers.iter().find(|answer| answer["id"] == id).unwrap();
    let content = of("with")["content"].as_str().unwrap();
    assert!(
        content.starts_with("list_targets: no agent is configured"),
        "{content}"
    );
    assert_eq!(of("with")["result"]["ok"], true);
    assert!(of("without")["content"].is_null() && of("without")["result"].is_object());
    assert_eq!(of("wrong")["error"]["code"], "BAD_LINE");
}

#[tokio::test]
async fn only_a_line_feed_ends_a_line() {
    let text = "one\u{2028}two\u{85}three";
    let line = json!({"id": text, "op": "tool_definition"}).to_string();
    let answers = answers(&[r#"{"id":1,"op":"init","config":{}}"#, &line]).await;
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[1]["id"], text);
}

#[tokio::test]
async fn call_is_aborted_after_its_timeout() {
    let peers = silent_peer().await;
    let mut call = send("silent");
    call["abort_after_ms"] = json!(50);
    let answers = answers(&[&init(&peers), &call.to_string()]).await;
    assert_eq!(answers[1]["id"], "silent");
    assert_eq!(
        answers[1]["result"]["error"]["reason"], "aborted",
        "{answers:?}"
    );
}

#[tokio::test]
async fn call_is_aborted_by_its_id() {
    let peers = silent_peer().await;
    let stop = r#"{"id":"stop","op":"abort","call":"silent"}"#;
    let mut answers = answers(&[&init(&peers), &send("silent").to_string(), stop]).await;
    answers.sort_by_key(|answer| answer["id"].to_string());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[1]["result"]["error"]["reason"], "aborted");
    assert_eq!(answers[2], json!({"id": "stop", "ok": true}));
}

// The test blocks its thread while it waits for lines, so the peer needs another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_instance_ends_calls_of_the_previous_one() {
    let peers = silent_peer().await;
    let mut child = filter();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    write_line(&mut child, &init(&peers));
    assert_eq!(next()["id"], "init");
    write_line(&mut child, &send("silent").to_string());
    write_line(
        &mut child,
        r#"{"id":"beside","op":"execute","request":{"action":"list_targets"}}"#,
    );
    assert_eq!(next()["id"], "beside");
    write_line(&mut child, r#"{"id":"again","op":"init","config":{}}"#);
    let mut ids = [next(), next()].map(|answer| answer["id"].to_string());
    ids.sort();
    assert_eq!(ids, [r#""again""#, r#""silent""#]);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[tokio::test]
async fn unset_secret_fails_only_calls_that_need_it() {
    let peers = answering_peer().await;
    let token = json!({"source": "env", "id": "REMOTE_AGENT_NO_SUCH"});
    let url = peers.origin("desk");
    let targets = json!([
        {"alias": "locked", "baseUrl": url, "auth": {"type": "bearer", "token": token}},
        {"alias": "desk", "baseUrl": url},
    ]);
    let init = json!({"id": 1, "op": "init", "config": {"targets": targets}});
    let ended = operate(filter(), &[init, send("locked"), send("desk")]).await;
    let answers = json_lines(&ended).into_iter();
    let mut reported: Vec<String> = answers
        .map(|answer| format!("{} {}", answer["id"], answer["result"]["error"]["reason"]))
        .collect();
    reported.sort();
    assert_eq!(
        reported,
        [
            r#""desk" null"#,
            r#""locked" "credential_unresolved""#,
            "1 null"
        ]
    );
    for part in ["`REMOTE_AGENT_NO_SUCH`", "`/targets/0/auth/token`"] {
        assert_eq!(ended.stderr.matches(part).count(), 1, "{ended:?}");
    }
}

#[tokio::test]
async fn refuses_reference_outside_a_secret() {
    let url = json!({"source": "env", "id": "PATH"});
    let config = json!({"targets": [{"alias": "a", "baseUrl": url}]});
    let line = json!({"id": 1, "op": "init", "config": config}).to_string();
    let answers = answers(&[&line]).await;
    let error = &answers[0]["init_error"];
    assert_eq!(error["path"], "/targets/0/baseUrl", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("only for a secret"), "{error}");
}

#[tokio::test]
async fn unset_secret_is_reported_at_once_on_request() {
    let token = json!({"source": "env", "id": "REMOTE_AGENT_NO_SUCH"});
    let target = json!({"alias": "a", "baseUrl": "http://127.0.0.1:1", "auth": {"type": "bearer", "token": token}});
    let init = json!({"id": 1, "op": "init", "config": {"targets": [target]}});
    let child = command(&["call", "--jsonl", "-v"]).spawn().unwrap();
    let ended = operate(child, &[init]).await;
    assert!(ended.stderr.contains("REMOTE_AGENT_NO_SUCH"), "{ended:?}");
}

#[tokio::test]
async fn unknown_caller_is_not_logged() {
    let ended = run(&["call", "-v", r#"{"action":"list_targets"}"#], "").await;
    assert!(ended.stderr.contains("list_targets: done"), "{ended:?}");
}

#[tokio::test]
async fn unknown_field_of_an_operation_is_named() {
    let answers = answers(&[
        r#"{"id":1,"op":"init","config":{},"confg":{}}"#,
        r#"{"id":2,"op":"execute","request":{},"timeout":1}"#,
    ])
    .await;
    let reported = answers
        .iter()
        .map(|answer| answer["error"]["message"].as_str().unwrap());
    assert_eq!(
        reported.collect::<Vec<_>>(),
        [
            "`init` has no field `confg`",
            "`execute` has no field `timeout`"
        ]
    );
}

#[tokio::test]
async fn invalid_request_json_is_reported_once() {
    let ended = run(&["call", "{"], "").await;
    let envelope: Value = serde_json::from_str(&ended.stdout).unwrap();
    let error = &envelope["error"];
    assert_eq!(error["message"], "remote_agent input validation failed");
    let hint = error["details"]["hint"].as_str().unwrap();
    assert!(hint.contains("First: the request is not JSON: "), "{hint}");
}

#[tokio::test]
async fn failed_task_is_a_successful_call() {
    let failed =
        json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "failed"}});
    let peers = peer("desk", &json!([{"result": failed}])).await;
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk")});
    let config = json!({"targets": [target]});
    let file = config_file("call-failed", &config);
    let request = send("desk")["request"].to_string();
    let ended = run(&["call", &request, "--config", &file], "").await;
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}

#[tokio::test]
async fn environment_secret_reaches_only_its_peer() {
    let peers = answering_peer().await;
    let token = json!({"source": "env", "provider": "default", "id": "REMOTE_AGENT_TEST_TOKEN"});
    let auth = json!({"type": "bearer", "token": token});
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "auth": auth});
    let config = json!({"targets": [target], "policy": {"allowPrivateTargetUrls": true}});
    let child = command(&["call", "--jsonl", "--verbose"])
        .env("REMOTE_AGENT_TEST_TOKEN", "s3cret")
        .spawn();
    let init = json!({"id": 1, "op": "init", "config": config});
    let ended = operate(child.unwrap(), &[init, send("desk")]).await;
    assert!(
        ended.stdout.contains(r#""ok":true,"operation""#),
        "{ended:?}"
    );
    assert!(!format!("{ended:?}").contains("s3cret"), "{ended:?}");
    let message = peers.log("desk").pop().unwrap();
    assert_eq!(message.headers["authorization"], "Bearer s3cret");
}

#[tokio::test]
async fn unreachable_peer_exits_with_its_code() {
    let peers = Peers::start(&json!({"peers": {"desk": {"unreachable": true}}}))
        .await
        .unwrap();
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk")});
    let config = json!({"targets": [target], "policy": {"allowPrivateTargetUrls": true}});
    let file = config_file("call-unreachable", &config);
    let request = send("desk")["request"].to_string();
    let ended = run(&["call", &request, "--config", &file], "").await;
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
}

#[tokio::test]
async fn closed_output_ends_the_command() {
    let mut child = filter();
    drop(child.stdout.take());
    write_line(&mut child, r#"{"id":1,"op":"init","config":{}}"#);
    let status = tokio::task::spawn_blocking(move || {
        let stdin = child.stdin.take();
        let status = child.wait().unwrap();
        drop(stdin);
        status
    });
    let status = tokio::time::timeout(EXIT_TIMEOUT, status)
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn one_call_prints_its_envelope_on_a_line() {
    let request = r#"{"action":"list_targets"}"#;
    let as_argument = run(&["call", request], "").await;
    let from_input = run(&["call", "-"], request).await;
    for ended in [as_argument, from_input] {
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let envelope: Value =
            serde_json::from_str(ended.stdout.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(envelope["action"], "list_targets");
    }
}

#[tokio::test]
async fn invalid_arguments_or_configuration_are_usage_errors() {
    let missing = run(&["call", "{}", "--config", "/nowhere/config.json"], "").await;
    assert!(
        missing.stderr.contains("/nowhere/config.json"),
        "{missing:?}"
    );
    let nothing = run(&["call"], "").await;
    assert_eq!(
        [missing, nothing].map(|ended| ended.status.code()),
        [Some(2), Some(2)]
    );
}

#[tokio::test]
async fn library_of_another_build_is_refused() {
    let (library, _) = library_of_another_build("call-other-build");
    let child = command(&["call", "{}"])
        .env("REMOTE_AGENT_LIBRARY", &library)
        .spawn();
    let ended = wait_for_output(child.unwrap()).await;
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for part in [library.to_str().unwrap(), BUILD_ID, "cargo build"] {
        assert!(ended.stderr.contains(part), "no {part} in {ended:?}");
    }
}

/// Returns the file of the library with another build id, and that id.
pub(crate) fn library_of_another_build(test: &str) -> (PathBuf, String) {
    let (prefix, suffix) = (env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let file = format!("{prefix}openclaw_remote_agent{suffix}");
    let mut bytes = fs::read(env::current_exe().unwrap().with_file_name(file)).unwrap();
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, BUILD_ID).collect();
    assert!(!places.is_empty());
    let other: String = BUILD_ID.chars().rev().collect();
    for place in places {
        bytes[place..place + other.len()].copy_from_slice(other.as_bytes());
    }
    let library = scratch(test).join("library.so");
    fs::write(&library, bytes).unwrap();
    (library, other)
}
