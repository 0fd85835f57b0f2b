#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use a2a::v1_0::{Message, Part, PartContent, Role};
use a2a_server::executor::ExecutionEvent;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use base::environment::SystemEnvironment;
use base::log::Silent;

mod agents;
mod answers;
mod ends;
mod faults;
mod line;
mod modes;

const LOCAL_ANSWER: &str = r#"{"payloads":[{"text":"done","mediaUrl":null}],"meta":{"durationMs":12,"agentMeta":{"usage":{"total":15}}}}"#;
const GATEWAY_ANSWER: &str = r#"{"runId":"r","status":"ok","summary":"completed","result":{"payloads":[{"text":"done","mediaUrl":null}],"meta":{"durationMs":12,"agentMeta":{"usage":{"total":15}}}}}"#;
const GATEWAY_RUNS: &str = r#"{"ok":false,"error":{"type":"cli_error","message":"A Gateway is running for this state directory (pid 1, port 2). Run without --local to use it."}}"#;
const GATEWAY_UNREACHABLE: &str = r#"{"ok":false,"error":{"type":"cli_error","message":"Gateway not reachable at ws://127.0.0.1:1 (ECONNREFUSED)."}}"#;

/// A directory with a script in place of the command `openclaw`.
struct FakeCommand(TempDir);

impl FakeCommand {
    fn new(script: &str) -> Self {
        Self::write(&format!("#!/bin/sh\n{script}\n"))
    }

    /// Writes the script in a separate process: a file cannot be executed while a process that another thread started
    /// has it open.
    fn write(text: &str) -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        let wait_for_line = std::process::Command::new("sh")
            .args(["-c", "printf '%s' \"$1\" > \"$0\" && chmod 755 \"$0\""])
            .arg(fake.path())
            .arg(text)
            .status();
        assert!(wait_for_line.unwrap().success());
        fake
    }

    /// Creates a script that prints `answer` and records its arguments.
    fn printing(answer: &str) -> Self {
        Self::new(&format!(
            "for a in \"$@\"; do printf '%s\\0' \"$a\"; done >> \"$OPENCLAW_STATE_DIR/seen\"; cat <<'END'\n{answer}\nEND"
        ))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("openclaw")
    }

    fn settings(&self) -> CommandSettings {
        let state = self.0.path().to_str().unwrap().to_owned();
        CommandSettings {
            openclaw_path: self.path(),
            env_vars: vec![("OPENCLAW_STATE_DIR".into(), state.into())],
            ..CommandSettings::default()
        }
    }

    fn executor(&self) -> CommandExecutor {
        executor(self.settings())
    }

    /// Returns the arguments of all runs in order.
    fn arguments(&self) -> Vec<String> {
        let arguments = fs::read_to_string(self.0.path().join("seen")).unwrap();
        arguments
            .split_terminator('\0')
            .map(str::to_owned)
            .collect()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn executor(settings: CommandSettings) -> CommandExecutor {
    CommandExecutor::new(settings, Arc::new(SystemEnvironment), Arc::new(Silent))
}

fn input(text: &str) -> RunInput {
    RunInput {
        task_id: "task".into(),
        context_id: "context".into(),
        session: "a2a-context".into(),
        agent: None,
        client: "client".into(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        delegation: None,
    }
}

async fn outcome_of(executor: &CommandExecutor, input: RunInput) -> (Outcome, Vec<ExecutionEvent>) {
    let (events, mut received) = mpsc::channel(16);
    let outcome = executor.run(input, events, CancellationToken::new()).await;
    let mut all = Vec::new();
    while let Some(report) = received.recv().await {
        all.push(report);
    }
    (outcome, all)
}

async fn failure(executor: &CommandExecutor) -> (&'static str, String) {
    match outcome_of(executor, input("hello")).await.0 {
        Outcome::Failed { reason, text } => (reason, text),
        other => panic!("{other:?}"),
    }
}

async fn answer_of(fake: &FakeCommand) -> Vec<Part> {
    match outcome_of(&fake.executor(), input("hello")).await.0 {
        Outcome::Completed(Some(parts)) => parts,
        other => panic!("{other:?}"),
    }
}

/// Waits until a process has written the file.
async fn wait_for_line(path: &Path) -> String {
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Returns whether the process exists and is no zombie.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

async fn wait_until_gone(pid: &str) {
    while is_alive(pid) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
