//! `remote-agent conformance`.

use std::fs;

use serde_json::{Value, json};

use crate::cli::support::{run, scratch};
use crate::support::process::ProcessOutput;

async fn conformance(args: &[&str]) -> ProcessOutput {
    run(&[&["conformance"], args].concat()).await
}

/// Returns a directory of these cases.
fn cases(test: &str, cases: &[(&str, bool)]) -> String {
    let directory = scratch(test);
    for (name, ok) in cases {
        let file = directory.join(format!("{name}.json"));
        fs::write(file, lists(name, *ok).to_string()).unwrap();
    }
    directory.to_str().unwrap().to_owned()
}

/// A case that lists the targets of an empty configuration, and expects this `ok`.
fn lists(name: &str, ok: bool) -> Value {
    json!({
        "name": name, "description": "Lists.", "config": {},
        "requests": [{"action": "list_targets"}],
        "expect_contains": [{"/ok": ok}],
    })
}

#[tokio::test]
async fn counts_are_the_last_line() {
    let ended = conformance(&["--filter", "divergences/v15_", "--wire"]).await;
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stdout.lines().last(), Some("9 passed, 0 failed"));
}

#[tokio::test]
async fn failed_case_is_reported_and_exits_with_1() {
    let cases = cases("one-fails", &[("good", true), ("bad", false)]);
    let ended = conformance(&["--fixtures", &cases]).await;
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("FAIL") && lines[0].contains("expected false, got true"));
    assert_eq!(lines[1], "1 passed, 1 failed");
}

#[tokio::test]
async fn json_report_is_one_line() {
    let cases = cases("as-json", &[("good", true)]);
    let ended = conformance(&["--json", "--fixtures", &cases]).await;
    let report: Value = serde_json::from_str(ended.stdout.strip_suffix('\n').unwrap()).unwrap();
    assert_eq!(report["ok"], true, "{ended:?}");
    assert_eq!(report["cases"][0]["name"], "good");
}

#[tokio::test]
async fn another_program_is_tested_over_json_lines() {
    let args = [
        "--filter",
        "cont_01",
        "--",
        env!("CARGO_BIN_EXE_remote-agent"),
        "call",
        "--jsonl",
    ];
    let ended = conformance(&args).await;
    assert_eq!(
        (ended.status.code(), ended.stdout.as_str()),
        (Some(0), "1 passed, 0 failed\n"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn broken_program_fails_its_cases() {
    for (program, why) in [
        (&["false"][..], "it ended"),
        // It echoes each operation, which has no field of an answer.
        (&["cat"], "there is no `ok`"),
    ] {
        let cases = cases("broken", &[("good", true)]);
        let mut args = vec!["--fixtures", &cases, "--"];
        args.extend(program);
        let ended = conformance(&args).await;
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stdout.contains(why), "{ended:?}");
    }
}

#[tokio::test]
async fn program_that_cannot_start_is_reported_once() {
    let cases = cases("no-start", &[("a", true), ("b", true)]);
    let ended = conformance(&["--fixtures", &cases, "--", "/no/such/program"]).await;
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert_eq!(ended.stdout, "");
    let reported = "`/no/such/program` cannot be started";
    assert_eq!(ended.stderr.matches(reported).count(), 1, "{ended:?}");
}

#[tokio::test]
async fn empty_case_directory_is_a_usage_error() {
    let missing = conformance(&["--fixtures", "/nowhere/cases"]).await;
    let unmatched = conformance(&["--filter", "no_such_case"]).await;
    assert!(missing.stderr.contains("`/nowhere/cases`"), "{missing:?}");
    assert!(unmatched.stderr.contains("`no_such_case`"), "{unmatched:?}");
    assert_eq!(
        [missing, unmatched].map(|ended| ended.status.code()),
        [Some(2), Some(2)]
    );
}
