//! Determines the status of a run from the gateway's records.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::CallContext;
use crate::session_key;
use collective::ErrorCode;
use peer::{PeerError, PeerErrorKind};

use super::connection::OpenClawConnection;
use super::errors::RequestError;
use super::outcome::{self, RunOutcome};

/// The page size of the task ledger, newest first: the gateway's maximum.
const TASK_PAGE_LEN: u64 = 500;

/// The number of session messages that are searched for an answer.
const HISTORY_PAGE_LEN: u64 = 200;

/// The timeout of one wait for the end of a run. After it, the bridge checks whether the gateway still has the run.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A run at the gateway, with its status.
#[derive(Debug)]
pub(super) struct RunStatus {
    /// The outcome.
    pub outcome: RunOutcome,
    /// The conversation of the run.
    pub context: String,
}

/// An entry of the gateway's task ledger.
#[derive(Debug)]
pub(super) struct TaskRecord(Value);

impl TaskRecord {
    /// Returns the gateway's own id of the task.
    pub(super) fn id(&self) -> Option<&str> {
        self.0["id"].as_str()
    }

    /// Returns the session of the run.
    pub(super) fn session_key(&self) -> Option<&str> {
        self.0["sessionKey"].as_str()
    }

    /// Returns the outcome of the run.
    pub(super) fn outcome(&self) -> RunOutcome {
        outcome::from_record(&self.0)
    }
}

/// Returns the status of `run`. Sources, in order: the responses on this connection, `agent.wait`, and the task ledger,
/// which outlives a restart of the gateway. The text of an answer may come from the session history.
///
/// # Errors
/// [`PeerErrorKind::TaskForgotten`] if the gateway does not know the run, otherwise why the query failed.
pub(super) async fn status(
    connection: &OpenClawConnection,
    call: &CallContext,
    run: &str,
) -> Result<RunStatus, PeerError> {
    let remembered = connection.with_runs(|runs| runs.get(run).cloned());
    let context = call
        .context_id
        .clone()
        .or_else(|| remembered.as_ref().map(|run| run.context.clone()));
    if let (Some(response), Some(context)) =
        (remembered.and_then(|run| run.response), context.clone())
    {
        let outcome = outcome::from_response(&response);
        return Ok(RunStatus { outcome, context });
    }
    if let Some(outcome) = wait(connection, call, run, Duration::ZERO).await? {
        let context = match context {
            Some(context) => context,
            None => run_context(find_record(connection, call, run).await?.as_ref(), run),
        };
        return Ok(RunStatus { outcome, context });
    }
    let entry = find_record(connection, call, run)
        .await?
        .ok_or_else(|| task_forgotten_error(run))?;
    let mut outcome = entry.outcome();
    if outcome.is_terminal()
        && let Some(key) = entry.session_key()
    {
        let answer = answer_from_history(connection, call, key, run).await?;
        outcome = outcome.with_answer(answer.as_deref());
    }
    let context = context.unwrap_or_else(|| run_context(Some(&entry), run));
    Ok(RunStatus { outcome, context })
}

/// Returns the outcome of `run` if it ends within `timeout`.
pub(super) async fn wait(
    connection: &OpenClawConnection,
    call: &CallContext,
    run: &str,
    timeout: Duration,
) -> Result<Option<RunOutcome>, PeerError> {
    let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let params = json!({ "runId": run, "timeoutMs": millis });
    let response = connection.request("agent.wait", &params, timeout).await;
    let response =
        response.map_err(|failure| failure.into_peer_error("agent.wait", &call.agent))?;
    Ok(outcome::from_wait(&response))
}

/// Waits for the outcome of `run` without a timeout.
pub(super) async fn wait_for_end(
    connection: Arc<OpenClawConnection>,
    call: CallContext,
    run: String,
) -> Result<RunOutcome, PeerError> {
    loop {
        if let Some(outcome) = wait(&connection, &call, &run, WAIT_TIMEOUT).await? {
            return Ok(outcome);
        }
        let known = status(&connection, &call, &run).await?;
        if known.outcome.is_terminal() {
            return Ok(known.outcome);
        }
    }
}

/// Finds the ledger's entry of `run`.
pub(super) async fn find_record(
    connection: &OpenClawConnection,
    call: &CallContext,
    run: &str,
) -> Result<Option<TaskRecord>, PeerError> {
    let mut params = json!({ "limit": TASK_PAGE_LEN, "agentId": call.agent });
    let key = connection.with_runs(|runs| runs.get(run).map(|run| run.session_key.clone()));
    if let Some(key) = key.or_else(|| call_session_key(call)) {
        params["sessionKey"] = key.into();
    }
    loop {
        let listed = connection
            .request("tasks.list", &params, Duration::ZERO)
            .await;
        let mut listed =
            listed.map_err(|failure| failure.into_peer_error("tasks.list", &call.agent))?;
        let tasks = listed["tasks"].as_array_mut();
        let found = tasks.and_then(|tasks| {
            let place = tasks.iter().position(|task| task["runId"] == run)?;
            Some(tasks.swap_remove(place))
        });
        if let Some(found) = found {
            return Ok(Some(TaskRecord(found)));
        }
        // The caller may name another conversation than that of the run.
        let narrow = params
            .as_object_mut()
            .and_then(|params| params.remove("sessionKey"));
        if narrow.is_none() {
            return Ok(None);
        }
    }
}

/// Returns the session of a call.
pub(super) fn call_session_key(call: &CallContext) -> Option<String> {
    let context = call.context_id.as_deref();
    match (&call.session, context) {
        (None, None) => None,
        (_, context) => Some(context_session_key(call, context.unwrap_or_default())),
    }
}

/// Returns the session key of the conversation `context`.
pub(super) fn context_session_key(call: &CallContext, context: &str) -> String {
    let session = match &call.session {
        Some(session) => Cow::Borrowed(session),
        None => Cow::Owned(session_key::session_id(context)),
    };
    session_key::session_key(&call.agent, &session)
}

/// Returns the error of a run that the gateway does not know.
pub(super) fn task_forgotten_error(run: &str) -> PeerError {
    PeerError::new(
        PeerErrorKind::TaskForgotten,
        format!("the gateway does not know the run `{run}` anymore"),
    )
}

/// Returns the context of a run. A run outside A2A conversations uses its own id.
fn run_context(entry: Option<&TaskRecord>, run: &str) -> String {
    let key = entry.and_then(TaskRecord::session_key);
    key.and_then(session_key::context_id)
        .unwrap_or(run)
        .to_owned()
}

async fn answer_from_history(
    connection: &OpenClawConnection,
    call: &CallContext,
    key: &str,
    run: &str,
) -> Result<Option<String>, PeerError> {
    let params = json!({ "sessionKey": key, "limit": HISTORY_PAGE_LEN });
    match connection
        .request("chat.history", &params, Duration::ZERO)
        .await
    {
        Ok(history) => Ok(outcome::find_answer(&history, run)),
        // A deleted session has no text, but the run's outcome is still known.
        Err(RequestError::Refused(rpc_error)) if rpc_error.code == "INVALID_REQUEST" => Ok(None),
        Err(failure) => Err(failure.into_peer_error("chat.history", &call.agent)),
    }
}

/// Returns whether the error means that the gateway no longer has the run.
pub(super) fn is_forgotten(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::TaskForgotten
}

/// Returns whether an error reports a missing permission.
pub(super) fn is_denied(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::Gateway(ErrorCode::PermissionDenied)
}
