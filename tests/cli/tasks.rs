//! The list of tasks.

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;
use testkit::support::serve::Server;

use crate::cli::support::*;

/// Returns a server with a completed task and two that wait for an answer, and the id of the completed one.
async fn server_with_tasks() -> (Server, String) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let send = async |text: &str| {
        let output = run(&["send", "--url", server.url(), "--json", text]).await;
        let envelope: Value = json_lines(&output).pop().unwrap();
        let id = &envelope["summary"]["continuation"]["task"]["task_id"];
        id.as_str().unwrap().to_owned()
    };
    let completed = send("echo Hello").await;
    send("ask Which one?").await;
    send("ask And then?").await;
    (server, completed)
}

#[tokio::test]
async fn tasks_are_listed_by_state_age_and_number() {
    let (server, completed) = server_with_tasks().await;
    let list = async |args: &[&str]| {
        let output = run(&[&["tasks", "--url", server.url()], args].concat()).await;
        assert_exit_code(&output, 0);
        output
    };
    let all = list(&[]).await.stdout;
    assert_eq!(all.lines().count(), 4, "{all}");
    assert_contains(&all, &["TARGET", "AGE", "CHANGED", &completed]);

    let of_state = list(&["--state", "completed", "--json"]).await;
    let tasks = json_lines(&of_state).pop().unwrap()["tasks"].take();
    assert_eq!(tasks.as_array().map(Vec::len), Some(1), "{tasks}");
    assert_eq!(tasks[0]["taskId"], completed.as_str());
    // The agent gives the time of the state, and no other.
    assert_eq!(tasks[0]["ageMs"], Value::Null);
    assert!(tasks[0]["updatedMs"].is_u64(), "{tasks}");

    let limited = list(&["--limit", "1"]).await;
    assert_eq!(limited.stdout.lines().count(), 2, "{limited:?}");
    assert_contains(&limited.stderr, &["2 more; `--limit 3`"]);
    let recent = list(&["--since", "1h"]).await;
    assert_eq!(recent.stdout.lines().count(), 4, "{recent:?}");
    let none = list(&["--since", "1ms"]).await;
    assert_contains(&none.stderr, &["no matching tasks"]);
}

#[tokio::test]
async fn agent_without_a_list_is_named() {
    let peers = start_desk(json!({})).await;
    let output = run_subcommand(&peers, "tasks", &[]).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stderr, &["target: it has no list of tasks"]);
    let output = run_subcommand(&peers, "tasks", &["--target", "shop"]).await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["no agent is called `shop`"]);
    let output = run_subcommand(&peers, "tasks", &["--state", "done"]).await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["input-required"]);
}

/// Returns a desk of A2A 1.0 that answers requests for its tasks in this order, the last time and again.
async fn start_listing(pages: Value) -> Peers {
    let mut card = card();
    card["supportedInterfaces"] = json!([{"url": "{{origin}}/a2a/jsonrpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]);
    start_peer(json!({"card": card, "rpc": {"ListTasks": pages}})).await
}

fn listed(id: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}})
}

#[tokio::test]
async fn every_page_and_a_bare_list_are_read() {
    let page = |id: &str, next: &str| json!({"tasks": [listed(id)], "nextPageToken": next});
    let repeated = page("t1", "same");
    for (pages, ids, note) in [
        (
            results([json!([listed("t1"), listed("t2")])]),
            &["t1", "t2"][..],
            "",
        ),
        (
            results([page("t1", "p2"), page("t2", "p3"), page("t3", "")]),
            &["t1", "t2", "t3"],
            "",
        ),
        (
            results([repeated.clone(), repeated]),
            &["t1"],
            "it has more tasks than the 1 that it listed",
        ),
        (
            results([json!({"tasks": [listed("t1"), {"id": "t2"}]})]),
            &["t1"],
            "1 of the tasks that it lists cannot be read",
        ),
    ] {
        let peers = start_listing(pages.clone()).await;
        let output = run_subcommand(&peers, "tasks", &["--json"]).await;
        assert_exit_code(&output, 0);
        let tasks = json_lines(&output).pop().unwrap()["tasks"].take();
        let found: Vec<_> = tasks
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["taskId"].clone())
            .collect();
        assert_eq!(found, ids, "{pages}");
        assert_contains(&output.stderr, &[note]);
    }
}

#[tokio::test]
async fn exit_status_is_that_of_the_agent_that_lists_no_tasks() {
    for (answer, code) in [
        (json!({"status": 500, "body": ""}), 1),
        (json!({"status": 401, "body": ""}), 4),
        (json!({"result": "tasks"}), 1),
    ] {
        let peers = start_listing(json!([answer])).await;
        let output = run_subcommand(&peers, "tasks", &[]).await;
        assert_exit_code(&output, code);
        assert_contains(&output.stderr, &["its tasks cannot be listed: "]);
    }
}
