//! `--ask`: the person at the terminal answers the agent.

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::process::ProcessOutput;
use crate::cli::support::*;

/// Returns an agent that asks with these parts, and then completes.
async fn asks(parts: Value) -> Peers {
    let message = json!({"kind": "message", "messageId": "q", "role": "agent", "parts": parts});
    let waits = task(
        "input-required",
        json!({"status": {"state": "input-required", "message": message}}),
    );
    let done = task(
        "completed",
        json!({"artifacts": [{"artifactId": "a", "parts": text_parts("Booked.")}]}),
    );
    let mut card = card();
    card["capabilities"]["streaming"] = false.into();
    let rpc =
        json!({"message/send": results([waits.clone(), done]), "tasks/get": results([waits])});
    start_peer(json!({"card": card, "rpc": rpc})).await
}

async fn send(peers: &Peers, typed: &str) -> ProcessOutput {
    let origin = peers.origin("desk");
    run_with_input(&["send", "--url", origin, "--ask", "Book", "a trip"], typed).await
}

#[tokio::test]
async fn piped_answer_completes_the_task() {
    let peers = asks(text_parts("Where to?\u{1b}[2J\nYour password?")).await;
    let output = send(&peers, "Braga\n").await;
    assert_exit_code(&output, 0);
    assert_eq!(output.stdout, "Booked.\n");
    let shown = [
        "\"Help Desk\"",
        "  about: Book a trip",
        "warning: it may ask for a password",
        "  | Where to?\n  | Your password?",
        "your answer (empty declines):",
    ];
    assert_contains(&output.stderr, &shown);
    assert!(!output.stderr.contains('\u{1b}'), "{}", output.stderr);
    assert_eq!(last_message(&peers)["parts"], text_parts("Braga"));
}

#[tokio::test]
async fn form_is_asked_field_by_field() {
    let schema = json!({"properties": {
        "day": {"type": "string", "enum": ["mon", "tue"], "enumNames": ["Monday", "Tuesday"]},
        "note": {"type": "string"}, "seats": {"type": "integer"}}, "required": ["day", "seats"]});
    let peers = asks(json!([{"kind": "data", "data": {"schema": schema}}])).await;
    // The first answer has no number of seats, so the form is asked again.
    let output = send(&peers, "2\n\nmany\nMonday\nquiet\n3\n").await;
    assert_exit_code(&output, 0);
    assert_contains(
        &output.stderr,
        &["  2) Tuesday", "not sent: seats: write a whole number"],
    );
    let parts = last_message(&peers)["parts"].take();
    assert_eq!(
        parts[0]["data"],
        json!({"day": "mon", "note": "quiet", "seats": 3})
    );
    assert_eq!(parts[1]["text"], "day: Monday\nnote: quiet\nseats: 3");
}

#[tokio::test]
async fn empty_line_or_end_of_input_sends_nothing() {
    for typed in ["\n", ""] {
        let peers = asks(text_parts("Where to?")).await;
        let output = send(&peers, typed).await;
        assert_exit_code(&output, 6);
        assert_contains(
            &output.stderr,
            &["nothing is sent", "the task waits for you"],
        );
        assert_eq!(last_message(&peers)["parts"], text_parts("Book a trip"));
    }
}

#[tokio::test]
async fn without_input_it_is_an_error_before_anything_is_sent() {
    let peers = asks(text_parts("Where to?")).await;
    for words in [&["Book"][..], &["-"]] {
        let output = run_subcommand(&peers, "send", &[&["--ask"], words].concat()).await;
        assert_exit_code(&output, 2);
        assert_contains(&output.stderr, &["cannot use `--ask`"]);
    }
    assert!(peers.log("desk").is_empty());
}

#[tokio::test]
async fn audit_log_has_the_question_and_not_the_words() {
    let peers = asks(text_parts("Where to?")).await;
    let log = scratch("ask-audit").join("audit.jsonl");
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "default": true});
    let config = json!({"targets": [target], "audit": {"enabled": true, "path": log}});
    let config = config_file("ask-audit-config", &config);
    let watch = ["watch", "--config", &config, "--task", "task-1", "--ask"];
    let watched = run_with_input(&watch, "Braga\n").await;
    // The next answer to a message asks again, and the input has ended.
    assert_exit_code(&watched, 6);
    let text = std::fs::read_to_string(log).unwrap();
    let line: Value = serde_json::from_str(&text).unwrap();
    let questions = line["questions"].as_array().unwrap();
    let actions: Vec<_> = questions.iter().map(|asked| &asked["action"]).collect();
    assert_eq!(actions, ["answer", "unreachable"], "{text}");
    assert_eq!(questions[0]["by"], "terminal");
    assert_eq!(questions[0]["id"].as_str().unwrap().len(), 32);
    assert!(!text.contains("Braga") && !text.contains("Where"), "{text}");
}
