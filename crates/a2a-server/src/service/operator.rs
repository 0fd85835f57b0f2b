//! The operations of the operator on the tasks of all clients.

use a2a::v1_0::Task;

use super::Service;
use super::active_task::CancelReason;
use super::cancel::canceled;
use super::core::to_a2a_error;
use crate::store::{Filter, SummaryPage};
use crate::task_record::TaskRecord;
use a2a::A2aError;

impl Service {
    /// Lists tasks of all clients.
    ///
    /// # Errors
    /// The store failed.
    pub async fn tasks(&self, filter: &Filter) -> Result<SummaryPage, A2aError> {
        let listed = self.core.store.list(filter).await;
        listed.map_err(|error| to_a2a_error(error, ""))
    }

    /// Returns a task of any client.
    ///
    /// # Errors
    /// The task does not exist, or the store failed.
    pub async fn task(&self, task_id: &str) -> Result<TaskRecord, A2aError> {
        let record = self.any(task_id).await?;
        record.ok_or_else(|| A2aError::task_not_found(task_id))
    }

    /// Cancels a task of any client and returns it.
    ///
    /// # Errors
    /// The task does not exist, or is in another terminal state.
    pub async fn stop(&self, task_id: &str) -> Result<Task, A2aError> {
        let record = self.task(task_id).await?;
        canceled(
            self.core
                .cancel_task(record, CancelReason::Requested)
                .await?,
        )
    }

    /// Deletes a task of any client, after canceling it. Returns whether it existed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete(&self, task_id: &str) -> Result<bool, A2aError> {
        match self.any(task_id).await? {
            Some(record) => {
                self.core
                    .cancel_task(record, CancelReason::Requested)
                    .await?
            }
            None => return Ok(false),
        };
        // Deleting the task deletes its webhooks, so wait until the notifier has looked them up for the end of the
        // task.
        self.core.notifier.barrier().await;
        let deleted = self.core.store.delete(task_id).await;
        deleted.map_err(|error| to_a2a_error(error, task_id))
    }

    async fn any(&self, task_id: &str) -> Result<Option<TaskRecord>, A2aError> {
        let loaded = self.core.store.load(task_id).await;
        loaded.map_err(|error| to_a2a_error(error, task_id))
    }
}
