//! A backend that runs a command: one process per turn.
//!
//! The process reads one JSON object from standard input and prints its answer: text, or JSON Lines of `{"type": "status" |
//! "message" | "error", "text"}`. Untrusted text is never passed as an argument.

use std::borrow::Cow;
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use base::process::{self, Ended, Finished};
use gateway_bridge::delegation::Delegation;

use super::backend::{AgentBackend, BackendError, ProgressSink, Turn};

/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// The timeout of a process. The agent's own timeout is shorter.
const PROCESS_TIMEOUT: Duration = Duration::from_hours(24);

/// The maximum length of a command's last output in the operator's log, in characters.
const MAX_DETAIL_CHARS: usize = 1000;

/// The environment variable with the delegation of a command's turn, as JSON. Messages that the command sends to other
/// agents carry the next hop.
pub const DELEGATION_VARIABLE: &str = "REMOTE_AGENT_DELEGATION";

/// Runs a command for each turn.
#[derive(Debug, Clone)]
pub struct CommandBackend {
    command: String,
    removed_variables: Vec<String>,
}

impl CommandBackend {
    /// Creates a backend that runs `command` in the system's shell.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            removed_variables: Vec::new(),
        }
    }

    /// Removes environment variables, such as secrets, from the environment of the processes.
    #[must_use]
    pub fn without_variables(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.removed_variables.extend(names);
        self
    }

    /// Asks the shell whether it finds the program of the command, without running it. Returns whether it checked that: a command
    /// that does not begin with the name of a program is not checked.
    ///
    /// # Errors
    /// The shell does not find it; its name.
    pub async fn probe(&self) -> Result<bool, String> {
        let program = self.command.split_whitespace().next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
        if cfg!(windows) || !program.chars().all(is_plain) {
            return Ok(false);
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "command -v -- \"$1\" >/dev/null", "sh", program]);
        let found = shell.stdin(Stdio::null()).status().await;
        match found.is_ok_and(|status| status.success()) {
            true => Ok(true),
            false => Err(program.to_owned()),
        }
    }

    fn process(&self, turn: &Turn) -> Command {
        let (shell, option) = match cfg!(windows) {
            true => ("cmd", "/C"),
            false => ("sh", "-c"),
        };
        let mut command = Command::new(shell);
        command.args([option, &self.command]);
        for name in &self.removed_variables {
            command.env_remove(name);
        }
        let delegation = turn.delegation.as_ref().map(Delegation::json);
        // A message without a delegation starts a chain.
        let delegation = delegation.unwrap_or_else(|| json!({"hop": 0}));
        command.env(DELEGATION_VARIABLE, delegation.to_string());
        command
    }

    async fn run(
        &self,
        turn: &Turn,
        progress: ProgressSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, BackendError> {
        let input = format!("{}\n", input(turn));
        let stop = cancel.child_token();
        let mut bytes = 0_usize;
        let mut line = Vec::new();
        let on_output = |piece: &[u8]| {
            bytes += piece.len();
            if bytes > MAX_ANSWER_BYTES {
                stop.cancel();
                return;
            }
            line.extend_from_slice(piece);
            if let Some(end) = line.iter().rposition(|byte| *byte == b'\n') {
                line.drain(..=end)
                    .as_slice()
                    .split(|byte| *byte == b'\n')
                    .filter_map(status)
                    .for_each(|text| progress(&text));
            }
        };
        let until = Instant::now() + PROCESS_TIMEOUT;
        let ended = process::run(self.process(turn), Some(&input), until, &stop, on_output).await;
        let ended = ended.map_err(|error| {
            BackendError::new("the command of the agent does not start")
                .with_detail(error.to_string())
        })?;
        match ended {
            Ended::Exited(_) | Ended::Canceled if bytes > MAX_ANSWER_BYTES => {
                Err(BackendError::new(format!(
                    "the command of the agent printed more than {MAX_ANSWER_BYTES} bytes and was stopped"
                )))
            }
            Ended::Exited(finished) => read_answer(&finished, turn),
            Ended::TimedOut | Ended::Canceled => {
                Err(BackendError::new("the command of the agent was stopped"))
            }
        }
    }
}

impl AgentBackend for CommandBackend {
    fn answer<'a>(
        &'a self,
        turn: &'a Turn,
        progress: ProgressSink<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, BackendError>> {
        Box::pin(self.run(turn, progress, cancel))
    }
}

/// Returns the JSON for the standard input of a process.
fn input(turn: &Turn) -> Value {
    let history: Vec<Value> = turn
        .history
        .iter()
        .map(|one| json!({"from": one.from, "text": one.text}))
        .collect();
    let mut input = json!({
        "type": "message", "agent": turn.agent, "from": turn.from, "thread": turn.thread, "text": turn.text,
        "history": history,
    });
    if let Some(proposal) = &turn.proposal {
        input["type"] = "proposal".into();
        input["proposalId"] = proposal.id.as_str().into();
        input["proposal"] = proposal.text.as_str().into();
        input["reasoning"] = proposal.reasoning.as_deref().into();
    }
    if let Some(delegation) = &turn.delegation {
        input["delegation"] = delegation.json();
    }
    input
}

/// Parses the output of a process that exited on its own.
fn read_answer(finished: &Finished, turn: &Turn) -> Result<String, BackendError> {
    let stderr_tail = || finished.stderr_tail(MAX_DETAIL_CHARS);
    if !finished.status.success() {
        let message = format!("the command of the agent failed: {}", finished.status);
        return Err(BackendError::new(message).with_detail(stderr_tail()));
    }
    let Ok(text) = std::str::from_utf8(&finished.out) else {
        let message = "the command of the agent printed bytes that are not UTF-8";
        return Err(BackendError::new(message));
    };
    let text = match json_lines(text) {
        // A vote is one JSON object; its parser refuses several.
        Some(lines) if turn.proposal.is_none() => message(&lines)?,
        _ => Cow::Borrowed(text),
    };
    let text = text.trim();
    if text.is_empty() {
        let message = "the command of the agent printed no answer";
        return Err(BackendError::new(message).with_detail(stderr_tail()));
    }
    Ok(text.to_owned())
}

/// Returns the text of a line `{"type": "status", "text"}`.
fn status(line: &[u8]) -> Option<String> {
    let line: Value = base::json::from_slice(line, collective::FRAME_LIMITS).ok()?;
    let text = line["text"].as_str().filter(|_| line["type"] == "status")?;
    Some(text.to_owned())
}

/// Parses JSON Lines. Returns `None` for output in another format.
fn json_lines(text: &str) -> Option<Vec<Value>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let parsed: Option<Vec<Value>> = lines
        .map(|line| {
            let value: Value = base::json::from_str(line, collective::FRAME_LIMITS).ok()?;
            value["type"].is_string().then_some(value)
        })
        .collect();
    parsed.filter(|lines| !lines.is_empty())
}

/// Joins the messages of JSON Lines.
fn message(lines: &[Value]) -> Result<Cow<'static, str>, BackendError> {
    let mut texts = Vec::new();
    for line in lines {
        let text = line["text"].as_str().unwrap_or_default();
        match line["type"].as_str() {
            Some("message") => texts.push(text),
            Some("error") => return Err(BackendError::new(text)),
            _ => {}
        }
    }
    Ok(texts.join("\n").into())
}

#[cfg(all(test, unix))]
mod tests;
