//! Leaves a task to another process when the server stops.

use tokio::sync::mpsc::Receiver;

use super::{RunEnd, RunRequest, TaskRunner, WriteError};
use crate::executor::ExecutionEvent;
use crate::task_record::{NOT_STARTED, TaskChange};

impl TaskRunner {
    /// Applies the events that are in the channel if the server stops: they happened before, and one of them may name
    /// the run.
    pub(super) async fn apply_before(
        &mut self,
        ending: RunEnd,
        events: &mut Receiver<ExecutionEvent>,
    ) -> RunEnd {
        match ending {
            RunEnd::ServerStopped => self.apply_waiting(events).await.err().unwrap_or(ending),
            ending => ending,
        }
    }

    /// Returns the end of a task whose run the server left: the next process reattaches to a run with a name.
    pub(super) async fn leave(&mut self) -> RunEnd {
        match self.is_named && self.core.store.outlives_process() {
            true => self
                .flush()
                .await
                .map_or_else(RunEnd::WriteError, |()| RunEnd::Left),
            false => RunEnd::ServerStopped,
        }
    }

    /// Stores that a run starts which an earlier process left, so that no later process starts it again.
    pub(super) async fn mark_started(&mut self) -> Result<(), WriteError> {
        match self.record.run.as_deref() {
            Some(NOT_STARTED) => self.write(TaskChange::Started).await,
            _ => Ok(()),
        }
    }

    /// Returns the end of a task whose run has not started: the next process starts it.
    pub(super) async fn leave_queued(&mut self, request: &RunRequest) -> RunEnd {
        if !self.core.store.outlives_process() {
            return RunEnd::ServerStopped;
        }
        // The name of an earlier run stays valid.
        if matches!(request, RunRequest::New { .. }) {
            self.pending.push(TaskChange::Run(NOT_STARTED.to_owned()));
        }
        self.flush()
            .await
            .map_or_else(RunEnd::WriteError, |()| RunEnd::Left)
    }
}
