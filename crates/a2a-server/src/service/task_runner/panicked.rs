//! The end of a task whose work panicked.

use std::sync::Arc;

use base::panics::catch_async;

use super::super::active_task::{ActiveTask, TaskEnd, lost};
use super::super::core::Core;
use super::{RunEnd, RunRequest, TaskRunner};
use crate::executor::Outcome;
use crate::store::QueueTicket;
use crate::task_record::is_interrupted;

impl TaskRunner {
    /// Runs the task. A panic fails only this task.
    pub(in crate::service) async fn run_to_end(self, waiting: QueueTicket, request: RunRequest) {
        let (core, active) = (self.core.clone(), self.active.clone());
        let id = self.record.task.id.clone();
        if let Err(error) = catch_async(Box::pin(self.run(waiting, request))).await {
            tracing::error!(%error, task_id = id, "the work on a task panicked");
            core.end_panicked(&id, &active).await;
        }
    }

    async fn fail(mut self) {
        let outcome = Outcome::Failed {
            reason: "internal",
            text: "the server failed with an internal error while it worked on the task; send the message again, and inform the operator, whose log has the details".to_owned(),
        };
        let end = self.end(RunEnd::Outcome(outcome)).await;
        self.core
            .active_tasks
            .remove(&self.record.task.id, &self.active);
        self.active.finish(end);
        if self.unstored.is_some() {
            self.persist_until_stored().await;
        }
    }
}

impl Core {
    /// Marks a task as failed, unless it is terminal or waits for the client. If this panics too, the next recovery finds
    /// the task.
    pub(in crate::service) async fn end_panicked(
        self: &Arc<Self>,
        task_id: &str,
        active: &Arc<ActiveTask>,
    ) {
        let current = self.active_tasks.get(task_id);
        if current.is_some_and(|current| Arc::ptr_eq(&current, active)) {
            let ended = async {
                match self.store.load(task_id).await {
                    Ok(Some(record))
                        if record.is_terminal() || is_interrupted(&record.task.status.state) =>
                    {
                        active.finish(TaskEnd::Task(Arc::new(record)));
                    }
                    Ok(Some(record)) => {
                        TaskRunner::new(self.clone(), active.clone(), record)
                            .fail()
                            .await;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::error!(task_id, %error, "cannot end a task; the next start of the server ends it");
                    }
                }
            };
            if let Err(error) = catch_async(Box::pin(ended)).await {
                tracing::error!(%error, task_id, "the end of a task panicked");
            }
        }
        self.active_tasks.remove(task_id, active);
        active.finish(TaskEnd::Error(lost()));
    }
}
