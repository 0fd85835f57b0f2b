//! Maintenance, and the shutdown that ends it: recovery of tasks, cancel requests from other servers, and deletion
//! of old tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use a2a::A2aError;
use a2a::v1_0::TaskState;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::active_task::{ActiveTask, CancelReason};
use super::core::{Core, to_a2a_error};
use super::task_runner::{RunRequest, TaskRunner, WriteError};
use super::{Service, status};
use crate::store::{StoreError, Summary, before_ms};
use crate::task_record::{NOT_STARTED, TaskChange, TaskRecord, is_interrupted};

/// The maximum time between two deletions of old tasks.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// The minimum time between two deletions of old tasks. Each looks through the terminal tasks, so one for each task that ends
/// would cost more than the task.
const PRUNE_PAUSE: Duration = Duration::from_millis(100);

/// The maximum number of unanswered tasks that one query returns.
const UNANSWERED_BATCH: usize = 100;

/// Returns the key by which tasks of dead servers are resumed.
fn resumption_order(task: &Summary) -> impl Ord + '_ {
    let is_queued = task.state == TaskState::Submitted;
    (task.created_ms, is_queued, task.since_us, &task.id)
}

impl Core {
    /// Recovers the tasks that no live server runs.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<(), A2aError> {
        let mut unfinished = self
            .store
            .recover()
            .await
            .map_err(|error| to_a2a_error(error, ""))?;
        // Sort by creation, so that runs of one session resume in order. Of two messages of one millisecond, only the first
        // can have been started, or else its status is older.
        unfinished.sort_by(|one, other| resumption_order(one).cmp(&resumption_order(other)));
        for task in unfinished {
            if task.is_terminal() || self.active_tasks.get(&task.id).is_some() {
                continue;
            }
            // The quota does not apply to recovered tasks.
            let _ = self.quota.try_insert(&task.owner, &task.id, usize::MAX);
            if !is_interrupted(&task.state) {
                let loaded = self.store.load(&task.id).await;
                match loaded.map_err(|error| to_a2a_error(error, &task.id)) {
                    Ok(Some(record)) if !record.is_terminal() => self.resume_task(record).await,
                    Ok(_) => {
                        self.release_quota(&task.owner, &task.id);
                    }
                    Err(error) => {
                        tracing::error!(task_id = task.id, %error, "cannot recover a task");
                    }
                }
            }
            if !self.quota.is_client(&task.owner) {
                self.end_tasks_of_removed_clients(vec![task.id]);
            }
        }
        Ok(())
    }

    /// Reattaches to the run of a task, starts one that has not started, or marks the task as interrupted.
    async fn resume_task(self: &Arc<Self>, record: TaskRecord) {
        let mut runner = TaskRunner::new(self.clone(), Arc::new(ActiveTask::new()), record);
        runner.has_visible_event = true;
        // A client may have seen the task before the restart.
        runner.active.expose();
        if let Some(run) = runner.record.run.clone() {
            let id = &runner.record.task.id;
            let waiting = match self.store.enqueue(&runner.record.session, id).await {
                Ok(waiting) => waiting,
                // This server owns the task now and has to end it.
                Err(error) => Box::pin(std::future::ready(Err(error))),
            };
            self.active_tasks.insert(id, runner.active.clone());
            let request = match run.as_str() {
                NOT_STARTED => RunRequest::New {
                    delegation: runner.delegation(),
                },
                _ => RunRequest::Reattach(run),
            };
            self.tasks.spawn(runner.run_to_end(waiting, request));
            return;
        }
        let status = status::failed(&*self.env, &runner.record, status::Failure::Interrupted);
        if let Err(WriteError::Store(_)) = runner.write(TaskChange::Status(status)).await {
            self.tasks.spawn(runner.persist_until_stored());
        }
    }

    /// Spawns the maintenance, which runs until the server shuts down.
    pub(super) fn spawn_maintenance(self: &Arc<Self>) {
        // Subscribe before the server accepts messages, so that it misses no request.
        let requests = self.store.cancel_requests();
        self.run_until_closing(|core| async move { core.forward_cancellations(requests).await });
        self.run_until_closing(|core| async move { core.prune_periodically().await });
        if let Some(every) = self.store.recovery_interval() {
            self.run_until_closing(move |core| async move {
                loop {
                    tokio::time::sleep(every).await;
                    if let Err(error) = core.recover().await {
                        tracing::warn!(%error, "cannot recover the tasks of dead servers");
                    }
                }
            });
        }
    }

    fn run_until_closing<F>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let closing = self.closing.clone();
        let work = work(self.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = work => {}
            }
        });
    }

    async fn forward_cancellations(&self, mut requests: BoxStream<'static, String>) {
        while let Some(task_id) = requests.next().await {
            if let Some(active) = self.active_tasks.get(&task_id) {
                active.cancel(CancelReason::Requested);
            }
        }
    }

    /// Fails tasks whose client did not answer in time.
    async fn expire_unanswered(&self) -> Result<(), A2aError> {
        let before_ms = before_ms(self.env.system_time().into(), self.settings.unanswered);
        // The number of tasks that cannot be ended now. This pass skips them, and the next one retries.
        let mut skipped = 0;
        loop {
            let ids = self
                .store
                .unanswered(before_ms, skipped, UNANSWERED_BATCH)
                .await;
            let ids = ids.map_err(|error| to_a2a_error(error, ""))?;
            for id in &ids {
                let ended = self.expire_task(id, before_ms).await;
                if let Err(error) = &ended {
                    tracing::warn!(task_id = id, %error, "cannot end a task");
                }
                skipped += usize::from(ended != Ok(true));
            }
            if ids.len() < UNANSWERED_BATCH {
                return Ok(());
            }
        }
    }

    /// Fails a task that has waited for its client since before `before_ms`. Returns whether the task was still
    /// waiting.
    pub(super) async fn expire_task(&self, id: &str, before_ms: i64) -> Result<bool, StoreError> {
        let record = self.store.load(id).await?;
        // Check again: the client may have answered, and the agent may have asked another question.
        let waits = |record: &TaskRecord| record.is_interrupted() && record.changed_ms < before_ms;
        let Some(mut record) = record.filter(waits) else {
            return Ok(false);
        };
        let waited = self.settings.unanswered;
        let status = status::failed(&*self.env, &record, status::Failure::Unanswered(waited));
        let change = TaskChange::Status(status);
        match self.append_one(&mut record, change).await {
            Ok(()) => Ok(true),
            // The client answered in the meantime.
            Err(StoreError::Conflict | StoreError::Terminal | StoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn prune_periodically(self: &Arc<Self>) {
        loop {
            // Retry the tasks of removed clients that the store could not end before.
            self.end_tasks_of_removed_clients(self.quota.tasks_of_removed());
            if let Err(error) = self.expire_unanswered().await {
                tracing::warn!(%error, "cannot end the tasks whose clients did not answer");
            }
            let retention = &self.settings.retention;
            match self
                .store
                .prune(retention, self.env.system_time().into())
                .await
            {
                Ok(0) => {}
                Ok(tasks) => tracing::debug!(tasks, "pruned old tasks"),
                Err(error) => tracing::warn!(%error, "cannot prune old tasks"),
            }
            tokio::time::sleep(PRUNE_PAUSE).await;
            tokio::select! {
                () = tokio::time::sleep(PRUNE_INTERVAL) => {}
                () = self.prune.notified() => {}
            }
        }
    }
}

/// How long a forced shutdown waits for the runs that it drops.
const FORCED_TIMEOUT: Duration = Duration::from_millis(200);

/// The tasks that were unfinished at the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The number of tasks that the next process continues.
    pub left: usize,
    /// The number of tasks that failed, because no other process can continue them.
    pub failed: usize,
}

impl Service {
    /// Returns whether the shutdown has begun.
    pub fn is_stopping(&self) -> bool {
        self.core.draining.is_cancelled()
    }

    /// Begins the shutdown: rejects new messages, and waits at most `time` for the tasks that run or wait for a run.
    pub async fn drain(&self, time: Duration) {
        self.core.draining.cancel();
        let _ = timeout(time, self.core.active_tasks.wait_empty()).await;
    }

    /// Shuts down within `timeout`. Leaves the runs that another process can continue, stops the others and fails their
    /// tasks, ends the streams, delivers or drops the notifications, and closes the store.
    pub async fn close(&self, timeout: Duration) -> Closed {
        self.close_until(timeout, &CancellationToken::new()).await
    }

    /// Does the same as [`close`](Self::close), but drops what still runs once `force` is cancelled.
    pub async fn close_until(&self, timeout: Duration, force: &CancellationToken) -> Closed {
        let core = &self.core;
        let mut until = Instant::now() + timeout;
        core.draining.cancel();
        if core.store.outlives_process() {
            core.executor.detach();
        }
        core.closing.cancel();
        core.tasks.close();
        // The last fifth of the timeout is reserved for runs that do not stop, for notifications, and for closing the
        // store.
        let stopping = timeout_at(until - timeout / 5, core.tasks.wait());
        let stopped = force.run_until_cancelled(stopping).await;
        if !matches!(stopped, Some(Ok(()))) {
            core.dropping.cancel();
            if force.is_cancelled() {
                until = until.min(Instant::now() + FORCED_TIMEOUT);
            }
            if timeout_at(until, core.tasks.wait()).await.is_err() {
                tracing::error!(
                    tasks = core.tasks.len(),
                    "not all background tasks have stopped"
                );
            }
        }
        core.ending_streams.cancel();
        let notifying = until.saturating_duration_since(Instant::now());
        core.notifier.close(notifying).await;
        core.executor.close().await;
        if let Err(error) = core.store.close().await {
            tracing::error!(%error, "the task store did not close");
        }
        Closed {
            left: core.left.load(Ordering::Relaxed),
            failed: core.failed.load(Ordering::Relaxed),
        }
    }
}
