//! Parses the output of `openclaw agent --json`, and of `openclaw agents list --json`: a list of
//! `{id, identityName, isDefault}`.
//!
//! The format of a turn with `--local` is `{payloads, meta}`, and through a gateway
//! `{runId, status, result: {payloads, meta}}`. An error before the turn is `{ok: false, error: {type, message}}`. Log
//! lines may precede and follow the JSON.

use a2a::TaskState;
use a2a_server::executor::{Agent, ExecutionEvent, Outcome};
use base::process::Finished;
use gateway_bridge::openclaw;
use serde_json::{Value, json};

use super::error::CommandError;
use super::parts;

/// The maximum number of positions at which the parser looks for JSON.
const MAX_JSON_CANDIDATES: usize = 1000;

/// The parsed output of a turn.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(super) enum TurnOutput {
    /// The turn ended.
    Turn {
        /// The outcome of the run.
        outcome: Outcome,
        /// The metadata of OpenClaw about the turn.
        metadata: Option<ExecutionEvent>,
    },
    /// OpenClaw rejected the mode and did not start the turn.
    OtherMode,
}

/// Parses the output of a turn.
///
/// # Errors
/// The output contains no answer.
pub(super) fn read_turn(
    finished: &Finished,
    task: &str,
    context: &str,
) -> Result<TurnOutput, CommandError> {
    let printed = String::from_utf8_lossy(&finished.out);
    let stderr = String::from_utf8_lossy(&finished.err);
    let answer = find_json(&printed, is_answer);
    if let Some(message) = answer.as_ref().and_then(error) {
        return match is_other_mode(message) {
            true => Ok(TurnOutput::OtherMode),
            false => Err(CommandError::reported(message)),
        };
    }
    let Some(answer) = answer else {
        return match !finished.status.success() && is_other_mode(&stderr) {
            true => Ok(TurnOutput::OtherMode),
            false => Err(CommandError::without_answer(finished)),
        };
    };
    let response = match answer.get("payloads") {
        Some(_) => wrap_local_answer(answer),
        None => answer,
    };
    let task = openclaw::task_from_response(&response, task, context)
        .map_err(|error| CommandError::malformed(&error.message))?;
    let parts: Vec<_> = task
        .artifacts()
        .flat_map(|artifact| {
            let artifact = artifact.into_json();
            let parts = artifact["parts"].as_array();
            parts::from_agent(parts.map_or(&[][..], Vec::as_slice))
        })
        .collect();
    let metadata = task.json()["metadata"].as_object();
    let outcome = match task.state() {
        TaskState::Completed if finished.status.success() => Outcome::Completed(Some(parts)),
        TaskState::Canceled => return Err(CommandError::stopped()),
        _ => {
            let texts: Vec<_> = parts.iter().filter_map(|part| part.as_text()).collect();
            let text = task.status_text().unwrap_or_else(|| texts.join("\n\n"));
            return Err(CommandError::agent(&text));
        }
    };
    Ok(TurnOutput::Turn {
        outcome,
        metadata: metadata.map(|all| ExecutionEvent::Metadata(parts::task_metadata(all))),
    })
}

/// Converts the format of `--local` to that of a gateway.
fn wrap_local_answer(answer: Value) -> Value {
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

/// Returns the error of a turn that did not start.
fn error(value: &Value) -> Option<&str> {
    (value["ok"] == false)
        .then_some(value["error"]["message"].as_str())
        .flatten()
}

/// Returns whether OpenClaw rejected the mode and would accept the other one.
fn is_other_mode(message: &str) -> bool {
    message.contains("A Gateway is running for this state directory")
        || (message.contains("Gateway not reachable at") && message.contains("ECONNREFUSED"))
}

/// Returns the last JSON value in `printed` that starts a line and for which `accepts` returns true.
fn find_json(printed: &str, accepts: impl Fn(&Value) -> bool) -> Option<Value> {
    let printed = base::json::text(printed.as_bytes()).ok()?;
    let (mut rest, mut last) = (&*printed, None);
    for _ in 0..MAX_JSON_CANDIDATES {
        rest = rest.trim_start();
        if rest.starts_with(['{', '[']) {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            if let Some(Ok(value)) = values.next() {
                let read = values.byte_offset();
                rest = &rest[read..];
                last = Some(value).filter(&accepts).or(last);
                continue;
            }
        }
        let Some(line) = rest.find('\n') else { break };
        rest = &rest[line..];
    }
    last
}

/// Returns the agents, the default agent first.
pub(super) fn read_agents(finished: &Finished) -> Result<Vec<Agent>, CommandError> {
    let printed = String::from_utf8_lossy(&finished.out);
    let is_list = |value: &Value| {
        error(value).is_some() || value.as_array().is_some_and(|all| all.iter().all(is_agent))
    };
    let list =
        find_json(&printed, is_list).ok_or_else(|| CommandError::without_answer(finished))?;
    if let Some(message) = error(&list) {
        return Err(CommandError::reported(message));
    }
    let mut listed: Vec<_> = list
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .collect();
    listed.sort_by_key(|agent| agent["isDefault"] != true);
    Ok(listed.into_iter().filter_map(agent).collect())
}

fn is_agent(value: &Value) -> bool {
    value["id"].is_string()
}

fn agent(listed: &Value) -> Option<Agent> {
    let name = listed["id"].as_str()?;
    let title = listed["identityName"].as_str().or(listed["name"].as_str());
    Some(Agent {
        name: name.to_owned(),
        title: title.filter(|title| *title != name).map(str::to_owned),
        description: None,
        skills: Vec::new(),
    })
}
