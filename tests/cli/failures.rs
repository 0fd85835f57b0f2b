//! How the command fails, and with which code.

use serde_json::json;

use crate::{process::end, support::*};

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
