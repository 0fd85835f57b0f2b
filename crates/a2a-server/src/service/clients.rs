//! Removal of clients.

use std::collections::HashSet;
use std::sync::Arc;

use super::Service;
use super::active_task::CancelReason;
use super::core::{Core, to_a2a_error};
use a2a::{A2aError, ErrorReason};

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
