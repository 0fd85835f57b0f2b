//! `watch`, `status` and `cancel`: what can be done about a task that exists.

use serde_json::json;

use a2a::Reply;
use common::validation::complaint;

use super::error::ToolError;
use super::rejoin::{Start, follow};
use super::request::Request;
use super::session::Session;

/// Follows a task until it is finished or waits for its caller.
///
/// # Errors
/// Why it cannot be followed, with everything that was heard.
pub(super) async fn watch(
    session: &mut Session<'_>,
    request: Box<Request>,
) -> Result<String, ToolError> {
    let peer = session.open(&parameters(&request)).await?;
    task_id(session)?;
    follow(session, &*peer, Start::Task).await?;
    Ok(session.followed())
}

/// Asks once how a task stands, or for a page of an artifact's text.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn status(
    session: &mut Session<'_>,
    request: Box<Request>,
) -> Result<String, ToolError> {
    let peer = session.open(&parameters(&request)).await?;
    let task_id = task_id(session)?;
    // A page needs no messages, which may be many.
    let history = request
        .artifact_id
        .as_ref()
        .map_or(request.history_length, |_| Some(0));
    let task = session
        .bounds
        .run(session.metrics.get_task(&*peer, &task_id, history))
        .await??;
    session.hear_whole(Reply::Task(task).into(), false)?;
    match &request.artifact_id {
        Some(artifact_id) => session.paged(artifact_id, request.offset.unwrap_or(0)),
        None => Ok(session.answered()),
    }
}

/// Asks for a task to be stopped. The state in the result says whether it was.
///
/// # Errors
/// Why there is no answer, or the agent's refusal.
pub(super) async fn cancel(
    session: &mut Session<'_>,
    request: Box<Request>,
) -> Result<String, ToolError> {
    let peer = session.open(&parameters(&request)).await?;
    let task_id = task_id(session)?;
    let task = session
        .bounds
        .run(session.metrics.cancel(&*peer, &task_id))
        .await??;
    session.hear_whole(Reply::Task(task).into(), false)?;
    Ok(session.answered())
}

fn parameters(request: &Request) -> Vec<(String, String)> {
    request
        .service_parameters
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn task_id(session: &Session<'_>) -> Result<String, ToolError> {
    session.task_id.clone().ok_or_else(|| {
        let message = "the request names no task";
        let wrong = complaint("", "#/runtime/anyOf", "anyOf", json!({}), message);
        ToolError::invalid(vec![wrong], 0)
    })
}
