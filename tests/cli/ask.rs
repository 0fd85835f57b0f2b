//! `--ask`: the person at the terminal answers the agent.

use std::process::Stdio;

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::process::{ProcessOutput, wait_for_output};
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
    // The first answer has no number of seats, so that field is asked again.
    let output = send(&peers, "2\nquiet\nmany\n3\n").await;
    assert_exit_code(&output, 0);
    assert_contains(
        &output.stderr,
        &["  2) Tuesday", "not sent: seats: write a whole number"],
    );
    let parts = last_message(&peers)["parts"].take();
    assert_eq!(
        parts[0]["data"],
        json!({"day": "tue", "note": "quiet", "seats": 3})
    );
    assert_eq!(parts[1]["text"], "day: Tuesday\nnote: quiet\nseats: 3");
}

#[tokio::test]
async fn empty_line_takes_the_default_of_a_field_but_permits_nothing() {
    let schema = |kind: &str| {
        json!({"type": kind, "required": ["go", "seats"], "properties": {
            "go": {"type": "boolean", "default": true}, "seats": {"type": "integer", "default": 2, "maximum": 4}}})
    };
    let peers = asks(json!([{"kind": "data", "data": schema("object")}])).await;
    let output = send(&peers, "\n\n").await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stderr, &["yes or no (empty takes the default):"]);
    let parts = last_message(&peers)["parts"].take();
    assert_eq!(parts[0]["data"], json!({"go": true, "seats": 2}));
    let peers = asks(json!([{"kind": "data", "data": schema("permission")}])).await;
    let output = send(&peers, "\n\n").await;
    assert_exit_code(&output, 6);
    assert_contains(
        &output.stderr,
        &["yes or no (empty declines):", "nothing is sent"],
    );
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
async fn silent_person_reads_that_nothing_was_sent_and_what_to_do() {
    let peers = asks(text_parts("Where to?")).await;
    let arguments = [
        "send",
        "--url",
        peers.origin("desk"),
        "--ask",
        "--timeout",
        "2s",
        "Book",
    ];
    let mut child = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let open_input = child.stdin.take();
    let output = wait_for_output(child).await;
    drop(open_input);
    assert_exit_code(&output, 6);
    let next = format!(
        "  remote-agent watch --url {} --task task-1 --ask",
        peers.origin("desk")
    );
    assert_contains(
        &output.stderr,
        &["\nno answer came in time, and nothing was sent\n", &next],
    );
}

/// A message that a person types answers a task that waits for a person, and one through a pipe does not.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn typed_message_is_that_of_a_person() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::os::unix::ffi::OsStrExt as _;

    let peers = asks(text_parts("Where to?")).await;
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "default": true, "answers": "person"});
    let config = config_file("typed-config", &json!({"targets": [target]}));
    let arguments = ["send", "--config", &config, "--task", "task-1", "Braga"];
    let refused = run(&arguments).await;
    assert_contains(&refused.stderr, &["waits for a person's answer"]);
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let side = || {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).open(path).unwrap()
    };
    for (variable, marker, goes_through) in [
        ("OPENCLAW_SHELL", "exec", false),
        ("REMOTE_AGENT_DELEGATION", r#"{"hop": 1}"#, false),
        ("OPENCLAW_SHELL", "", true),
    ] {
        let mut typed = command(&arguments);
        typed.stdin(side()).stdout(side());
        typed.env(variable, marker);
        let output = wait_for_output(typed.spawn().unwrap()).await;
        let is_refused = output.stderr.contains("waits for a person's answer");
        assert_eq!(is_refused, !goes_through, "{output:?}");
    }
    let answer = last_message(&peers);
    assert_eq!(answer["parts"], text_parts("Braga"));
    let id = answer["messageId"].as_str().unwrap();
    assert!(id.starts_with("person-answer-"), "{answer}");
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
    // A script may have written the line.
    assert_eq!(questions[0]["by"], "standard input");
    assert_contains(&watched.stderr, &["standard input is not a terminal"]);
    assert_eq!(questions[0]["id"].as_str().unwrap().len(), 32);
    assert!(!text.contains("Braga") && !text.contains("Where"), "{text}");
}
