//! Starts a run (session, delegation record and request), determines its status from the gateway's records, and cancels it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::delegation::{Delegation, DelegationFile};
use crate::{CallContext, delegation, session_key};
use a2a::SendRequest;
use base::log::Log;
use collective::ErrorCode;
use peer::{PeerError, PeerErrorKind};

use super::connection::OpenClawConnection;
use super::outcome::RunOutcome;
use super::protocol::RequestError;
use super::stream::RunSubscription;
use super::{OpenClaw, message, outcome};

/// The metadata key of the timeout of a run, in milliseconds.
pub const RUN_TIMEOUT_KEY: &str = "openclaw-remote-agent/run-timeout-ms";

/// The metadata key of the thinking level of a run, in OpenClaw's terms.
pub const THINKING_KEY: &str = "openclaw-remote-agent/thinking";

/// The page size of the task ledger, newest first: the gateway's maximum.
const TASK_PAGE_LEN: u64 = 500;

/// The number of session messages that are searched for an answer.
const HISTORY_PAGE_LEN: u64 = 200;

/// The timeout of one wait for the end of a run. After it, the bridge checks whether the gateway still has the run.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait for an aborted run to end.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// A started run.
pub(super) struct StartedRun {
    /// The run's id, which is the message's.
    pub run: String,
    /// The conversation of the run.
    pub context: String,
    /// The first response: accepted, or already ended.
    pub first: Value,
    /// The later events.
    pub subscription: RunSubscription,
}

impl OpenClaw {
    /// Starts a run with a message.
    ///
    /// # Errors
    /// [`PeerErrorKind::OwnSession`] if the target is the caller's own session. Otherwise the reason why the run did not
    /// start, or may not have started.
    pub(super) async fn start(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<StartedRun, PeerError> {
        let context = self.context(call, outgoing).await?;
        let key = context_session_key(call, &context);
        if call
            .session_key
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(&key))
        {
            let message = format!(
                "the context_id `{context}` of the agent `{}` is the caller's own session, which cannot wait for itself; answer directly, or use another context_id",
                call.agent
            );
            return Err(PeerError::new(PeerErrorKind::OwnSession, message));
        }
        record_delegation(call, outgoing, &key, &self.log).await?;
        let run = outgoing.message_id.clone();
        self.connection
            .with_runs(|runs| runs.insert(&run, &key, &context));
        let params = params(call, outgoing, &key, self.policy.image_bytes);
        let (first, subscription) = RunSubscription::start(&self.connection, &run, &params)
            .await
            .map_err(|failure| failure.into_peer_error("agent", &call.agent))?;
        Ok(StartedRun {
            run,
            context,
            first,
            subscription,
        })
    }

    /// Returns the conversation of a message: the one it names, the one of the task it continues, or a new one.
    async fn context(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<String, PeerError> {
        let named = outgoing.context_id.as_ref().or(call.context_id.as_ref());
        match (named, &outgoing.task_id) {
            (Some(context), _) => Ok(context.clone()),
            (None, Some(task)) => Ok(status(&self.connection, call, task).await?.context),
            (None, None) => Ok(self.env.uuid().to_string()),
        }
    }
}

fn params(call: &CallContext, outgoing: &SendRequest, key: &str, image_bytes: usize) -> Value {
    let message = message::to_agent_message(&outgoing.parts, image_bytes);
    // `inputProvenance` would identify the sender, but the gateway does not record runs with it, and their status would not
    // survive a restart.
    let mut params = json!({
        "agentId": call.agent,
        "sessionKey": key,
        "message": message.text,
        "idempotencyKey": outgoing.message_id,
    });
    if !message.attachments.is_empty() {
        params["attachments"] = message.attachments.into();
    }
    if let Some(seconds) = timeout_seconds(outgoing) {
        params["timeout"] = seconds.into();
    }
    if let Some(level) = message_field(outgoing, THINKING_KEY).and_then(Value::as_str) {
        params["thinking"] = level.into();
    }
    params
}

fn message_field<'a>(outgoing: &'a SendRequest, key: &str) -> Option<&'a Value> {
    outgoing.metadata.as_ref()?.get(key)
}

/// Returns the timeout of a run in seconds, the gateway's unit. `None` leaves it to the gateway's configuration.
fn timeout_seconds(outgoing: &SendRequest) -> Option<u64> {
    let millis = message_field(outgoing, RUN_TIMEOUT_KEY)?.as_u64()?;
    Some(millis.div_ceil(1000).max(1))
}

/// Records the delegation depth of the agent's session before the run starts. The agent's own tool reads it.
async fn record_delegation(
    call: &CallContext,
    outgoing: &SendRequest,
    key: &str,
    log: &Arc<dyn Log>,
) -> Result<(), PeerError> {
    let work = message_field(outgoing, delegation::DELEGATION_KEY).and_then(Delegation::read);
    let (Some(state_dir), Some(work)) = (&call.state_dir, work) else {
        return Ok(());
    };
    let (state_dir, key, log) = (PathBuf::from(state_dir), key.to_owned(), Arc::clone(log));
    let written = tokio::task::spawn_blocking(move || {
        DelegationFile::of_host(&state_dir).record(&key, &work, &*log)
    });
    let error = match written.await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    // Without the record, agents could delegate to each other endlessly.
    Err(PeerError::new(
        PeerErrorKind::Gateway(ErrorCode::PermissionDenied),
        format!(
            "cannot record the delegation depth for the agent `{}`, so nothing was sent: {error}",
            call.agent
        ),
    )
    .undelivered())
}

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
struct TaskRecord(Value);

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

/// Returns the status of `run`. Sources, in order: the responses that the bridge has seen, `agent.wait`, and the task ledger,
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

/// Returns the outcome of `run` if it ends within `timeout`. The answer comes from the history of the session if the gateway
/// does not repeat it: the events of an earlier connection may have brought only a part of it.
async fn wait(
    connection: &OpenClawConnection,
    call: &CallContext,
    run: &str,
    timeout: Duration,
) -> Result<Option<RunOutcome>, PeerError> {
    let params = json!({ "runId": run, "timeoutMs": base::environment::millis(timeout) });
    let response = connection.request("agent.wait", &params, timeout).await;
    let response =
        response.map_err(|failure| failure.into_peer_error("agent.wait", &call.agent))?;
    let Some(outcome) = outcome::from_wait(&response) else {
        return Ok(None);
    };
    if !outcome::lacks_answer(&outcome, &response) {
        return Ok(Some(outcome));
    }
    let key = match run_session_key(connection, call, run) {
        Some(key) => Some(key),
        None => {
            let entry = find_record(connection, call, run).await?;
            entry.and_then(|entry| entry.session_key().map(str::to_owned))
        }
    };
    let answer = match key {
        Some(key) => answer_from_history(connection, call, &key, run).await?,
        None => None,
    };
    Ok(Some(outcome.with_answer(answer.as_deref())))
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
async fn find_record(
    connection: &OpenClawConnection,
    call: &CallContext,
    run: &str,
) -> Result<Option<TaskRecord>, PeerError> {
    let mut params = json!({ "limit": TASK_PAGE_LEN, "agentId": call.agent });
    if let Some(key) = run_session_key(connection, call, run) {
        params["sessionKey"] = key.into();
    }
    loop {
        let listed = connection
            .request("tasks.list", &params, Duration::ZERO)
            .await;
        let mut listed =
            listed.map_err(|failure| failure.into_peer_error("tasks.list", &call.agent))?;
        let tasks = listed.get_mut("tasks").and_then(Value::as_array_mut);
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

/// Returns the session of a run, as far as the bridge or the call knows it.
fn run_session_key(
    connection: &OpenClawConnection,
    call: &CallContext,
    run: &str,
) -> Option<String> {
    let key = connection.with_runs(|runs| runs.get(run).map(|run| run.session_key.clone()));
    key.or_else(|| call_session_key(call))
}

/// Returns the session of a call.
fn call_session_key(call: &CallContext) -> Option<String> {
    let context = call.context_id.as_deref();
    match (&call.session, context) {
        (None, None) => None,
        (_, context) => Some(context_session_key(call, context.unwrap_or_default())),
    }
}

/// Returns the session key of the conversation `context`.
fn context_session_key(call: &CallContext, context: &str) -> String {
    let session = match &call.session {
        Some(session) => Cow::Borrowed(session),
        None => Cow::Owned(session_key::session_id(context)),
    };
    session_key::session_key(&call.agent, &session)
}

/// Returns the error of a run that the gateway does not know.
fn task_forgotten_error(run: &str) -> PeerError {
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
        Err(RequestError::Refused(rpc_error)) if rpc_error.is_invalid_request() => Ok(None),
        Err(failure) => Err(failure.into_peer_error("chat.history", &call.agent)),
    }
}

/// Returns whether the error means that the gateway no longer has the run.
fn is_forgotten(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::TaskForgotten
}

/// Returns whether an error reports a missing permission.
fn is_denied(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::Gateway(ErrorCode::PermissionDenied)
}

impl OpenClaw {
    /// Aborts a run and returns its state.
    ///
    /// The gateway accepts `chat.abort` only on the connection that started the run. For a run of another instance or
    /// of an earlier connection, the bridge calls `tasks.cancel` of the task ledger.
    pub(super) async fn abort(
        &self,
        call: &CallContext,
        run: &str,
    ) -> Result<RunStatus, PeerError> {
        if let Some(key) = run_session_key(&self.connection, call, run)
            && self.send_abort(call, &key, run).await?
        {
            return self.wait_for_cancel(call, run).await;
        }
        let Some(entry) = find_record(&self.connection, call, run).await? else {
            // The run has ended and left the ledger, or never existed.
            return status(&self.connection, call, run).await;
        };
        if entry.outcome().is_terminal() {
            return status(&self.connection, call, run).await;
        }
        self.cancel_record(call, &entry).await?;
        self.wait_for_cancel(call, run).await
    }

    /// Sends `chat.abort` and returns whether the run will stop.
    async fn send_abort(
        &self,
        call: &CallContext,
        key: &str,
        run: &str,
    ) -> Result<bool, PeerError> {
        let params = json!({ "sessionKey": key, "runId": run });
        let answer = self
            .connection
            .request("chat.abort", &params, Duration::ZERO);
        match answer.await {
            Ok(answer) => Ok(answer["aborted"] == true),
            Err(failure) => {
                let error = failure.into_peer_error("chat.abort", &call.agent);
                if is_denied(&error) {
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    async fn cancel_record(&self, call: &CallContext, entry: &TaskRecord) -> Result<(), PeerError> {
        let params = json!({ "taskId": entry.id(), "reason": "canceled by the caller" });
        let answer = self
            .connection
            .request("tasks.cancel", &params, Duration::ZERO);
        answer
            .await
            .map(drop)
            .map_err(|failure| failure.into_peer_error("tasks.cancel", &call.agent))
    }

    /// Returns the state of the run after giving it time to end.
    async fn wait_for_cancel(&self, call: &CallContext, run: &str) -> Result<RunStatus, PeerError> {
        wait(&self.connection, call, run, ABORT_TIMEOUT).await?;
        match status(&self.connection, call, run).await {
            // The run was stopped before the gateway recorded it.
            Err(error) if is_forgotten(&error) => Ok(RunStatus {
                outcome: RunOutcome::canceled(),
                context: call.context_id.clone().unwrap_or_else(|| run.to_owned()),
            }),
            known => known,
        }
    }
}
