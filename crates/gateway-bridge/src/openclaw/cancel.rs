//! Stopping a run.

use std::time::Duration;

use serde_json::json;

use crate::About;
use peer::PeerError;

use super::OpenClaw;
use super::ledger::{self, Entry, Known};
use super::outcome::Outcome;

/// How long a run that was aborted may take to be over.
const SETTLES: Duration = Duration::from_secs(2);

impl OpenClaw {
    /// Aborts a run, and says where it stands then.
    ///
    /// The gateway lets `chat.abort` stop a run only over the connection that began it. A run that was begun by another
    /// instance, or before this one reconnected, is stopped by the ledger's `tasks.cancel`.
    pub(super) async fn abort(&self, about: &About, run: &str) -> Result<Known, PeerError> {
        let remembered = self.line.with_runs(|runs| runs.get(run).cloned());
        let key = remembered
            .map(|run| run.session_key)
            .or_else(|| ledger::session_of(about));
        if let Some(key) = key
            && self.aborted(about, &key, run).await?
        {
            return self.settled(about, run).await;
        }
        let Some(entry) = ledger::entry(&self.line, about, run).await? else {
            // Over and gone from the ledger, or never known.
            return ledger::stands(&self.line, about, run).await;
        };
        if entry.outcome().is_over() {
            return ledger::stands(&self.line, about, run).await;
        }
        self.cancel_entry(about, &entry).await?;
        self.settled(about, run).await
    }

    /// `chat.abort`; `false` where that does not stop the run.
    async fn aborted(&self, about: &About, key: &str, run: &str) -> Result<bool, PeerError> {
        let params = json!({ "sessionKey": key, "runId": run });
        let answer = self.line.request("chat.abort", &params, Duration::ZERO);
        match answer.await {
            Ok(answer) => Ok(answer["aborted"] == true),
            Err(failure) => {
                let error = failure.about("chat.abort", &about.agent);
                if ledger::is_denied(&error) {
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    async fn cancel_entry(&self, about: &About, entry: &Entry) -> Result<(), PeerError> {
        let params = json!({ "taskId": entry.id(), "reason": "canceled by its caller" });
        let answer = self.line.request("tasks.cancel", &params, Duration::ZERO);
        answer
            .await
            .map(drop)
            .map_err(|failure| failure.about("tasks.cancel", &about.agent))
    }

    /// Where the run stands once it had time to end.
    async fn settled(&self, about: &About, run: &str) -> Result<Known, PeerError> {
        ledger::wait(&self.line, about, run, SETTLES).await?;
        match ledger::stands(&self.line, about, run).await {
            // It was stopped before the gateway had written it down.
            Err(error) if ledger::is_forgotten(&error) => Ok(Known {
                outcome: Outcome::canceled(),
                context: about.context_id.clone().unwrap_or_else(|| run.to_owned()),
            }),
            known => known,
        }
    }
}
