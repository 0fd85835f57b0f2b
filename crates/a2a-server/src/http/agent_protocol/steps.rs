//! Steps: tasks of A2A in the form of the Agent Protocol.

use std::collections::HashMap;

use a2a::v1_0::{
    Artifact, Message, Part, Role, SendMessageRequest, SendMessageResponse, Task, TaskState,
};
use a2a::{A2aError, ErrorReason};
use serde_json::{Value, json};

use super::artifacts::{self, ARTIFACT_ID, ArtifactFile, RELATIVE_PATH};
use super::drafts::{Draft, Input, Upload};
use super::{Failure, InputBody, invalid_input};
use crate::call_context::CallContext;
use crate::service::{AGENT, DELEGATION, SendMessage};
use crate::store::Summary;
use base::json::encoded_bytes;

/// The metadata key of a message for the additional input of a task or step.
const ADDITIONAL_INPUT: &str = "openclaw-remote-agent/additional-input";

/// Returns the message for the next step of a task. `last` is the previous step and `inherited` its delegation. The
/// next step continues that chain of agents, unless its own input or that of the task contains a delegation.
///
/// # Errors
/// There is no input text.
pub(super) fn request(
    caller: &CallContext,
    task: &str,
    draft: Option<&Draft>,
    last: Option<&Summary>,
    inherited: Option<Value>,
    body: InputBody,
) -> Result<SendMessage, Failure> {
    let start = draft.and_then(|draft| draft.input.as_ref());
    let input = body.input.filter(|text| !text.is_empty());
    let mut texts: Vec<String> = start
        .and_then(|input| input.text.clone())
        .into_iter()
        .collect();
    texts.extend(input.filter(|input| !texts.contains(input)));
    if texts.is_empty() {
        let reason = "`input` is missing; the agent has done what it was asked before";
        return Err(invalid_input("input", reason));
    }
    let mut parts: Vec<Part> = texts.into_iter().map(Part::text).collect();
    let files = draft
        .map(|draft| draft.files.as_slice())
        .unwrap_or_default();
    parts.extend(files.iter().map(file_part));
    let task_input = start.map(Input::additional).unwrap_or_default();
    let inputs = [&body.additional_input, &task_input];
    let own_delegation = inputs.iter().find_map(|input| input.get(DELEGATION));
    let delegation = own_delegation.cloned().or(inherited);
    let additional = match body.additional_input {
        Value::Null => task_input,
        explicit => explicit,
    };
    let mut metadata = HashMap::new();
    if let Some(delegation) = delegation {
        metadata.insert(DELEGATION.to_owned(), delegation);
    }
    if !additional.is_null() {
        metadata.insert(ADDITIONAL_INPUT.to_owned(), additional);
    }
    let agent_name = match start {
        Some(input) => input.agent.clone(),
        None => last.and_then(|last| last.agent.clone()),
    };
    if let (Some(agent), None) = (agent_name, &caller.agent) {
        metadata.insert(AGENT.to_owned(), agent.into());
    }
    let mut message = Message::new(Role::User, parts);
    message.context_id = Some(task.to_owned());
    // The answer to a question continues the task with the question.
    message.task_id = last
        .filter(|last| {
            matches!(
                last.state,
                TaskState::InputRequired | TaskState::AuthRequired
            )
        })
        .map(|last| last.id.clone());
    message.metadata = (!metadata.is_empty()).then_some(metadata);
    let request = SendMessageRequest {
        message,
        configuration: None,
        metadata: None,
        tenant: None,
    };
    Ok(SendMessage {
        request,
        return_immediately: Some(false),
    })
}

fn file_part(file: &Upload) -> Part {
    let mut part = Part::raw(file.bytes.to_vec());
    part.filename = Some(file.file_name.clone());
    part.media_type.clone_from(&file.media_type);
    let mut metadata = HashMap::from([(ARTIFACT_ID.to_owned(), Value::from(&*file.id))]);
    if let Some(path) = &file.relative_path {
        metadata.insert(RELATIVE_PATH.to_owned(), path.as_str().into());
    }
    part.metadata = Some(metadata);
    part
}

/// Returns the step as JSON for the result of a sent message.
pub(super) fn sent_json(task: &str, sent: SendMessageResponse) -> Value {
    match sent {
        SendMessageResponse::Task(step) => json(task, &step),
        SendMessageResponse::Message(message) => json!({
            "task_id": task,
            "step_id": message.message_id,
            "name": null,
            "status": "completed",
            "output": join_texts(&message.parts),
            "additional_output": null,
            "artifacts": [],
            "is_last": true,
        }),
    }
}

/// Returns a step as JSON.
pub(super) fn json(task: &str, step: &Task) -> Value {
    let state = &step.status.state;
    let status = match state {
        TaskState::Unspecified | TaskState::Submitted => "created",
        TaskState::Working => "running",
        _ => "completed",
    };
    let message_text = step.status.message.as_ref();
    let message_text = message_text.and_then(|message| join_texts(&message.parts));
    let artifact_texts = step.artifacts.iter().flatten();
    // A streamed text arrives in several parts, which may split it anywhere.
    let text = |artifact: &Artifact| artifact.parts.iter().filter_map(Part::as_text).collect();
    let artifact_texts: Vec<String> = artifact_texts
        .map(text)
        .filter(|text: &String| !text.is_empty())
        .collect();
    let output =
        message_text.or_else(|| (!artifact_texts.is_empty()).then(|| artifact_texts.join("\n\n")));
    let artifacts: Vec<Value> = artifacts::agent_artifacts(step)
        .iter()
        .map(ArtifactFile::json)
        .collect();
    json!({
        "task_id": task,
        "step_id": step.id,
        "name": null,
        "input": input(step),
        "additional_input": additional_input(step),
        "status": status,
        "output": output,
        "additional_output": {"state": state},
        "artifacts": artifacts,
        "is_last": state.is_terminal(),
    })
}

/// Returns the text of the client's first message.
pub(super) fn input(step: &Task) -> Option<String> {
    join_texts(&first_user_message(step)?.parts)
}

/// Returns the additional input of the client's first message.
pub(super) fn additional_input(step: &Task) -> Value {
    let metadata = first_user_message(step).and_then(|message| message.metadata.as_ref());
    let additional = metadata.and_then(|metadata| metadata.get(ADDITIONAL_INPUT));
    additional.cloned().unwrap_or_default()
}

/// Returns the delegation of the client's first message.
pub(super) fn delegation(step: &Task) -> Option<Value> {
    let metadata = first_user_message(step)?.metadata.as_ref()?;
    metadata.get(DELEGATION).cloned()
}

fn first_user_message(step: &Task) -> Option<&Message> {
    let mut messages = step.history.iter().flatten();
    messages.find(|message| message.role == Role::User)
}

/// Returns the concatenated text parts; `None` if there are none.
fn join_texts(parts: &[Part]) -> Option<String> {
    let texts: Vec<&str> = parts.iter().filter_map(Part::as_text).collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Limits the bytes of steps that one request may load. The first step always fits.
pub(super) struct StepBudget {
    limit: usize,
    spent: usize,
}

impl StepBudget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, spent: 0 }
    }

    /// Counts a step.
    ///
    /// # Errors
    /// The steps exceed the limit.
    pub(super) fn spend(&mut self, step: &Task) -> Result<(), Failure> {
        let is_first = self.spent == 0;
        self.spent = self.spent.saturating_add(encoded_bytes(step));
        if is_first || self.spent <= self.limit {
            return Ok(());
        }
        let text = format!(
            "the steps exceed {} bytes; list fewer of them with `page_size`, or get one by its id",
            self.limit
        );
        Err(A2aError::new(ErrorReason::ResourceExhausted, text).into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn steps_above_the_limit_are_refused() {
        let task = json!({"id": "1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}});
        let step: Task = serde_json::from_value(task).unwrap();
        let size = encoded_bytes(&step);
        let mut budget = StepBudget::new(2 * size);
        assert!(budget.spend(&step).is_ok() && budget.spend(&step).is_ok());
        let refused = budget.spend(&step).unwrap_err().error;
        assert_eq!(refused.reason, ErrorReason::ResourceExhausted);
        let mut budget = StepBudget::new(size - 1);
        assert!(budget.spend(&step).is_ok(), "the first step always fits");
    }
}
