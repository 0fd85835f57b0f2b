//! The demo.

use std::fs;

use serde_json::Value;

use crate::cli::{process::wait_for_output, support::*};

#[tokio::test]
async fn demo_passes_and_leaves_no_files() {
    let temporary = scratch("demo");
    let child = command(&["demo"]).env("TMPDIR", &temporary).spawn();
    let output = wait_for_output(child.unwrap()).await;
    assert_exit_code(&output, 0);
    let actions = ["list_targets", "send", "watch", "cancel", "status"];
    assert_contains(&output.stdout, &actions);
    assert_contains(&output.stdout, &["EXPIRED_TASK_HANDLE", "steps passed"]);
    assert_contains(
        &output.stdout,
        &[
            "A2A 1.0",
            "taken up again",
            "wait_expired",
            "alpha approve, beta reject, charlie approve",
        ],
    );
    let command = env!("CARGO_BIN_EXE_remote-agent");
    assert_contains(&output.stdout, &[&format!("`{command} targets --url URL`")]);
    assert!(
        !output.stdout.contains('\u{1b}'),
        "no colour without a terminal"
    );
    assert_eq!(output.stderr, "");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[tokio::test]
async fn demo_is_colored_on_request() {
    let child = command(&["demo", "--color", "always"])
        .env("NO_COLOR", "1")
        .spawn();
    let output = wait_for_output(child.unwrap()).await;
    assert_exit_code(&output, 0);
    assert_contains(&output.stdout, &["\u{1b}[32mok\u{1b}[0m"]);
}

#[tokio::test]
async fn demo_prints_only_its_envelopes() {
    let output = run(&["demo", "--json", "--color", "always"]).await;
    assert_exit_code(&output, 0);
    let envelopes = json_lines(&output);
    for envelope in &envelopes {
        assert_eq!(envelope["operation"], "remote_agent");
        assert!(envelope["phase"].is_null(), "{envelope}");
    }
    let refused: Vec<_> = envelopes
        .iter()
        .filter(|envelope| envelope["ok"] != true)
        .map(|envelope| &envelope["error"]["code"])
        .collect();
    assert_eq!(refused, ["EXPIRED_TASK_HANDLE", "VALIDATION_ERROR"]);
    assert_eq!(envelopes.len(), 20);
    let says = |pointer: &str, value: &str| {
        let reported = |envelope: &&Value| envelope.pointer(pointer).is_some_and(|at| at == value);
        envelopes.iter().filter(reported).count()
    };
    assert!(
        says("/summary/protocol_version", "1.0") > 0,
        "{envelopes:?}"
    );
    assert!(
        says("/summary/protocol_version", "0.3") > 0,
        "{envelopes:?}"
    );
    let expired = envelopes
        .iter()
        .filter(|envelope| envelope["summary"]["wait_expired"] == true);
    assert_eq!(expired.count(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn interrupted_demo_ends_and_removes_its_files() {
    use std::io::{BufRead, BufReader};
    let temporary = scratch("demo-interrupted");
    let mut child = command(&["demo"])
        .env("TMPDIR", &temporary)
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    interrupt(&child);
    child.stdout = Some(stdout.into_inner());
    let output = wait_for_output(child).await;
    assert_exit_code(&output, 130);
    assert_contains(&output.stderr, &["interrupted"]);
    assert!(!output.stderr.contains("panicked"), "{output:?}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn demo_ends_when_standard_output_closes() {
    let mut child = command(&["demo"]).spawn().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(
        child
            .stdout
            .replace(std::process::ChildStdout::from(std::os::fd::OwnedFd::from(
                reader,
            ))),
    );
    drop(writer);
    let output = wait_for_output(child).await;
    assert_exit_code(&output, 1);
    assert_contains(&output.stderr, &["standard output is closed"]);
}
