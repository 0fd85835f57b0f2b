//! Reads the output of `openclaw agent --json`.
//!
//! With `--local` it is `{payloads, meta}`, through the gateway `{runId, status, result: {payloads, meta}}`. An error
//! before the turn is `{ok: false, error: {type, message}}`. Log lines may precede and follow it.

use a2a_server::executor::{ExecutionEvent, Outcome};
use serde_json::{Value, json};

use a2a::TaskState;
use gateway_bridge::openclaw;
use process::Finished;

use super::error::CommandError;
use super::parts;

/// The maximum number of positions where parsing of JSON is tried.
const MAX_JSON_CANDIDATES: usize = 1000;

/// The result of a turn.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum Reading {
    /// The turn ended.
    Turn {
        /// The outcome.
        outcome: Outcome,
        /// OpenClaw's metadata of the turn.
        metadata: Option<ExecutionEvent>,
    },
    /// The turn did not start: OpenClaw refused the mode.
    OtherMode,
}

/// Reads the output of a turn.
///
/// # Errors
/// The output contains no answer.
pub(super) fn read(
    finished: &Finished,
    task: &str,
    context: &str,
) -> Result<Reading, CommandError> {
    let printed = String::from_utf8_lossy(&finished.out);
    let said = String::from_utf8_lossy(&finished.err);
    let found = found(&printed, is_answer);
    if let Some(message) = found.as_ref().and_then(error) {
        return match is_other_mode(message) {
            true => Ok(Reading::OtherMode),
            false => Err(CommandError::reported(message)),
        };
    }
    let Some(answer) = found else {
        return match !finished.status.success() && is_other_mode(&said) {
            true => Ok(Reading::OtherMode),
            false => Err(CommandError::without_answer(finished)),
        };
    };
    let response = match answer.get("payloads") {
        Some(_) => of_local(answer),
        None => answer,
    };
    let task = openclaw::answered(&response, task, context)
        .map_err(|error| CommandError::malformed(&error.message))?;
    let said: Vec<_> = task
        .artifacts()
        .flat_map(|artifact| parts::from_agent(artifact.parts()))
        .collect();
    let metadata = task.json()["metadata"].as_object();
    let outcome = match task.state() {
        TaskState::Completed if finished.status.success() => Outcome::Completed(Some(said)),
        TaskState::Canceled => return Err(CommandError::stopped()),
        _ => {
            let words: Vec<_> = said.iter().filter_map(|part| part.as_text()).collect();
            let why = task.status_text().unwrap_or_else(|| words.join("\n\n"));
            return Err(CommandError::agent(&why));
        }
    };
    Ok(Reading::Turn {
        outcome,
        metadata: metadata.map(|all| ExecutionEvent::Metadata(parts::owned(all))),
    })
}

/// Converts an answer of `--local` to the format of the gateway.
fn of_local(answer: Value) -> Value {
    let aborted = answer.pointer("/meta/aborted") == Some(&json!(true));
    let status = if aborted { "timeout" } else { "ok" };
    let summary = if aborted { "aborted" } else { "completed" };
    json!({ "status": status, "summary": summary, "result": answer })
}

fn is_answer(value: &Value) -> bool {
    value["payloads"].is_array()
        || error(value).is_some()
        || (value["status"].is_string() && value["runId"].is_string())
}

/// Returns the error of a turn that did not begin.
pub(super) fn error(value: &Value) -> Option<&str> {
    (value["ok"] == false)
        .then_some(value["error"]["message"].as_str())
        .flatten()
}

/// Returns whether OpenClaw refused the mode and would accept the other one.
fn is_other_mode(message: &str) -> bool {
    message.contains("A Gateway is running for this state directory")
        || (message.contains("Gateway not reachable at") && message.contains("ECONNREFUSED"))
}

/// Returns the last JSON in `printed` that begins a line and that `wanted` accepts.
pub(super) fn found(printed: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let (mut rest, mut last) = (printed, None);
    for _ in 0..MAX_JSON_CANDIDATES {
        rest = rest.trim_start();
        if rest.starts_with(['{', '[']) {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                let read = values.byte_offset();
                rest = &rest[read..];
                last = Some(value).filter(&wanted).or(last);
                continue;
            }
        }
        let Some(line) = rest.find('\n') else { break };
        rest = &rest[line..];
    }
    last
}
