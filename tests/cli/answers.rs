//! Answers of agents in the output for people and scripts.

use std::fs;

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::support::*;

#[tokio::test]
async fn stdout_has_only_the_answer() {
    let peers = start_desk(json!({"message/send": results([message("All is well.")])})).await;
    let output = run_subcommand(&peers, "send", &["Is", "the shop", "down?"]).await;
    assert_exit_code(&output, 0);
    assert_eq!(output.stdout, "All is well.\n");
    let sent = last_message(&peers)["parts"].take();
    assert_eq!(sent, text_parts("Is the shop down?"));
    let again = format!("send --url {} --context ctx-1 'TEXT'", peers.origin("desk"));
    assert_contains(&output.stderr, &[&again]);
}

#[tokio::test]
async fn files_and_data_are_separate_parts() {
    let peers = start_desk(json!({"message/send": results([message("Thanks.")])})).await;
    let file = scratch("parts").join("notes.txt");
    fs::write(&file, "hello").unwrap();
    let file = file.to_str().unwrap();
    let line =
        format!("--attach '{file}' --attach https://files.example/a.pdf --data '{{\"ticket\":7}}'");
    let output = run_subcommand(&peers, "send", &words(&line)).await;
    assert_exit_code(&output, 0);
    let sent = last_message(&peers)["parts"].take();
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
async fn followed_task_shows_states_and_artifact_once() {
    let events = [
        task("submitted", json!({})),
        status("working", "reading the log"),
        artifact_update("One line\nand ", false),
        artifact_update("another", true),
        task(
            "completed",
            json!({"artifacts": [{"artifactId": "a-1", "parts": text_parts("One line\nand another")}]}),
        ),
    ];
    let peers = start_desk(json!({"message/stream": sse_stream(events)})).await;
    let output = run_subcommand(&peers, "send", &["--follow", "go"]).await;
    assert_exit_code(&output, 0);
    assert_eq!(output.stdout, "One line\nand another\n");
    assert_contains(
        &output.stderr,
        &[
            "submitted\n",
            "working: reading the log\n",
            "task task-1 of target: completed\n",
        ],
    );
    assert_eq!(output.stderr.matches("completed").count(), 1, "{output:?}");
}

fn said(parts: Value) -> Value {
    json!({"kind": "message", "messageId": "m-1", "role": "agent", "contextId": "ctx-1", "parts": parts})
}

/// Returns a desk that answers each message with `answer`.
async fn start_answering(answer: Value) -> Peers {
    let rpc =
        json!({"message/send": results([answer.clone()]), "message/stream": sse_stream([answer])});
    start_desk(rpc).await
}

#[tokio::test]
async fn message_and_status_are_shown_whole_and_once() {
    let text = |text: &str| json!({"kind": "text", "text": text});
    let data = json!({"kind": "data", "data": {"k": 1}});
    for (parts, shown) in [
        (json!([text("hel"), text("lo")]), "hel\nlo\n"),
        (json!([text("hello"), data]), "hello\n{\n  \"k\": 1\n}\n"),
        (json!([text("hello\n\n")]), "hello\n"),
        (json!([data]), "{\n  \"k\": 1\n}\n"),
    ] {
        let said = said(parts);
        let of = |state: &str| task("", json!({"status": {"state": state, "message": said}}));
        let answers = [
            said.clone(),
            of("completed"),
            of("input-required"),
            of("failed"),
        ];
        for answer in answers {
            let peers = start_answering(answer.clone()).await;
            for args in [&["hi"][..], &["--follow", "hi"]] {
                let output = run_subcommand(&peers, "send", args).await;
                assert_eq!(output.stdout, shown, "{answer} {output:?}");
            }
        }
    }
}

#[tokio::test]
async fn every_message_of_a_stream_is_part_of_the_answer() {
    let peers =
        start_desk(json!({"message/stream": sse_stream([message("First."), message("Second.")])}))
            .await;
    let output = run_subcommand(&peers, "send", &["--follow", "--json", "hi"]).await;
    let last = json_lines(&output).pop().unwrap();
    assert_eq!(last["summary"]["message_text"], "First.\n\nSecond.");
    assert_eq!(last["raw"]["finalEvent"], message("Second."));
}

#[tokio::test]
async fn files_of_messages_and_status_messages_are_saved() {
    let said = said(json!([
        {"kind": "text", "text": "See the file."},
        {"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGVsbG8="}},
    ]));
    let status = json!({"status": {"state": "completed", "message": said}});
    for answer in [said.clone(), task("", status)] {
        let peers = start_answering(answer).await;
        for follow in [&[][..], &["--follow"]] {
            let directory = scratch("answer-files");
            let save = ["--save-artifacts", directory.to_str().unwrap(), "hi"];
            let output = run_subcommand(&peers, "send", &[follow, &save].concat()).await;
            assert_exit_code(&output, 0);
            assert_contains(&output.stdout, &["[file: a.txt, text/plain, 5 bytes]"]);
            let saved = fs::read_to_string(directory.join("a.txt")).unwrap();
            assert_eq!(saved, "hello", "{output:?}");
        }
    }
}

#[tokio::test]
async fn truncated_history_is_reported() {
    let events = [task("working", json!({})), artifact_update("One ", false)];
    let peers = start_desk(json!({"message/stream": sse_stream(events)})).await;
    let output = run_subcommand(&peers, "send", &["--follow", "go"]).await;
    assert_exit_code(&output, 1);
    assert_eq!(output.stdout, "One \n");
    assert_contains(
        &output.stderr,
        &["may be missing", "task-1 of target: working"],
    );
}

#[tokio::test]
async fn updates_and_the_envelope_are_lines_of_json() {
    let events = [
        task("working", json!({})),
        artifact_update("Done", false),
        status("completed", "bye"),
    ];
    let peers = start_desk(json!({"message/stream": sse_stream(events)})).await;
    let output = run_subcommand(&peers, "send", &["--follow", "--json", "go"]).await;
    assert_exit_code(&output, 0);
    let lines = json_lines(&output);
    let phases: Vec<_> = lines.iter().map(|line| line["phase"].as_str()).collect();
    assert_eq!(
        phases,
        [Some("update"), Some("update"), Some("update"), None]
    );
    assert_eq!(lines[3]["summary"]["message_text"], "Done");
    assert_eq!(output.stderr, "");
}

#[tokio::test]
async fn targets_without_a_terminal_are_a_plain_table() {
    let script = json!({"peers": {"desk": {"card": card()}, "gone": {"unreachable": true}}});
    let peers = Peers::start(&script).await.unwrap();
    let targets = json!([
        {"alias": "desk", "baseUrl": peers.origin("desk"), "default": true},
        {"alias": "gone", "baseUrl": peers.origin("gone")},
    ]);
    let config = config_file("targets", &json!({"targets": targets}));
    let output = run(&["targets", "--config", &config]).await;
    assert_exit_code(&output, 0);
    let lines = output.stdout.lines().take(3);
    let rows: Vec<String> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let [desk, gone] = ["desk", "gone"].map(|name| peers.origin(name));
    assert_eq!(
        rows,
        [
            "ALIAS NAME ADDRESS STREAMING CARD SKILLS".to_owned(),
            format!("desk (default) Help Desk {desk}/ yes ok Triage"),
            format!("gone ? {gone}/ ? unreachable"),
        ]
    );
    assert_contains(&output.stdout, &["\ngone: ", "\nwhat to do: "]);
    assert!(
        output.stdout.is_ascii(),
        "no lines drawn: {}",
        output.stdout
    );

    let output = run(&["targets", "--config", &config, "--json"]).await;
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["summary"]["targets"][0]["target_alias"], "desk");
}

#[tokio::test]
async fn agent_text_cannot_control_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{1b}[0m\r\u{8}";
    let mut bad = card();
    bad["name"] = json!(evil);
    bad["skills"][0]["name"] = json!(evil);
    let events = [
        task("working", json!({})),
        status("working", evil),
        artifact_update(evil, false),
        status("completed", evil),
    ];
    let rpc = json!({
        "message/stream": sse_stream(events),
        "message/send": [{"error": {"code": -32000, "message": evil}}],
    });
    let peers = start_peer(json!({"card": bad, "rpc": rpc})).await;
    for (subcommand, args) in [
        ("targets", &[][..]),
        ("send", &["--follow", "go"][..]),
        ("send", &["go"][..]),
    ] {
        let output = run_subcommand(&peers, subcommand, args).await;
        let shown = format!("{}{}", output.stdout, output.stderr);
        assert_contains(&shown, &["red"]);
        let controls: Vec<_> = shown
            .chars()
            .filter(|c| c.is_control() && *c != '\n')
            .collect();
        assert!(controls.is_empty(), "{controls:?} in {output:?}");
    }
}
