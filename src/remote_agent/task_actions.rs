//! `watch`, `status` and `cancel`: what can be done about a task that exists.

use crate::peer::Reply;

use super::error::{Reason, ToolError};
use super::follow::follow;
use super::request::Request;
use super::session::Session;

/// Follows a task until it is finished or waits for its caller.
///
/// # Errors
/// Why it cannot be followed, with everything that was heard.
pub(super) async fn watch(mut session: Session<'_>, request: Request) -> Result<String, ToolError> {
    let peer = session.open(&parameters(&request)).await?;
    let task_id = task_id(&session)?;
    if session.streaming() == Some(false) {
        let message = "the agent does not stream, so its task cannot be watched";
        return Err(ToolError::new(Reason::StreamingUnsupported, message));
    }
    let stream = session.bounds.run(peer.resubscribe(&task_id)).await??;
    follow(&mut session, stream, None).await?;
    Ok(session.followed())
}

/// Asks once how a task stands.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn status(
    mut session: Session<'_>,
    request: Request,
) -> Result<String, ToolError> {
    let peer = session.open(&parameters(&request)).await?;
    let task_id = task_id(&session)?;
    let task = session
        .bounds
        .run(peer.get_task(&task_id, request.history_length))
        .await??;
    session.hear_whole(Reply::Task(task).into(), false)?;
    Ok(session.answered())
}

/// Asks for a task to be stopped. The state in the result says whether it was.
///
/// # Errors
/// Why there is no answer, or the agent's refusal.
pub(super) async fn cancel(
    mut session: Session<'_>,
    request: Request,
) -> Result<String, ToolError> {
    let peer = session.open(&parameters(&request)).await?;
    let task_id = task_id(&session)?;
    let task = session.bounds.run(peer.cancel(&task_id)).await??;
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
    session
        .task_id
        .clone()
        .ok_or_else(|| ToolError::new(Reason::InvalidRequest, "the request names no task"))
}
