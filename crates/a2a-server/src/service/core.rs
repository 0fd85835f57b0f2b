//! What all requests share.

use chrono::{DateTime, Utc};
use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::active_task::ActiveTasks;
use super::agents::AgentCache;
use super::dedup::MessageDedup;
use super::quota::TaskQuota;
use super::weight::Weights;
use super::{Parts, Sessions};
use crate::call_context::CallContext;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::push::Notifier;
use crate::settings::Settings;
use crate::store::{StoreError, TaskStore};
use crate::task_record::{TaskChange, TaskRecord};
use a2a::{A2aError, ErrorReason};
use common::environment::Environment;

/// How many tasks of a client who has too many are looked at, before he is told so.
const QUOTA_SAMPLE_SIZE: usize = 16;

pub(super) struct Core {
    pub(super) settings: Settings,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) sessions: Arc<dyn Sessions>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) notifier: Notifier,
    pub(super) metrics: Metrics,
    pub(super) agents: AgentCache,
    pub(super) active_tasks: ActiveTasks,
    pub(super) dedup: MessageDedup,
    pub(super) weights: Weights,
    /// One permit a run.
    pub(super) slots: Arc<Semaphore>,
    /// No more is taken, and what runs is to stop.
    pub(super) closing: CancellationToken,
    /// What has not stopped by now is dropped.
    pub(super) dropping: CancellationToken,
    /// Everything that goes on in the background.
    pub(super) tasks: TaskTracker,
    /// Asks for what retention does not keep to be forgotten.
    pub(super) prune: Notify,
    pub(super) quota: TaskQuota,
}

impl Core {
    pub(super) fn new(parts: Parts) -> Self {
        let limits = parts.settings.limits;
        let metrics = Metrics::new();
        let notifier = Notifier::new(
            parts.store.clone(),
            parts.sender,
            &limits,
            parts.env.clone(),
            metrics.clone(),
        );
        let quota = TaskQuota::default();
        if let Some(clients) = parts.clients.map(Arc::new) {
            notifier.retain_clients(&clients);
            quota.retain(&clients);
        }
        Self {
            notifier,
            metrics,
            settings: parts.settings,
            executor: parts.executor,
            store: parts.store,
            sessions: parts.sessions,
            env: parts.env,
            agents: AgentCache::default(),
            active_tasks: ActiveTasks::default(),
            dedup: MessageDedup::default(),
            weights: Weights::default(),
            slots: Arc::new(Semaphore::new(limits.runs.max(1))),
            closing: CancellationToken::new(),
            dropping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            prune: Notify::new(),
            quota,
        }
    }

    /// The time of day in milliseconds since 1970, and never before the task's last change.
    pub(super) fn now_ms(&self, record: &TaskRecord) -> i64 {
        DateTime::<Utc>::from(self.env.system_time())
            .timestamp_millis()
            .max(record.changed_ms)
    }

    /// A task of this caller.
    pub(super) async fn owned(
        &self,
        caller: &CallContext,
        task_id: &str,
    ) -> Result<TaskRecord, A2aError> {
        let record = self
            .store
            .load(task_id)
            .await
            .map_err(|error| refused(error, task_id))?;
        record
            .filter(|record| record.owner == caller.client)
            .ok_or_else(|| A2aError::task_not_found(task_id))
    }

    /// What follows a change that has been kept and applied.
    pub(super) fn changed(&self, record: &TaskRecord, change: &TaskChange) {
        if let TaskChange::Status(status) = change {
            self.metrics.record_state(&status.state);
            if record.is_terminal() {
                self.release_quota(&record.owner, &record.task.id);
            }
        }
        self.notifier.changed(record, change);
    }

    /// Counts one more task of a client that is not settled, if he may have one more.
    pub(super) async fn acquire_quota(&self, client: &str, task_id: &str) -> Result<(), A2aError> {
        let limit = self.settings.limits.tasks_per_client;
        let Err(refusal) = self.quota.try_insert(client, task_id, limit) else {
            return Ok(());
        };
        // Another server may have settled what asked a question here. The id is random, so every time others are looked at.
        for known in self.quota.sample(client, task_id, QUOTA_SAMPLE_SIZE) {
            if self.active_tasks.get(&known).is_none()
                && let Ok(found) = self.store.load(&known).await
                && found.is_none_or(|record| record.is_terminal())
            {
                self.release_quota(client, &known);
            }
        }
        self.quota
            .try_insert(client, task_id, limit)
            .map_err(|_| refusal)
    }

    /// Makes sure that `bytes` more of a client may be kept. Its own oldest settled tasks go for that where they must, if
    /// `forget` says so.
    ///
    /// # Errors
    /// They may not, or the store failed.
    pub(super) async fn make_room(
        &self,
        client: &str,
        bytes: usize,
        forget: bool,
    ) -> Result<(), A2aError> {
        let budget = &self.settings.limits.kept;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let room = self.store.make_room(client, bytes, budget, forget).await;
        match room.map_err(|error| refused(error, ""))? {
            true => Ok(()),
            false => {
                let text = "the server keeps as many bytes of your tasks, or of all clients' tasks, as it may; finish or cancel tasks that are open, send less, or ask again when old tasks are gone";
                let mut refusal = A2aError::new(ErrorReason::ResourceExhausted, text);
                refusal.retry_after_s = Some(60);
                Err(refusal)
            }
        }
    }

    /// A task of a client is settled, or gone.
    pub(super) fn release_quota(&self, client: &str, task_id: &str) {
        if self.quota.remove(client, task_id) {
            self.prune.notify_one();
        }
    }
}

/// What a client is told when the store does not do it. Why is for the log alone.
pub(super) fn refused(error: StoreError, task_id: &str) -> A2aError {
    match error {
        StoreError::NotFound => A2aError::task_not_found(task_id),
        StoreError::Terminal => A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!(
                "the task `{task_id}` is settled, nothing can be added to it; send a message without `taskId`"
            ),
        ),
        StoreError::Conflict => A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!("the task `{task_id}` changed in the meantime; get it and ask again"),
        ),
        StoreError::Failed(why) | StoreError::Damaged(why) => {
            tracing::warn!(task_id, why, "the task store failed");
            let mut refusal = A2aError::new(
                ErrorReason::Unavailable,
                "the task store does not answer; ask again in a moment",
            );
            refusal.retry_after_s = Some(1);
            refusal
        }
    }
}
