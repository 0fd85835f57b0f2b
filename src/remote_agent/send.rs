//! `send`: sends a message to a target.

use serde_json::Value;

use crate::config::Policy;
use a2a::{Message, Reply, SendRequest, Task};
use peer::{Delivered, Peer};

use super::call::Call;
use super::diagnostics::{MediaTypes, with_diagnostics};
use super::error::{Reason, ToolError};
use super::follow::{Start, follow};
use super::request::{Request, TaskRequirement, push_config};

/// Sends the message of `request` and returns the envelope.
///
/// # Errors
/// The call failed; the details have the card's diagnostics.
pub(super) async fn send(
    call: &mut Call<'_>,
    mut request: Box<Request>,
    policy: &Policy,
    fresh_id: String,
) -> Result<String, ToolError> {
    let accepted = request
        .accepted_output_modes
        .take()
        .unwrap_or_else(|| policy.accepted_output_modes.clone());
    let required = request.task_requirement == TaskRequirement::Required;
    let parameters: Vec<_> = std::mem::take(&mut request.service_parameters)
        .into_iter()
        .collect();
    let peer = call
        .open(&parameters)
        .await
        .map_err(|error| error.delivered(Delivered::No).for_send())?;
    let outgoing = SendRequest {
        message_id: request.message_id.unwrap_or(fresh_id),
        parts: request
            .parts
            .unwrap_or_default()
            .into_iter()
            .map(|part| part.into_part())
            .collect(),
        task_id: call.task_id.clone(),
        context_id: call.context_id.clone(),
        reference_task_ids: request.reference_task_ids,
        accepted_output_modes: accepted,
        // A required task should come at once, not when it is done.
        blocking: !required && request.blocking.unwrap_or(true),
        followed: request.follow_updates,
        history_length: request.history_length,
        push_notification_config: request.push_notification_config.as_ref().map(push_config),
        metadata: request.metadata,
    };
    let done = match (required, request.follow_updates) {
        (true, follow) => Box::pin(send_for_task(call, &*peer, &outgoing, follow)).await,
        (false, true) => Box::pin(send_streaming(call, &*peer, &outgoing)).await,
        (false, false) => send_blocking(call, &*peer, &outgoing).await,
    };
    match done {
        Ok(()) if request.follow_updates => Ok(call.stream_envelope()),
        Ok(()) => Ok(call.answer_envelope()),
        Err(error) => {
            let card = call
                .card
                .as_ref()
                .and_then(|known| known.card.view.as_ref().ok());
            Err(with_diagnostics(error, &MediaTypes::new(&outgoing).compare(card)).for_send())
        }
    }
}

/// Sends a message and returns the one answer.
async fn send_blocking(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    outgoing: &SendRequest,
) -> Result<(), ToolError> {
    let reply = call
        .deadline
        .run(call.metrics.send(peer, outgoing))
        .await??;
    if let Reply::Task(task) = &reply {
        check_followable(call, task)?;
    }
    call.add_answer(reply.into(), false)
}

/// Sends a message and follows what comes. A peer that does not stream sends one answer first.
async fn send_streaming(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    outgoing: &SendRequest,
) -> Result<(), ToolError> {
    if call.streaming() == Some(true) {
        let stream = call
            .deadline
            .run(call.metrics.stream(peer, outgoing))
            .await??;
        return follow(call, peer, Start::Stream(stream)).await;
    }
    match call
        .deadline
        .run(call.metrics.send(peer, outgoing))
        .await??
    {
        Reply::Task(task) => follow_task(call, peer, task).await,
        message @ Reply::Message(_) => call.add_answer(message.into(), true),
    }
}

/// Sends a message that must become a task, and follows it where `follow`.
async fn send_for_task(
    call: &mut Call<'_>,
    peer: &dyn Peer,
    outgoing: &SendRequest,
    follow: bool,
) -> Result<(), ToolError> {
    let task = match call
        .deadline
        .run(call.metrics.send(peer, outgoing))
        .await??
    {
        Reply::Task(task) => task,
        Reply::Message(message) => return Err(not_a_task(&message)),
    };
    call.check_has_id(&task)?;
    if follow {
        return follow_task(call, peer, task).await;
    }
    call.add_answer(Reply::Task(task).into(), false)
}

/// Follows the task of an answer.
async fn follow_task(call: &mut Call<'_>, peer: &dyn Peer, task: Task) -> Result<(), ToolError> {
    check_followable(call, &task)?;
    call.add_answer(Reply::Task(task.clone()).into(), true)?;
    if task.state().is_terminal_or_interrupted() {
        return Ok(());
    }
    follow(call, peer, Start::Answer(task)).await
}

/// Accepts a terminal task, with or without an id; any other must have one.
fn check_followable(call: &Call<'_>, task: &Task) -> Result<(), ToolError> {
    if task.state().is_terminal() {
        return Ok(());
    }
    call.check_has_id(task)
}

fn not_a_task(message: &Message) -> ToolError {
    let mut error = ToolError::new(
        Reason::MessageReturned,
        "a task was required, but the agent answered with a message",
    )
    .with("response_kind", "message")
    .delivered(Delivered::Yes);
    let known = [
        ("context_id", message.context_id().map(Value::from)),
        ("message_id", message.message_id().map(Value::from)),
        (
            "message_text",
            message.text().map(|text| Value::from(text.into_owned())),
        ),
    ];
    for (key, value) in known {
        if let Some(value) = value {
            error = error.with(key, value);
        }
    }
    error
}
