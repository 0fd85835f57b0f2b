//! Cancellation of tasks.

use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::Task;
use futures_util::StreamExt;

use super::active_task::{CancelReason, TaskEnd};
use super::core::{Core, to_a2a_error};
use super::status;
use super::submit::stopping;
use crate::store::StoreError;
use crate::task_record::{TaskChange, TaskRecord};
use a2a::{A2aError, ErrorReason};

/// How long to wait for another server to cancel its task.
const REMOTE_CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of attempts while other writers change the task.
const MAX_ATTEMPTS: usize = 8;

impl Core {
    /// Cancels a task that is not terminal, and returns it.
    pub(super) async fn cancel_task(
        &self,
        mut record: TaskRecord,
        reason: CancelReason,
    ) -> Result<TaskRecord, A2aError> {
        let id = record.task.id.clone();
        for _ in 0..MAX_ATTEMPTS {
            if record.is_terminal() {
                return Ok(record);
            }
            if let Some(active) = self.active_tasks.get(&id) {
                active.cancel(reason);
                match active.wait_ended().await {
                    TaskEnd::Task(ended) if ended.is_terminal() => {
                        return Ok(Arc::unwrap_or_clone(ended));
                    }
                    TaskEnd::Task(_) => {}
                    TaskEnd::Message(_) => return Err(A2aError::task_not_found(&id)),
                    TaskEnd::Error(error) => return Err(error),
                }
            } else if self.closing.is_cancelled() && !record.is_interrupted() {
                // This process has left the task, and the next one can abort its run.
                return Err(stopping());
            } else {
                // With a shared store, another server may run the task.
                if !record.is_interrupted() && self.store.recovery_interval().is_some() {
                    self.cancel_elsewhere(&id).await?;
                }
                if let Some(canceled) = self.cancel_stored(&id, reason).await? {
                    return Ok(canceled);
                }
            }
            record = self.stored(&id).await?;
        }
        Err(to_a2a_error(StoreError::Conflict, &id))
    }

    /// Requests the cancellation from the server that runs the task, and waits until the task is terminal.
    async fn cancel_elsewhere(&self, task_id: &str) -> Result<(), A2aError> {
        let subscription = self.subscription(task_id).await?;
        self.store
            .request_cancel(task_id)
            .await
            .map_err(|error| to_a2a_error(error, task_id))?;
        let settled = subscription.updates.for_each(|_| std::future::ready(()));
        // If the timeout elapses, no server runs the task, and the caller cancels it in the store.
        let _ = tokio::time::timeout(REMOTE_CANCEL_TIMEOUT, settled).await;
        Ok(())
    }

    /// Cancels a task in the store. Returns `None` if another writer changed the task first.
    async fn cancel_stored(
        &self,
        task_id: &str,
        reason: CancelReason,
    ) -> Result<Option<TaskRecord>, A2aError> {
        let mut record = self.stored(task_id).await?;
        if record.is_terminal() {
            return Ok(Some(record));
        }
        let change = TaskChange::Status(status::canceled(&*self.env, &record, reason));
        let at_ms = self.now_ms(&record);
        let revision = record.revision;
        match self
            .store
            .append(task_id, revision, at_ms, std::slice::from_ref(&change))
            .await
        {
            Ok(()) => {
                record.apply(change.clone(), at_ms);
                self.changed(&record, &change);
                Ok(Some(record))
            }
            Err(StoreError::Conflict | StoreError::Terminal) => Ok(None),
            Err(error) => Err(to_a2a_error(error, task_id)),
        }
    }

    async fn stored(&self, task_id: &str) -> Result<TaskRecord, A2aError> {
        self.store
            .load(task_id)
            .await
            .map_err(|error| to_a2a_error(error, task_id))?
            .ok_or_else(|| A2aError::task_not_found(task_id))
    }
}

/// Returns the task if it is canceled, so that a second cancellation succeeds.
pub(super) fn canceled(record: TaskRecord) -> Result<Task, A2aError> {
    if record.task.status.state == a2a::v1_0::TaskState::Canceled {
        return Ok(record.task);
    }
    Err(A2aError::new(
        ErrorReason::TaskNotCancelable,
        format!(
            "the task `{}` has ended and cannot be canceled; get it to see its state",
            record.task.id
        ),
    ))
}
