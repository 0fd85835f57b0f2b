//! Keeping what happens to a task, in a store that may fail.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::super::active_task::TaskEnd;
use super::super::core::refused;
use super::super::status;
use super::TaskRunner;
use crate::store::StoreError;
use crate::task_record::{TaskChange, TaskRecord, is_interrupted};
use a2a::A2aError;

/// How often a store that fails is asked, and how long it is left alone after the first time; each time twice as long.
const MAX_APPEND_ATTEMPTS: u32 = 5;
const RETRY_BASE_DELAY: Duration = Duration::from_millis(100);

/// How long a store is left alone that did not take how a task ended.
const STORE_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Why a task cannot be written to any more.
#[derive(Debug)]
pub(in crate::service) enum WriteError {
    /// Somebody else settled or deleted it.
    Superseded,
    /// The store failed again and again.
    Store(A2aError),
}

impl TaskRunner {
    /// Keeps a change, then applies it and tells whom it concerns.
    pub(in crate::service) async fn write(&mut self, change: TaskChange) -> Result<(), WriteError> {
        let at_ms = self.core.now_ms(&self.record);
        let mut pause = RETRY_BASE_DELAY;
        let mut tries = 1;
        loop {
            let revision = self.record.revision;
            let id = &self.record.task.id;
            match self.core.store.append(id, revision, at_ms, &change).await {
                Ok(()) => break,
                Err(StoreError::Failed(why) | StoreError::Damaged(why))
                    if tries < MAX_APPEND_ATTEMPTS =>
                {
                    tracing::warn!(
                        task_id = id,
                        why,
                        tries,
                        "the task store failed; trying again"
                    );
                    sleep(pause).await;
                    pause *= 2;
                }
                // What seemed to fail may have been kept all the same.
                Err(StoreError::Conflict | StoreError::Terminal) if tries > 1 => {
                    let stored = self.core.store.load(id).await;
                    match stored {
                        Ok(Some(stored)) if is_stored(&stored, revision, &change) => break,
                        _ => return Err(WriteError::Superseded),
                    }
                }
                Err(error @ (StoreError::Failed(_) | StoreError::Damaged(_))) => {
                    let refusal = refused(error, id);
                    self.unstored = Some(change);
                    return Err(WriteError::Store(refusal));
                }
                Err(_) => return Err(WriteError::Superseded),
            }
            tries += 1;
        }
        self.record.apply(change.clone(), at_ms);
        self.core.changed(&self.record, &change);
        Ok(())
    }

    /// What the task is now that this server does not decide it any more.
    pub(super) async fn handle_write_error(&mut self, lost: WriteError) -> TaskEnd {
        let id = &self.record.task.id;
        match lost {
            WriteError::Store(refusal) => {
                // Not even its turn may have come.
                let status =
                    || TaskChange::Status(status::store_failed(&*self.core.env, &self.record));
                self.unstored.get_or_insert_with(status);
                TaskEnd::Error(refusal)
            }
            WriteError::Superseded => {
                self.core.release_quota(&self.record.owner, id);
                match self.core.store.load(id).await {
                    Ok(Some(record)) => TaskEnd::Task(Arc::new(record)),
                    Ok(None) => TaskEnd::Error(A2aError::task_not_found(id)),
                    Err(error) => TaskEnd::Error(refused(error, id)),
                }
            }
        }
    }

    /// Goes on until the store takes how the task ended: nobody works on it any more, and nobody else would say so. A
    /// server that is stopped leaves that to the next one.
    pub(in crate::service) async fn persist_until_stored(mut self) {
        let closing = self.core.closing.clone();
        while let Some(change) = self.unstored.take() {
            let change = match change {
                TaskChange::Status(status)
                    if status.state.is_terminal() || is_interrupted(&status.state) =>
                {
                    TaskChange::Status(status)
                }
                _ => TaskChange::Status(status::store_failed(self.env(), &self.record)),
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

/// Whether the change after `revision` is this one, and not somebody else's.
fn is_stored(stored: &TaskRecord, revision: u64, change: &TaskChange) -> bool {
    stored.revision == revision + 1
        && match change {
            TaskChange::Status(status) => stored.task.status == *status,
            _ => !stored.is_terminal(),
        }
}
