//! Writes to a store that may fail, reloads the bodies of tasks, and limits their size.

use std::sync::Arc;
use std::time::Duration;

use a2a::A2aError;
use a2a::v1_0::{Artifact, Part};
use base::backoff::Backoff;
use base::json::encoded_bytes;
use tokio::time::sleep;

use super::{RunEnd, TaskRunner};
use crate::executor::Outcome;
use crate::service::active_task::TaskEnd;
use crate::service::core::to_a2a_error;
use crate::service::status;
use crate::store::StoreError;
use crate::task_record::{TaskChange, TaskRecord, is_interrupted};

/// The maximum number of attempts to append changes, and the delays between them.
const MAX_APPEND_ATTEMPTS: u32 = 5;
const RETRY_DELAY: Backoff = Backoff::new(Duration::from_millis(100), STORE_RETRY_INTERVAL);

/// The delay between later attempts to store the end of a task.
const STORE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// An error of a write.
#[derive(Debug)]
pub(in crate::service) enum WriteError {
    /// Another writer ended or deleted the task.
    Superseded,
    /// The store failed in all attempts.
    Store(A2aError),
}

impl TaskRunner {
    /// Stores the pending changes and `change` in one write, and applies them to the record.
    pub(in crate::service) async fn write(&mut self, change: TaskChange) -> Result<(), WriteError> {
        self.pending.push(change);
        self.flush().await
    }

    /// Adds a change that the next write stores.
    pub(super) fn write_pending(&mut self, change: TaskChange) {
        self.pending.push(change);
    }

    /// Stores the pending changes in one write, and applies them to the record.
    pub(super) async fn flush(&mut self) -> Result<(), WriteError> {
        let changes = std::mem::take(&mut self.pending);
        if changes.is_empty() {
            return Ok(());
        }
        let at_ms = self.core.now_ms(&self.record);
        let mut tries = 1;
        loop {
            let revision = self.record.revision;
            let id = &self.record.task.id;
            let appended = match self.unloaded {
                true => self.core.store.append(id, revision, at_ms, &changes).await,
                false => self.core.append(&self.record, at_ms, &changes).await,
            };
            match appended {
                Ok(()) => break,
                Err(StoreError::Failed(cause)) if tries < MAX_APPEND_ATTEMPTS => {
                    tracing::warn!(
                        task_id = id,
                        cause,
                        tries,
                        "the task store failed; trying again"
                    );
                    sleep(RETRY_DELAY.delay(tries - 1)).await;
                }
                // An earlier attempt may have succeeded although the store reported an error.
                Err(StoreError::Conflict | StoreError::Terminal) if tries > 1 => {
                    let stored = self.core.store.load(id).await;
                    match stored {
                        Ok(Some(stored)) if is_stored(&stored, revision, &changes) => break,
                        _ => return Err(WriteError::Superseded),
                    }
                }
                Err(
                    error @ (StoreError::Failed(_)
                    | StoreError::Refused(_)
                    | StoreError::Damaged(_)),
                ) => {
                    let error = to_a2a_error(error, id);
                    self.unstored = changes.into_iter().next();
                    return Err(WriteError::Store(error));
                }
                Err(_) => return Err(WriteError::Superseded),
            }
            tries += 1;
        }
        for change in changes {
            self.record.apply(change.clone(), at_ms);
            self.core.changed(&self.record, &change);
        }
        Ok(())
    }

    /// Loads the body of an unloaded task from the store.
    pub(super) async fn reload(&mut self) -> Result<(), WriteError> {
        if !std::mem::take(&mut self.unloaded) {
            return Ok(());
        }
        let id = &self.record.task.id;
        match self.core.store.load(id).await {
            Ok(Some(record)) if record.revision == self.record.revision => {
                self.record = record;
                Ok(())
            }
            Ok(_) => Err(WriteError::Superseded),
            Err(error) => Err(WriteError::Store(to_a2a_error(error, id))),
        }
    }

    /// Returns the end of a task that this runner can no longer write.
    pub(super) async fn handle_write_error(&mut self, lost: WriteError) -> TaskEnd {
        let id = &self.record.task.id;
        match lost {
            WriteError::Store(error) => {
                // The store may have failed before the run started.
                let status = || {
                    TaskChange::Status(status::failed(
                        &*self.core.env,
                        &self.record,
                        status::Failure::StoreFailed,
                    ))
                };
                self.unstored.get_or_insert_with(status);
                TaskEnd::Error(error)
            }
            WriteError::Superseded => {
                self.core.release_quota(&self.record.owner, id);
                match self.core.store.load(id).await {
                    Ok(Some(record)) => TaskEnd::Task(Arc::new(record)),
                    Ok(None) => TaskEnd::Error(A2aError::task_not_found(id)),
                    Err(error) => TaskEnd::Error(to_a2a_error(error, id)),
                }
            }
        }
    }

    /// Retries until the store has the end of the task, because no other server would write it. At shutdown, leaves
    /// this to the next process.
    pub(in crate::service) async fn persist_until_stored(mut self: Box<Self>) {
        let closing = self.core.closing.clone();
        while let Some(change) = self.unstored.take() {
            let change = match change {
                TaskChange::Status(status)
                    if status.state.is_terminal() || is_interrupted(&status.state) =>
                {
                    TaskChange::Status(status)
                }
                _ => TaskChange::Status(status::failed(
                    self.env(),
                    &self.record,
                    status::Failure::StoreFailed,
                )),
            };
            let last = closing
                .run_until_cancelled(sleep(STORE_RETRY_INTERVAL))
                .await
                .is_none();
            match self.write(change).await {
                Err(WriteError::Store(_)) if last => return,
                Ok(()) | Err(WriteError::Store(_)) => {}
                Err(WriteError::Superseded) => {
                    self.core
                        .release_quota(&self.record.owner, &self.record.task.id);
                }
            }
        }
    }
}

/// Returns whether the stored changes after `revision` equal `changes`.
fn is_stored(stored: &TaskRecord, revision: u64, changes: &[TaskChange]) -> bool {
    stored.revision == revision + changes.len() as u64
        && match changes.last() {
            Some(TaskChange::Status(status)) => stored.task.status == *status,
            _ => !stored.is_terminal(),
        }
}

impl TaskRunner {
    /// Returns the size of all artifacts including this one, in bytes of JSON.
    pub(super) fn size_with(&self, artifact: &Artifact, append: bool) -> usize {
        let replaced = match append {
            true => 0,
            false => self
                .record
                .task
                .artifacts
                .iter()
                .flatten()
                .rfind(|known| known.artifact_id == artifact.artifact_id)
                .map_or(0, encoded_bytes),
        };
        self.size.saturating_sub(replaced) + encoded_bytes(artifact)
    }

    /// Checks that `size` bytes do not exceed the maximum size of a task.
    pub(super) fn check_size(&self, size: usize) -> Result<(), RunEnd> {
        match size <= self.core.settings.limits.artifact_bytes {
            true => Ok(()),
            false => Err(RunEnd::TooLarge),
        }
    }
}

/// Returns the bytes of an outcome's parts.
pub(super) fn outcome_bytes(outcome: &Outcome) -> usize {
    let parts: Option<&Vec<Part>> = match outcome {
        Outcome::Completed(parts) => parts.as_ref(),
        Outcome::Message(parts) | Outcome::InputRequired(parts) | Outcome::AuthRequired(parts) => {
            Some(parts)
        }
        Outcome::Rejected(_) | Outcome::Failed { .. } => None,
    };
    parts.map_or(0, encoded_bytes)
}

#[cfg(test)]
mod tests {
    use a2a::v1_0::TaskState;

    use super::is_stored;
    use crate::store::tests::{record, status};
    use crate::task_record::TaskChange;

    #[test]
    fn stored_changes_have_their_revision_and_their_status() {
        let (working, done) = (
            status(TaskState::Working, 1),
            status(TaskState::Completed, 1),
        );
        let mut stored = record("t", "ann", "c", 0);
        let revision = stored.revision;
        stored.apply(TaskChange::Status(working.clone()), 1);
        for (revision, status, expected) in [
            (revision, &working, true),
            (revision + 1, &working, false),
            (revision, &done, false),
        ] {
            let changes = [TaskChange::Status(status.clone())];
            assert_eq!(is_stored(&stored, revision, &changes), expected);
        }
    }
}
