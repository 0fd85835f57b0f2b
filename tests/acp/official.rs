//! acpx and the official SDK as clients of the command.

use std::process::Output;

use super::*;
use crate::support::node::acp_clients;

#[test]
fn official_sdk_runs_the_agent() {
    let fixture = Fixture::new();
    let installed = acp_clients();
    let script = installed.package("../client.mjs");
    std::fs::write(&script, include_str!("client.mjs")).unwrap();
    let output = Command::new(installed.node())
        .arg(&script)
        .arg(executable())
        .args(["acp", "--url", fixture.server.url(), "--state-dir"])
        .arg(fixture.state_dir.path())
        .output()
        .unwrap();
    let results: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let expected = json!({
        "version": 1, "streamed": "alpha beta gamma", "asked": "Which colour?", "answered": "you said blue", "refused": "refusal",
        "failed": "the task of the agent failed: It rains", "file": "artifact:a.bin", "cancelled": "cancelled", "resumed": "again",
        "unknown": -32002,
    });
    assert_eq!(results, expected);
}

/// Runs acpx in a home of its own.
fn acpx(fixture: &Fixture, arguments: &[&str]) -> Output {
    let installed = acp_clients();
    let agent = format!(
        "{} acp --url {} --state-dir {}",
        executable().display(),
        fixture.server.url(),
        fixture.state_dir.path().join("acp").display()
    );
    let output = Command::new(installed.node())
        .arg(installed.package("acpx/dist/cli.js"))
        .args(["--format", "quiet", "--ttl", "5", "--agent", &agent])
        .args(arguments)
        .env("HOME", fixture.state_dir.path())
        .current_dir(fixture.state_dir.path())
        .output()
        .unwrap();
    let [said, noted] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    println!("$ acpx {}\n{said}{noted}", arguments.join(" "));
    output
}

#[test]
fn acpx_runs_the_agent() {
    let fixture = Fixture::new();
    let output = acpx(&fixture, &["exec", "echo hello"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "hello");
    let failed = acpx(&fixture, &["exec", "fail It rains"]);
    assert!(!failed.status.success(), "{failed:?}");
}

#[test]
fn acpx_resumes_a_session_and_answers_its_question() {
    let fixture = Fixture::new();
    // This process of the agent ends, and another one gets the prompts.
    let created = acpx(&fixture, &["sessions", "new"]);
    assert!(created.status.success(), "{created:?}");
    let answers = [
        ("ask Which colour?", "Which colour?"),
        ("blue", "you said blue"),
    ];
    for (prompt, answer) in answers {
        let output = acpx(&fixture, &["prompt", prompt]);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            answer,
            "{output:?}"
        );
    }
    assert_eq!(task_states(&fixture.server), ["TASK_STATE_COMPLETED"]);
    let closed = acpx(&fixture, &["sessions", "close"]);
    assert!(closed.status.success(), "{closed:?}");
}
