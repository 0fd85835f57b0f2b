//! Keeping what happens to a task, in a store that may fail.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::super::core::refused;
use super::super::live::End;
use super::super::words;
use super::Life;
use crate::record::{Change, Record, is_interrupted};
use crate::refusal::A2aError;
use crate::store::StoreError;

/// How often a store that fails is asked, and how long it is left alone after the first time; each time twice as long.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How long a store is left alone that did not take how a task ended.
const AGAIN: Duration = Duration::from_secs(5);

/// Why a task cannot be written to any more.
#[derive(Debug)]
pub(in crate::service) enum Lost {
    /// Somebody else settled or deleted it.
    Elsewhere,
    /// The store failed again and again.
    Store(A2aError),
}

impl Life {
    /// Keeps a change, then applies it and tells whom it concerns.
    pub(in crate::service) async fn write(&mut self, change: Change) -> Result<(), Lost> {
        let at_ms = self.core.now_ms(&self.record);
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        loop {
            let revision = self.record.revision;
            let id = &self.record.task.id;
            match self.core.store.append(id, revision, at_ms, &change).await {
                Ok(()) => break,
                Err(StoreError::Failed(why) | StoreError::Damaged(why)) if tries < TRIES => {
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
                Err(StoreError::Conflict | StoreError::Settled) if tries > 1 => {
                    let kept = self.core.store.load(id).await;
                    match kept {
                        Ok(Some(kept)) if is_kept(&kept, revision, &change) => break,
                        _ => return Err(Lost::Elsewhere),
                    }
                }
                Err(error @ (StoreError::Failed(_) | StoreError::Damaged(_))) => {
                    let refusal = refused(error, id);
                    self.unkept = Some(change);
                    return Err(Lost::Store(refusal));
                }
                Err(_) => return Err(Lost::Elsewhere),
            }
            tries += 1;
        }
        self.record.apply(change.clone(), at_ms);
        self.core.changed(&self.record, &change);
        Ok(())
    }

    /// What the task is now that this server does not decide it any more.
    pub(super) async fn lost(&mut self, lost: Lost) -> End {
        let id = &self.record.task.id;
        match lost {
            Lost::Store(refusal) => {
                // Not even its turn may have come.
                let status = || Change::Status(words::unkept(&*self.core.env, &self.record));
                self.unkept.get_or_insert_with(status);
                End::Lost(refusal)
            }
            Lost::Elsewhere => {
                self.core.settled(&self.record.owner, id);
                match self.core.store.load(id).await {
                    Ok(Some(record)) => End::Stands(Arc::new(record)),
                    Ok(None) => End::Lost(A2aError::task_not_found(id)),
                    Err(error) => End::Lost(refused(error, id)),
                }
            }
        }
    }

    /// Goes on until the store takes how the task ended: nobody works on it any more, and nobody else would say so. A
    /// server that is stopped leaves that to the next one.
    pub(in crate::service) async fn keep_at_last(mut self) {
        let closing = self.core.closing.clone();
        while let Some(change) = self.unkept.take() {
            let change = match change {
                Change::Status(status)
                    if status.state.is_terminal() || is_interrupted(&status.state) =>
                {
                    Change::Status(status)
                }
                _ => Change::Status(words::unkept(self.env(), &self.record)),
            };
            let last = closing.run_until_cancelled(sleep(AGAIN)).await.is_none();
            match self.write(change).await {
                Err(Lost::Store(_)) if last => return,
                Ok(()) | Err(Lost::Store(_)) => {}
                Err(Lost::Elsewhere) => {
                    self.core.settled(&self.record.owner, &self.record.task.id);
                }
            }
        }
    }
}

/// Whether the change after `revision` is this one, and not somebody else's.
fn is_kept(kept: &Record, revision: u64, change: &Change) -> bool {
    kept.revision == revision + 1
        && match change {
            Change::Status(status) => kept.task.status == *status,
            _ => !kept.is_terminal(),
        }
}
