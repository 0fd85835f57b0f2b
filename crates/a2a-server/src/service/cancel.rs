//! Cancellation of tasks: by their client, by the operator, and when a client is removed. The operator also lists and
//! deletes the tasks of all clients.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use a2a::v1_0::Task;
use a2a::{A2aError, ErrorReason};
use futures_util::StreamExt;

use super::active_task::{CancelReason, TaskEnd};
use super::core::{Core, to_a2a_error};
use super::submit::stopping;
use super::{Service, status};
use crate::store::{Filter, StoreError, SummaryPage};
use crate::task_record::{TaskChange, TaskRecord};

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
        let subscription = self.subscription(None, task_id).await?;
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
        match self.append_one(&mut record, change).await {
            Ok(()) => Ok(Some(record)),
            Err(StoreError::Conflict | StoreError::Terminal) => Ok(None),
            Err(error) => Err(to_a2a_error(error, task_id)),
        }
    }

    async fn stored(&self, task_id: &str) -> Result<TaskRecord, A2aError> {
        self.ok_or_not_found(self.store.load(task_id).await, task_id)
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

impl Service {
    /// Lists tasks of all clients, or of one within its share of the reads.
    ///
    /// # Errors
    /// The store failed.
    pub async fn tasks(&self, filter: &Filter) -> Result<SummaryPage, A2aError> {
        let list = self.core.store.list(filter);
        let listed = self.core.read(filter.owner.as_deref(), list).await;
        listed.map_err(|error| to_a2a_error(error, ""))
    }

    /// Returns a task of any client.
    ///
    /// # Errors
    /// The task does not exist, or the store failed.
    pub async fn task(&self, task_id: &str) -> Result<TaskRecord, A2aError> {
        let loaded = self.core.store.load(task_id).await;
        let record = loaded.map_err(|error| to_a2a_error(error, task_id))?;
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

    /// Deletes a task of any client, after canceling it, and also one that the store cannot read. Returns whether it existed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete(&self, task_id: &str) -> Result<bool, A2aError> {
        match self.core.store.load(task_id).await {
            Ok(Some(record)) => {
                let canceled = self.core.cancel_task(record, CancelReason::Requested);
                canceled.await?;
            }
            Ok(None) => return Ok(false),
            // Only a deletion is possible.
            Err(StoreError::Damaged(_)) => {}
            Err(error) => return Err(to_a2a_error(error, task_id)),
        }
        // Deleting the task deletes its webhooks, so wait until the notifier has looked them up for the end of the
        // task.
        self.core.notifier.barrier().await;
        let deleted = self.core.store.delete(task_id).await;
        deleted.map_err(|error| to_a2a_error(error, task_id))
    }
}

impl Service {
    /// Replaces the set of clients. Cancels the unfinished tasks of all other clients, deletes their webhooks and drops
    /// their notifications. Returns after signaling every run to stop. The rest of the work continues in the
    /// background, with retries while the store fails.
    pub fn retain_clients(&self, clients: HashSet<String>) {
        let clients = Arc::new(clients);
        self.core.notifier.retain_clients(&clients);
        let tasks = self.core.quota.retain(&clients);
        if !tasks.is_empty() {
            tracing::info!(tasks = tasks.len(), "ending the tasks of removed clients");
        }
        self.core.end_tasks_of_removed_clients(tasks);
    }
}

impl Core {
    /// Ends tasks of removed clients.
    pub(super) fn end_tasks_of_removed_clients(self: &Arc<Self>, tasks: Vec<String>) {
        for task_id in tasks {
            if let Some(active) = self.active_tasks.get(&task_id) {
                active.cancel(CancelReason::ClientRemoved);
            }
            let core = Arc::clone(self);
            self.tasks.spawn(async move {
                let end = core.closing.run_until_cancelled(core.end_one(&task_id));
                if let Some(Err(error)) = end.await {
                    tracing::warn!(task_id, "cannot end a task of a removed client: {error}");
                }
            });
        }
    }

    async fn end_one(&self, task_id: &str) -> Result<(), A2aError> {
        let failed = |error| to_a2a_error(error, task_id);
        // Delete the webhooks first, so that they receive no notification of the end. The task ends even if this fails.
        let webhooks = self.delete_webhooks(task_id).await;
        let Some(record) = self.store.load(task_id).await.map_err(failed)? else {
            return Ok(());
        };
        match self.cancel_task(record, CancelReason::ClientRemoved).await {
            // The task has been deleted or replaced by a message in the meantime.
            Err(error) if error.reason == ErrorReason::TaskNotFound => Ok(()),
            settled => settled.and(webhooks),
        }
    }

    async fn delete_webhooks(&self, task_id: &str) -> Result<(), A2aError> {
        for config in self.push_configs(task_id).await? {
            let id = config.id.unwrap_or_default();
            let deleted = self.store.delete_push(task_id, &id).await;
            deleted.map_err(|error| to_a2a_error(error, task_id))?;
        }
        Ok(())
    }
}
