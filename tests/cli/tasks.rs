//! The list of tasks.

use serde_json::{Value, json};
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
