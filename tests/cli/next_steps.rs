//! What the command says to do next.

use std::fs;

use serde_json::{Value, json};
use testkit::support::serve::Server;

use crate::cli::support::*;

#[tokio::test]
async fn failing_server_shows_its_message_and_a_next_step() {
    let serve = words("--port 0 --gateway ws://127.0.0.1:1 --task-store memory");
    let server = Server::start(&serve, &[]);
    let output = run(&["send", "--url", server.url(), "hi"]).await;
    assert_exit_code(&output, 1);
    assert_contains(
        &output.stderr,
        &[
            "503 Service Unavailable: the server cannot reach its agents at the moment",
            "Try again later",
        ],
    );
    assert!(!output.stderr.contains('{'), "{}", output.stderr);
    assert!(!output.stderr.contains("ws://"), "{}", output.stderr);
    let log = server.stop().log;
    assert_contains(
        &log,
        &["cannot connect to `ws://127.0.0.1:1`", "`--gateway`"],
    );
}

#[tokio::test]
async fn alias_option_means_the_target() {
    let peers = start_desk(json!({"message/send": [{"result": message("hello")}]})).await;
    let targets = json!({"targets": [{"alias": "desk", "baseUrl": peers.origin("desk")}]});
    let config = config_file("alias", &targets);
    let output = run(&["send", "--config", &config, "--alias", "desk", "hi"]).await;
    assert_exit_code(&output, 0);
    let output = run(&["send", "--config", &config, "--target", "dusk", "hi"]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stderr,
        &[
            "error: no agent is called `dusk`\n",
            "`--target ALIAS` (`desk`)",
            &format!("`remote-agent targets --config {config}`"),
        ],
    );
}

#[tokio::test]
async fn task_without_an_option_names_the_option() {
    let file = scratch("watch").join("task.json");
    fs::write(&file, "{}").unwrap();
    let file = file.to_str().unwrap();
    for (given, option) in [(file, "--continuation"), ("task-1", "--task")] {
        let output = run(&["watch", given]).await;
        assert_exit_code(&output, 2);
        assert_contains(
            &output.stderr,
            &[&format!("remote-agent watch {option} {given}")],
        );
    }
}

#[tokio::test]
async fn message_to_an_ended_task_shows_its_conversation() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let output = run(&["send", "--url", server.url(), "--json", "echo Hello"]).await;
    let envelope: Value = json_lines(&output).pop().unwrap();
    let continuation = &envelope["summary"]["continuation"];
    let id = |part: &str, name: &str| continuation[part][name].as_str().unwrap().to_owned();
    let (task, context) = (id("task", "task_id"), id("conversation", "context_id"));
    let output = run(&["send", "--url", server.url(), "--task", &task, "more"]).await;
    assert_exit_code(&output, 1);
    let command = format!(
        "remote-agent send --url {} --context {context} 'TEXT'",
        server.url()
    );
    assert_contains(
        &output.stderr,
        &["has ended and accepts no messages", &command],
    );
}

#[tokio::test]
async fn install_checks_the_agent_before_any_change() {
    let peers = start_desk(json!({})).await;
    let url = peers.origin("desk");
    let none = ["--openclaw", "/nonexistent/openclaw"];
    let install = async |args: &[&str]| run(&[&["install"], args, &none].concat()).await;

    let output = install(&["--url", url, "--bearer-env", "REMOTE_AGENT_UNSET"]).await;
    assert_exit_code(&output, 2);
    assert_contains(
        &output.stderr,
        &[
            "`REMOTE_AGENT_UNSET`",
            "is not set",
            "Nothing was installed",
        ],
    );

    let output = install(&["--url", "http://127.0.0.1:1", "--allow-private"]).await;
    assert_exit_code(&output, 3);
    assert_contains(
        &output.stderr,
        &["127.0.0.1:1", "correct `--url`", "Nothing was installed"],
    );
    assert!(!output.stderr.contains("--force"), "{}", output.stderr);

    // The next step is that of OpenClaw.
    let output = install(&["--url", url, "--allow-private"]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["Help Desk", "/nonexistent/openclaw"]);
}

/// Calls the tool with a message to a server, without waiting for its task, and returns the envelope.
async fn send_at_once(server: &Server, task: Option<&str>, text: &str) -> Value {
    let targets = json!({"targets": [{"alias": "desk", "baseUrl": server.url()}]});
    let config = config_file("steering", &targets);
    let mut request = json!({"action": "send", "target_alias": "desk", "blocking": false, "parts": text_parts(text)});
    if let Some(task) = task {
        request["task_id"] = task.into();
    }
    let output = run(&["call", "--config", &config, &request.to_string()]).await;
    json_lines(&output).pop().unwrap()
}

fn task_id(envelope: &Value) -> &str {
    let id = &envelope["summary"]["continuation"]["task"]["task_id"];
    id.as_str().unwrap_or_else(|| panic!("{envelope}"))
}

#[tokio::test]
async fn refused_message_to_a_working_task_leads_to_watch() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let started = send_at_once(&server, None, "begun first").await;
    let output = run(&[
        "send",
        "--url",
        server.url(),
        "--task",
        task_id(&started),
        "x",
    ])
    .await;
    assert_exit_code(&output, 1);
    assert_contains(
        &output.stderr,
        &[
            "is working",
            "may take no message: `remote-agent watch --url",
        ],
    );
}

#[tokio::test]
async fn message_to_a_working_task_says_what_became_of_it() {
    let flags = ["--task-store", "memory", "--while-working", "next-turn"];
    let server = Server::scripted(&flags);
    let started = send_at_once(&server, None, "slow 10000").await;
    let queued = send_at_once(&server, Some(task_id(&started)), "echo first").await;
    assert_eq!(task_id(&queued), task_id(&started));
    let summary = &queued["summary"];
    assert_eq!(summary["message_state"], "queued", "{queued}");
    let next_step = summary["next_step"].as_str().unwrap();
    assert!(next_step.contains("Call watch"), "{next_step}");
    let follow = [
        "send",
        "--url",
        server.url(),
        "--follow",
        "--json",
        "--task",
    ];
    let output = run(&[&follow[..], &[task_id(&started), "echo second"]].concat()).await;
    assert_exit_code(&output, 0);
    let envelope = json_lines(&output).pop().unwrap();
    let summary = &envelope["summary"];
    assert_eq!(summary["message_state"], "started", "{envelope}");
    assert_eq!(summary["message_text"], "second", "{envelope}");
    assert_eq!(summary["continuation"]["task"]["status"], "completed");
}
