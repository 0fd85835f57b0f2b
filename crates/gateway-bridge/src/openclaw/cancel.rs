//! Cancels a run.

use std::time::Duration;

use serde_json::json;

use crate::CallContext;
use peer::PeerError;

use super::OpenClaw;
use super::outcome::RunOutcome;
use super::run_status::{self, RunStatus, TaskRecord};

/// How long to wait for an aborted run to end.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

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
        let remembered = self.connection.with_runs(|runs| runs.get(run).cloned());
        let key = remembered
            .map(|run| run.session_key)
            .or_else(|| run_status::call_session_key(call));
        if let Some(key) = key
            && self.send_abort(call, &key, run).await?
        {
            return self.wait_for_cancel(call, run).await;
        }
        let Some(entry) = run_status::find_record(&self.connection, call, run).await? else {
            // The run has ended and left the ledger, or never existed.
            return run_status::status(&self.connection, call, run).await;
        };
        if entry.outcome().is_terminal() {
            return run_status::status(&self.connection, call, run).await;
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
                if run_status::is_denied(&error) {
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
        run_status::wait(&self.connection, call, run, ABORT_TIMEOUT).await?;
        match run_status::status(&self.connection, call, run).await {
            // The run was stopped before the gateway recorded it.
            Err(error) if run_status::is_forgotten(&error) => Ok(RunStatus {
                outcome: RunOutcome::canceled(),
                context: call.context_id.clone().unwrap_or_else(|| run.to_owned()),
            }),
            known => known,
        }
    }
}
