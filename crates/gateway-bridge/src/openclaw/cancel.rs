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
        about: &CallContext,
        run: &str,
    ) -> Result<RunStatus, PeerError> {
        let remembered = self.connection.with_runs(|runs| runs.get(run).cloned());
        let key = remembered
            .map(|run| run.session_key)
            .or_else(|| run_status::session_of(about));
        if let Some(key) = key
            && self.aborted(about, &key, run).await?
        {
            return self.settled(about, run).await;
        }
        let Some(entry) = run_status::find_record(&self.connection, about, run).await? else {
            // The run has ended and left the ledger, or never existed.
            return run_status::status(&self.connection, about, run).await;
        };
        if entry.outcome().is_terminal() {
            return run_status::status(&self.connection, about, run).await;
        }
        self.cancel_record(about, &entry).await?;
        self.settled(about, run).await
    }

    /// Sends `chat.abort` and returns whether the run will stop.
    async fn aborted(&self, about: &CallContext, key: &str, run: &str) -> Result<bool, PeerError> {
        let params = json!({ "sessionKey": key, "runId": run });
        let answer = self
            .connection
            .request("chat.abort", &params, Duration::ZERO);
        match answer.await {
            Ok(answer) => Ok(answer["aborted"] == true),
            Err(failure) => {
                let error = failure.into_peer_error("chat.abort", &about.agent);
                if run_status::is_denied(&error) {
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    async fn cancel_record(
        &self,
        about: &CallContext,
        entry: &TaskRecord,
    ) -> Result<(), PeerError> {
        let params = json!({ "taskId": entry.id(), "reason": "canceled by the caller" });
        let answer = self
            .connection
            .request("tasks.cancel", &params, Duration::ZERO);
        answer
            .await
            .map(drop)
            .map_err(|failure| failure.into_peer_error("tasks.cancel", &about.agent))
    }

    /// Returns the state of the run after giving it time to end.
    async fn settled(&self, about: &CallContext, run: &str) -> Result<RunStatus, PeerError> {
        run_status::wait(&self.connection, about, run, ABORT_TIMEOUT).await?;
        match run_status::status(&self.connection, about, run).await {
            // The run was stopped before the gateway recorded it.
            Err(error) if run_status::is_forgotten(&error) => Ok(RunStatus {
                outcome: RunOutcome::canceled(),
                context: about.context_id.clone().unwrap_or_else(|| run.to_owned()),
            }),
            known => known,
        }
    }
}
