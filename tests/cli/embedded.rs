//! A gateway for the duration of one command, with agents from the command line.

use crate::cli::support::*;

const TRIAD: [&str; 6] = [
    "--gateway-agent",
    "alpha=approve",
    "--gateway-agent",
    "beta=reject",
    "--gateway-agent",
    "charlie=approve",
];

fn with<'a>(command: &[&'a str], agents: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [command, &["--gateway", "embedded"], agents, rest].concat()
}

#[tokio::test]
async fn one_command_shows_a_triad_decide() {
    let rest = ["--target", "triad", "--follow", "Ship it"];
    let output = run(&with(&["send"], &TRIAD, &rest)).await;
    assert_exit_code(&output, 0);
    assert_contains(
        &output.stdout,
        &["alpha approve, beta reject, charlie approve"],
    );
    assert_contains(&output.stderr, &["alpha, beta, charlie"]);
    // The gateway has ended, so the command prints no continuation.
    assert!(!output.stderr.contains("remote-agent send"), "{output:?}");
}

#[tokio::test]
async fn agent_option_adds_a_listed_agent() {
    let coder = ["--gateway-agent", "coder=reply:I read: {text}"];
    let output = run(&with(&["send"], &coder, &["--target", "coder", "hello"])).await;
    assert_exit_code(&output, 0);
    assert_eq!(output.stdout, "I read: hello\n");
    let output = run(&with(&["targets"], &coder, &[])).await;
    assert_exit_code(&output, 0);
    let row = output
        .stdout
        .lines()
        .find(|line| line.contains("gateway:coder"));
    assert!(row.is_some_and(|row| row.contains("online")), "{output:?}");
}

#[tokio::test]
async fn jsonl_has_embedded_agents() {
    let request = r#"{"action": "send", "target_alias": "gateway:coder", "parts": [{"kind": "text", "text": "hello"}]}"#;
    let coder = ["--gateway-agent", "coder=reply:done"];
    let output = run(&with(&["call"], &coder, &[request])).await;
    assert_exit_code(&output, 0);
    assert_eq!(json_lines(&output)[0]["summary"]["message_text"], "done");
}

#[tokio::test]
async fn unsupported_gateway_command_names_alternatives() {
    for (line, reported) in [
        (
            "status --gateway embedded --task t",
            "start `remote-agent gateway`",
        ),
        (
            "send --gateway embedded --task t hi",
            "start `remote-agent gateway`",
        ),
        (
            "targets --gateway embedded --gateway-agent alpha",
            "NAME=approve",
        ),
        (
            "targets --gateway ws://127.0.0.1:1 --gateway-agent alpha=approve",
            "remote-agent gateway agent --url ws://127.0.0.1:1 --name alpha",
        ),
    ] {
        let output = run_line(line).await;
        assert_exit_code(&output, 2);
        assert_contains(&output.stderr, &[reported]);
    }
    let output = run(&with(&["send"], &[], &["--target", "alpha", "hi"])).await;
    assert_exit_code(&output, 3);
    assert_contains(
        &output.stderr,
        &["no agents; ", "`--gateway-agent NAME=approve`"],
    );
}
