//! `remote-agent conformance`.

pub(crate) use crate::support::process;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use process::{ProcessOutput, wait_for_output};
use serde_json::{Value, json};

const COMMAND: &str = env!("CARGO_BIN_EXE_remote-agent");

async fn conformance(args: &[&str]) -> ProcessOutput {
    let mut command = Command::new(COMMAND);
    command.arg("conformance").args(args);
    command.env_remove("REMOTE_AGENT_LIBRARY");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    wait_for_output(command.spawn().unwrap()).await
}

/// A temporary directory of cases.
struct Cases(PathBuf);

impl Cases {
    fn new(name: &str, cases: &[(&str, Value)]) -> Self {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        for (name, case) in cases {
            fs::write(root.join(format!("{name}.json")), case.to_string()).unwrap();
        }
        Self(root)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
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
    let cases = Cases::new(
        "one-fails",
        &[("good", lists("good", true)), ("bad", lists("bad", false))],
    );
    let ended = conformance(&["--fixtures", cases.path()]).await;
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ended:?}");
    assert!(lines[0].starts_with("FAIL") && lines[0].contains("expected false, got true"));
    assert_eq!(lines[1], "1 passed, 1 failed");
}

#[tokio::test]
async fn json_report_is_one_line() {
    let cases = Cases::new("as-json", &[("good", lists("good", true))]);
    let ended = conformance(&["--json", "--fixtures", cases.path()]).await;
    let report: Value = serde_json::from_str(ended.stdout.strip_suffix('\n').unwrap()).unwrap();
    assert_eq!(report["ok"], true, "{ended:?}");
    assert_eq!(report["cases"][0]["name"], "good");
}

#[tokio::test]
async fn another_program_is_tested_over_json_lines() {
    let args = ["--filter", "cont_01", "--", COMMAND, "call", "--jsonl"];
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
        let cases = Cases::new("broken", &[("good", lists("good", true))]);
        let mut args = vec!["--fixtures", cases.path(), "--"];
        args.extend(program);
        let ended = conformance(&args).await;
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert!(ended.stdout.contains(why), "{ended:?}");
    }
}

#[tokio::test]
async fn program_that_cannot_start_is_reported_once() {
    let cases = Cases::new(
        "no-start",
        &[("a", lists("a", true)), ("b", lists("b", true))],
    );
    let ended = conformance(&["--fixtures", cases.path(), "--", "/no/such/program"]).await;
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
