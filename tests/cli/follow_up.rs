//! Continues the work of an earlier command.

use std::fs;

use serde_json::json;

use crate::cli::support::*;

#[tokio::test]
async fn saved_continuation_is_private_and_reusable() {
    let asks = task(
        "input-required",
        json!({"status": {"state": "input-required", "message": message("Publish it?")}}),
    );
    let done = json!({"artifacts": [{"artifactId": "a-1", "parts": text_parts("Published.")}]});
    let peers = start_desk(json!({
        "message/send": results([asks.clone(), task("completed", done)]),
        "tasks/get": results([asks]),
        "tasks/cancel": results([task("canceled", json!({}))]),
        "tasks/resubscribe": sse_stream([status("completed", "over")]),
    }))
    .await;
    let file = scratch("continuation").join("task one.json");
    let path = file.to_str().unwrap();

    let first = run_subcommand(&peers, "send", &["--save", path, "Write it"]).await;
    assert_exit_code(&first, 6);
    assert_eq!(first.stdout, "Publish it?\n");
    let again = format!(
        "--url {} --continuation '{path}' 'YOUR ANSWER'",
        peers.origin("desk")
    );
    assert_contains(&first.stderr, &["input-required", &again]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    // Only the file names the target.
    for (subcommand, expected, code) in [
        ("status", "Publish it?\n", 6),
        ("watch", "over\n", 0),
        ("cancel", "", 0),
    ] {
        let output = run(&[subcommand, "--continuation", path]).await;
        assert_exit_code(&output, code);
        assert_eq!(output.stdout, expected, "{subcommand}");
    }
    let shown = run(&["status", "--continuation", path]).await;
    let again = format!("\n  remote-agent send --continuation '{path}' 'YOUR ANSWER'\n");
    assert_contains(&shown.stderr, &[&again]);
    let answered = run(&["send", "--continuation", path, "Yes"]).await;
    assert_exit_code(&answered, 0);
    let again = format!(
        "\n  remote-agent send --url {}/ --context ctx-1 'TEXT'\n",
        peers.origin("desk")
    );
    assert_contains(&answered.stderr, &[&again]);
    assert_eq!(answered.stdout, "Published.\n");
    let sent = last_message(&peers);
    assert_eq!(
        (&sent["taskId"], &sent["contextId"]),
        (&json!("task-1"), &json!("ctx-1"))
    );
}

#[tokio::test]
async fn question_of_a_followed_task_is_printed_once() {
    let events = [
        task("working", json!({})),
        status("input-required", "Publish it?"),
    ];
    let peers = start_desk(json!({"message/stream": sse_stream(events)})).await;
    let output = run_subcommand(&peers, "send", &["--follow", "Write it"]).await;
    assert_exit_code(&output, 6);
    assert_eq!(output.stdout, "Publish it?\n");
    assert!(!output.stderr.contains("Publish it?"), "{output:?}");
}

#[tokio::test]
async fn foreign_continuation_is_refused_with_a_hint() {
    let peers = start_desk(json!({})).await;
    let target = json!({"target_url": "https://other.example/", "card_path": "/.well-known/agent-card.json", "preferred_transports": ["JSONRPC"]});
    let file = config_file(
        "other",
        &json!({"target": target, "task": {"task_id": "t"}}),
    );
    let output = run_subcommand(&peers, "status", &["--continuation", &file]).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["use `--url https://other.example/`"]);
}

#[tokio::test]
async fn task_is_found_by_id_and_alias() {
    let peers = start_desk(json!({"tasks/get": results([task("working", json!({}))])})).await;
    let targets = json!([{"alias": "my desk", "baseUrl": peers.origin("desk")}]);
    let config = config_file("task-id", &json!({"targets": targets}));
    let output = run_line(&format!(
        "status --config '{config}' --target 'my desk' --task task-1"
    ))
    .await;
    assert_exit_code(&output, 0);
    let options = format!("--config {config} --target 'my desk' --task task-1");
    assert_contains(
        &output.stderr,
        &[
            "task task-1 of my desk: working",
            &format!("watch {options}"),
            &format!("cancel {options}"),
        ],
    );
}

#[tokio::test]
async fn task_id_cannot_inject_a_suggested_command() {
    let mut evil = task("working", json!({}));
    evil["id"] = json!("x; reboot '");
    let peers = start_desk(json!({"message/send": results([evil])})).await;
    let output = run_subcommand(&peers, "send", &["go"]).await;
    assert_contains(&output.stderr, &[r"--task 'x; reboot '\'''"]);
}

#[tokio::test]
async fn cut_stream_prints_output_and_next_step() {
    let events = results([
        task("working", json!({})),
        artifact_update("Half of ", false),
    ]);
    let cut = json!([{"sse": events, "end": "destroy"}]);
    let peers = start_desk(json!({"message/stream": cut})).await;
    let file = scratch("cut").join("task.json");
    let path = file.to_str().unwrap();
    let output = run_subcommand(&peers, "send", &["--follow", "--save", path, "go"]).await;
    assert_exit_code(&output, 1);
    assert_eq!(output.stdout, "Half of \n");
    let watch = format!(
        "remote-agent watch --url {} --continuation {path}",
        peers.origin("desk")
    );
    assert_contains(&output.stderr, &["error: the stream broke off", &watch]);
    assert!(file.exists());
}
