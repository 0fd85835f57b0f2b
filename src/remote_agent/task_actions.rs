//! `watch`, `status` and `cancel`: the actions on a task.

use serde_json::json;

use a2a::Reply;
use base::validation::violation;

use super::call::Call;
use super::error::ToolError;
use super::follow::{Start, follow};
use super::request::Request;

/// Follows a task until it is terminal or interrupted.
///
/// # Errors
/// The task cannot be followed; the error has everything that was collected.
pub(super) async fn watch(call: &mut Call<'_>, request: Box<Request>) -> Result<String, ToolError> {
    let peer = call.open(&parameters(&request)).await?;
    task_id(call)?;
    follow(call, &*peer, Start::Task).await?;
    Ok(call.stream_envelope())
}

/// Queries a task once, or a page of an artifact's text.
///
/// # Errors
/// The query failed.
pub(super) async fn status(
    call: &mut Call<'_>,
    request: Box<Request>,
) -> Result<String, ToolError> {
    let peer = call.open(&parameters(&request)).await?;
    let task_id = task_id(call)?;
    // A page needs no messages, of which there may be many.
    let history = request
        .artifact_id
        .as_ref()
        .map_or(request.history_length, |_| Some(0));
    let task = call
        .deadline
        .run(call.metrics.get_task(&*peer, &task_id, history))
        .await??;
    call.add_answer(Reply::Task(task).into(), false)?;
    match &request.artifact_id {
        Some(artifact_id) => call.page_envelope(artifact_id, request.offset.unwrap_or(0)),
        None => Ok(call.answer_envelope()),
    }
}

/// Cancels a task. The state in the result shows whether that succeeded.
///
/// # Errors
/// The request failed, or the agent refused.
pub(super) async fn cancel(
    call: &mut Call<'_>,
    request: Box<Request>,
) -> Result<String, ToolError> {
    let peer = call.open(&parameters(&request)).await?;
    let task_id = task_id(call)?;
    let task = call
        .deadline
        .run(call.metrics.cancel(&*peer, &task_id))
        .await??;
    call.add_answer(Reply::Task(task).into(), false)?;
    Ok(call.answer_envelope())
}

fn parameters(request: &Request) -> Vec<(String, String)> {
    request
        .service_parameters
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn task_id(call: &Call<'_>) -> Result<String, ToolError> {
    call.task_id.clone().ok_or_else(|| {
        let message = "the request names no task";
        let problem = violation("", "#/runtime/anyOf", "anyOf", json!({}), message);
        ToolError::invalid(vec![problem], 0)
    })
}
