//! The state that all requests share.

use chrono::{DateTime, Utc};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use futures_util::future::Either;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::active_task::ActiveTasks;
use super::agents::{AgentCache, AgentList};
use super::dedup::MessageDedup;
use super::quota::{TaskQuota, ValueQuota};
use super::{ServiceComponents, SessionMapper};
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::push::Notifier;
use crate::service::CallContext;
use crate::settings::Settings;
use crate::store::body::{self, RawRecord};
use crate::store::{Loaded, StoreError, TaskStore};
use crate::task_record::{TaskChange, TaskRecord, copied_bytes};
use a2a::v1_0::TaskState;
use a2a::{A2aError, ErrorReason};
use base::environment::Environment;
use base::keyed_budget::KeyedBudget;
use base::keyed_semaphore::KeyedSemaphore;
use base::run_slots::RunSlots;

/// The number of tasks to check before the server rejects a message because of the client's quota.
const QUOTA_SAMPLE_SIZE: usize = 16;

/// The size of a task that its last change may copy, in bytes.
const MAX_FINISHED_BYTES: usize = 1 << 20;

/// The number of unreadable tasks that the server remembers, in order to log each of them once.
const MAX_UNREADABLE: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// How many messages of all clients, and of one, wait for a turn of a task that is working.
const MAX_STEERING: usize = 10_000;
const MAX_STEERING_PER_CLIENT: usize = 100;

/// The number of reads that one of several clients has in the store at a time. The others wait, so that the store has permits
/// left for other clients.
const MAX_READS_PER_CLIENT: usize = body::MAX_LOADS / 2;

pub(super) struct Core {
    pub(super) settings: Settings,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) sessions: Arc<dyn SessionMapper>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) notifier: Notifier,
    pub(super) metrics: Metrics,
    pub(super) agents: AgentCache,
    pub(super) active_tasks: ActiveTasks,
    pub(super) dedup: MessageDedup,
    pub(super) value_quota: ValueQuota,
    /// The places of messages that wait for a turn of a task that is working.
    pub(super) steering_quota: Arc<KeyedBudget<String>>,
    /// The slots of the concurrent runs.
    pub(super) slots: Arc<RunSlots>,
    /// Cancelled when the shutdown begins: the server rejects messages, and runs may still end.
    pub(super) draining: CancellationToken,
    /// Cancelled after the drain: the server leaves or stops the runs.
    pub(super) closing: CancellationToken,
    /// Cancelled once all tasks are left or ended: the streams end.
    pub(super) ending_streams: CancellationToken,
    /// The tasks that the shutdown left to another process, and those that it failed.
    pub(super) left: AtomicUsize,
    pub(super) failed: AtomicUsize,
    /// Cancelled late in the shutdown: the server drops the runs that have not stopped.
    pub(super) dropping: CancellationToken,
    /// Tracks the background tasks, so that the shutdown can wait for them.
    pub(super) tasks: TaskTracker,
    /// Triggers the deletion of old tasks.
    pub(super) prune: Notify,
    pub(super) quota: TaskQuota,
    /// The registration of one webhook at a time, by task.
    pub(super) push_registrations: KeyedSemaphore<String>,
    /// The reads of each client.
    reads: KeyedSemaphore<String>,
    /// The logged tasks that the store cannot read.
    unreadable: Mutex<LruCache<String, ()>>,
}

impl Core {
    pub(super) fn new(parts: ServiceComponents) -> Self {
        let limits = parts.settings.limits;
        let metrics = Metrics::new();
        let notifier = Notifier::new(
            parts.store.clone(),
            parts.sender,
            &parts.settings,
            parts.env.clone(),
            metrics.clone(),
        );
        let quota = TaskQuota::default();
        if let Some(clients) = parts.clients.map(Arc::new) {
            notifier.retain_clients(&clients);
            quota.retain(&clients);
        }
        let reads = match parts.settings.several_clients {
            true => MAX_READS_PER_CLIENT,
            false => usize::MAX,
        };
        let slots = RunSlots::new(limits.runs, parts.settings.several_clients);
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
            value_quota: ValueQuota::default(),
            steering_quota: KeyedBudget::new(MAX_STEERING, MAX_STEERING_PER_CLIENT),
            slots,
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            ending_streams: CancellationToken::new(),
            left: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            dropping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            prune: Notify::new(),
            quota,
            push_registrations: KeyedSemaphore::default(),
            reads: KeyedSemaphore::new(reads),
            unreadable: Mutex::new(LruCache::new(MAX_UNREADABLE)),
        }
    }

    /// Returns the agents from the cache or the executor.
    pub(super) async fn agents(&self) -> Result<AgentList, A2aError> {
        self.agents.get(&*self.executor, &*self.env).await
    }

    /// Returns the current time in milliseconds since 1970, but not before the last change of the task.
    pub(super) fn now_ms(&self, record: &TaskRecord) -> i64 {
        DateTime::<Utc>::from(self.env.system_time())
            .timestamp_millis()
            .max(record.changed_ms)
    }

    /// Runs `read`, a call of the store for `client`, within the client's share of the reads. A read without a client is for
    /// the operator or for the server itself. `read` must not contain another one: a client whose reads wait for each other never gets an answer.
    pub(super) async fn read<T>(&self, client: Option<&str>, read: impl Future<Output = T>) -> T {
        let _permit = match client {
            Some(client) => Some(self.reads.acquire(client.to_owned()).await),
            None => None,
        };
        read.await
    }

    /// Loads a task that the caller owns.
    pub(super) async fn owned(
        &self,
        caller: &CallContext,
        task_id: &str,
    ) -> Result<TaskRecord, A2aError> {
        let load = self.store.load(task_id);
        let loaded = self.read(Some(&caller.client), load).await;
        let owned = |record: &TaskRecord| record.owner == caller.client;
        self.ok_or_not_found(loaded.map(|record| record.filter(owned)), task_id)
    }

    /// Loads a task that the caller owns. Returns what `finished` makes of the JSON of a finished task, or any other task
    /// decoded.
    pub(super) async fn owned_or_finished<T>(
        &self,
        caller: &CallContext,
        task_id: &str,
        finished: impl FnOnce(RawRecord<'_>) -> Result<T, String>,
    ) -> Result<Either<T, TaskRecord>, A2aError> {
        let load = self.store.load_stored(task_id);
        let stored = self.read(Some(&caller.client), load).await;
        let found = match self.ok_or_not_found(stored, task_id)? {
            Loaded::Record(record) => Some(*record).filter(|record| record.owner == caller.client),
            Loaded::Json(json) => match RawRecord::parse(&json) {
                Ok(raw) if !raw.is_owned_by(&caller.client) => None,
                raw => match raw.and_then(finished) {
                    Ok(finished) => return Ok(Either::Left(finished)),
                    // Decoding reports the damage.
                    Err(_) => Some(self.owned(caller, task_id).await?),
                },
            },
        };
        let found = found.map(Either::Right);
        found.ok_or_else(|| A2aError::task_not_found(task_id))
    }

    /// Appends changes made at `at_ms` to a record in the store. If they end the task, also stores the whole record,
    /// unless it is large: then the store compacts it later.
    pub(super) async fn append(
        &self,
        record: &TaskRecord,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError> {
        let ends = matches!(changes.last(), Some(TaskChange::Status(status)) if status.state.is_terminal());
        if !ends || copied_bytes(&record.task, changes) > MAX_FINISHED_BYTES {
            let id = &record.task.id;
            return self.store.append(id, record.revision, at_ms, changes).await;
        }
        let mut finished = record.clone();
        for change in changes {
            finished.apply(change.clone(), at_ms);
        }
        self.store.finish(&finished, changes).await
    }

    /// Appends a change to a record, in the store and then in the record itself.
    pub(super) async fn append_one(
        &self,
        record: &mut TaskRecord,
        change: TaskChange,
    ) -> Result<(), StoreError> {
        let at_ms = self.now_ms(record);
        let changes = std::slice::from_ref(&change);
        self.append(record, at_ms, changes).await?;
        record.apply(change.clone(), at_ms);
        self.changed(record, &change);
        Ok(())
    }

    /// Updates metrics, quota and webhooks after the store has a change.
    pub(super) fn changed(&self, record: &TaskRecord, change: &TaskChange) {
        if let TaskChange::Status(status) = change {
            self.metrics.record_state(&status.state);
            if status.state != TaskState::Working {
                super::status::log_change(record, status.message.as_ref());
            }
            if record.is_terminal() {
                self.release_quota(&record.owner, &record.task.id);
            }
        }
        self.notifier.changed(record, change);
    }

    /// Counts an unfinished task against the client's quota.
    pub(super) async fn acquire_quota(&self, client: &str, task_id: &str) -> Result<(), A2aError> {
        let limit = self.settings.limits.tasks_per_client;
        let Err(error) = self.quota.try_insert(client, task_id, limit) else {
            return Ok(());
        };
        // A counted task may have been ended by another server. `task_id` is random, so each call checks a different
        // sample.
        for known in self.quota.sample(client, task_id, QUOTA_SAMPLE_SIZE) {
            if self.active_tasks.get(&known).is_none()
                && let Ok(found) = self.read(Some(client), self.store.load(&known)).await
                && found.is_none_or(|record| record.is_terminal())
            {
                self.release_quota(client, &known);
            }
        }
        self.quota
            .try_insert(client, task_id, limit)
            .map_err(|_| error)
    }

    /// Reserves storage for `bytes` more of a client. With `forget`, deletes the client's oldest terminal tasks if
    /// necessary.
    ///
    /// # Errors
    /// The budget is exhausted, or the store failed.
    pub(super) async fn make_room(
        &self,
        client: &str,
        bytes: usize,
        forget: bool,
    ) -> Result<(), A2aError> {
        let budget = &self.settings.limits.stored_bytes;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let room = self.store.make_room(client, bytes, budget, forget).await;
        match room.map_err(|error| to_a2a_error(error, ""))? {
            true => Ok(()),
            false => {
                let text = "the storage for your tasks, or for those of all clients, is full; finish or cancel open tasks, send less, or try again when old tasks are deleted";
                let mut error = A2aError::new(ErrorReason::ResourceExhausted, text);
                error.retry_after_s = Some(60);
                Err(error)
            }
        }
    }

    /// Returns what the store found of a task. The record of a task names its owner, so no client has a task that cannot be
    /// read.
    ///
    /// # Errors
    /// The task does not exist or cannot be read, or the store failed.
    pub(super) fn ok_or_not_found<T>(
        &self,
        loaded: Result<Option<T>, StoreError>,
        task_id: &str,
    ) -> Result<T, A2aError> {
        let found = match loaded {
            Err(StoreError::Damaged(cause)) => {
                self.log_unreadable(task_id, &cause);
                None
            }
            loaded => loaded.map_err(|error| to_a2a_error(error, task_id))?,
        };
        found.ok_or_else(|| A2aError::task_not_found(task_id))
    }

    /// Logs a task that the store cannot read, once.
    pub(super) fn log_unreadable(&self, task_id: &str, cause: &str) {
        let before = self.unreadable.lock().put(task_id.to_owned(), ());
        if before.is_none() {
            tracing::error!(task_id, cause, "clients do not see a damaged task");
        }
    }

    /// Removes a task from the client's quota.
    pub(super) fn release_quota(&self, client: &str, task_id: &str) {
        if self.quota.remove(client, task_id) {
            self.prune.notify_one();
        }
    }
}

/// Converts an error of the store to an error for the client. The cause of a failure appears only in the log.
pub(super) fn to_a2a_error(error: StoreError, task_id: &str) -> A2aError {
    match error {
        StoreError::NotFound => A2aError::task_not_found(task_id),
        StoreError::Terminal => A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!(
                "the task `{task_id}` has ended and accepts no messages; send the message without `taskId`"
            ),
        ),
        StoreError::Conflict => A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!("the task `{task_id}` changed concurrently; get it and try again"),
        ),
        StoreError::Failed(cause) | StoreError::Refused(cause) | StoreError::Damaged(cause) => {
            tracing::warn!(task_id, cause, "the task store failed");
            let mut error = A2aError::new(
                ErrorReason::Unavailable,
                "the task store does not answer; try again in a moment",
            );
            error.retry_after_s = Some(1);
            error
        }
    }
}
