//! What the operator may ask for, whoever's task it is.

use a2a::v1_0::Task;

use super::Service;
use super::active_task::CancelReason;
use super::cancel::canceled;
use super::core::refused;
use crate::store::{Filter, SummaryPage};
use crate::task_record::TaskRecord;
use a2a::A2aError;

impl Service {
    /// Tasks of every client, for the operator.
    ///
    /// # Errors
    /// The store failed.
    pub async fn tasks(&self, filter: &Filter) -> Result<SummaryPage, A2aError> {
        let listed = self.core.store.list(filter).await;
        listed.map_err(|error| refused(error, ""))
    }

    /// The operator cancels a task, whoever it belongs to, and is given it as it stands then.
    ///
    /// # Errors
    /// There is no such task, or it is settled otherwise.
    pub async fn stop(&self, task_id: &str) -> Result<Task, A2aError> {
        let record = self.any(task_id).await?;
        let record = record.ok_or_else(|| A2aError::task_not_found(task_id))?;
        canceled(
            self.core
                .cancel_task(record, CancelReason::Requested)
                .await?,
        )
    }

    /// The operator deletes a task, whoever it belongs to; one that runs is canceled first. Says whether there was one.
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
        // Its webhooks go with it, and are to be told of its end before.
        self.core.notifier.barrier().await;
        let deleted = self.core.store.delete(task_id).await;
        deleted.map_err(|error| refused(error, task_id))
    }

    async fn any(&self, task_id: &str) -> Result<Option<TaskRecord>, A2aError> {
        let loaded = self.core.store.load(task_id).await;
        loaded.map_err(|error| refused(error, task_id))
    }
}
