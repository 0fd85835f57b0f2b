//! What goes on without being asked for: tasks of dead servers, cancellations from other servers, retention.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;

use super::active_task::{ActiveTask, CancelReason};
use super::core::{Core, refused};
use super::status;
use super::task_runner::{RunRequest, TaskRunner, WriteError};
use crate::store::{StoreError, before_ms};
use crate::task_record::{TaskChange, TaskRecord, is_interrupted};
use a2a::A2aError;

/// How often what retention does not keep is forgotten, at least.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// How many tasks that wait too long are looked for at a time.
const RECOVERY_CONCURRENCY: usize = 100;

impl Core {
    /// Takes up or marks the tasks that no server owns any more.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<(), A2aError> {
        let mut left = self
            .store
            .recover()
            .await
            .map_err(|error| refused(error, ""))?;
        // Runs of one session go on in the order they began in.
        left.sort_by(|one, other| (one.created_ms, &one.id).cmp(&(other.created_ms, &other.id)));
        for task in left {
            if task.is_terminal() || self.active_tasks.get(&task.id).is_some() {
                continue;
            }
            // A task that was left by a server is no more than its client may have.
            let _ = self.quota.try_insert(&task.owner, &task.id, usize::MAX);
            if !is_interrupted(&task.state) {
                let loaded = self.store.load(&task.id).await;
                match loaded.map_err(|error| refused(error, &task.id)) {
                    Ok(Some(record)) if !record.is_terminal() => {
                        self.resume_left_task(record).await
                    }
                    Ok(_) => {
                        self.release_quota(&task.owner, &task.id);
                    }
                    Err(refusal) => {
                        tracing::error!(task_id = task.id, %refusal, "a task cannot be taken up");
                    }
                }
            }
            if !self.quota.is_client(&task.owner) {
                self.end_tasks_of_removed_clients(vec![task.id]);
            }
        }
        Ok(())
    }

    /// Goes on with the run of a task, or marks the task as interrupted.
    async fn resume_left_task(self: &Arc<Self>, record: TaskRecord) {
        let mut life = TaskRunner::new(self.clone(), Arc::new(ActiveTask::new()), record);
        life.reported = true;
        // Its client has been given the task, or may have been.
        life.active.expose();
        if let Some(run) = life.record.run.clone() {
            let id = &life.record.task.id;
            let waiting = match self.store.enqueue(&life.record.session, id).await {
                Ok(waiting) => waiting,
                // This server owns the task by now, so it ends the task here.
                Err(error) => Box::pin(std::future::ready(Err(error))),
            };
            self.active_tasks.insert(id, life.active.clone());
            self.tasks
                .spawn(life.run(waiting, RunRequest::Reattach(run)));
            return;
        }
        let status = status::interrupted(&*self.env, &life.record);
        if let Err(WriteError::Store(_)) = life.write(TaskChange::Status(status)).await {
            self.tasks.spawn(life.persist_until_stored());
        }
    }

    /// Everything that goes on until the server is closed.
    pub(super) fn resume(self: &Arc<Self>) {
        self.run_until_closing(|core| async move { core.forward_cancellations().await });
        self.run_until_closing(|core| async move { core.forget().await });
        if let Some(every) = self.store.recovery_interval() {
            self.run_until_closing(move |core| async move {
                loop {
                    tokio::time::sleep(every).await;
                    if let Err(error) = core.recover().await {
                        tracing::warn!(%error, "tasks of dead servers cannot be looked for");
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

    async fn forward_cancellations(&self) {
        let mut asked = self.store.cancel_requests();
        while let Some(task_id) = asked.next().await {
            if let Some(active) = self.active_tasks.get(&task_id) {
                active.cancel(CancelReason::Requested);
            }
        }
    }

    /// Ends tasks whose client was asked something and did not answer.
    async fn expire_unanswered(&self) -> Result<(), A2aError> {
        let before_ms = before_ms(self.env.system_time().into(), self.settings.unanswered);
        // What cannot be ended waits for the next time, and keeps no other from its end.
        let mut left = 0;
        loop {
            let ids = self
                .store
                .unanswered(before_ms, left, RECOVERY_CONCURRENCY)
                .await;
            let ids = ids.map_err(|error| refused(error, ""))?;
            for id in &ids {
                let ended = self.expire_task(id, before_ms).await;
                if let Err(error) = &ended {
                    tracing::warn!(task_id = id, %error, "the task cannot be ended");
                }
                left += usize::from(ended != Ok(true));
            }
            if ids.len() < RECOVERY_CONCURRENCY {
                return Ok(());
            }
        }
    }

    /// Ends a task that waits for its client since before `before_ms`. Says whether it still waited.
    pub(super) async fn expire_task(&self, id: &str, before_ms: i64) -> Result<bool, StoreError> {
        let record = self.store.load(id).await?;
        // It may have been answered, and have asked again, since it was found.
        let waits = |record: &TaskRecord| record.is_interrupted() && record.changed_ms < before_ms;
        let Some(mut record) = record.filter(waits) else {
            return Ok(false);
        };
        let waited = self.settings.unanswered;
        let change = TaskChange::Status(status::unanswered(&*self.env, &record, waited));
        let (at_ms, revision) = (self.now_ms(&record), record.revision);
        match self.store.append(id, revision, at_ms, &change).await {
            Ok(()) => {
                record.apply(change.clone(), at_ms);
                self.changed(&record, &change);
                Ok(true)
            }
            // The answer came after all.
            Err(StoreError::Conflict | StoreError::Terminal | StoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn forget(self: &Arc<Self>) {
        loop {
            // Those that the store did not end when their client was removed.
            self.end_tasks_of_removed_clients(self.quota.tasks_of_removed());
            if let Err(refusal) = self.expire_unanswered().await {
                tracing::warn!(%refusal, "tasks that wait too long for their clients cannot be ended");
            }
            let retention = &self.settings.retention;
            match self
                .store
                .prune(retention, self.env.system_time().into())
                .await
            {
                Ok(0) => {}
                Ok(tasks) => tracing::debug!(tasks, "old tasks are forgotten"),
                Err(error) => tracing::warn!(%error, "old tasks cannot be forgotten"),
            }
            tokio::select! {
                () = tokio::time::sleep(PRUNE_INTERVAL) => {}
                () = self.prune.notified() => {}
            }
        }
    }
}
