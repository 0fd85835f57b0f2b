//! The permits that a run waits for.

use tokio::time::sleep;

use super::super::core::to_a2a_error;
use super::super::run_slots::RunSlot;
use super::{QUIET_PERIOD, RunEnd, TaskRunner, WriteError};
use crate::store::{QueuePermit, QueueTicket, StoreError};
use a2a::ErrorReason;

/// The permits that a run needs: the head of the session's queue, and one of the concurrent runs.
pub(super) struct RunPermit {
    _turn: QueuePermit,
    _slot: RunSlot,
}

impl TaskRunner {
    /// Waits for the permits.
    pub(super) async fn acquire_permit(
        &mut self,
        waiting: QueueTicket,
    ) -> Result<RunPermit, RunEnd> {
        let (slots, client) = (self.core.slots.clone(), self.record.owner.clone());
        let permit = async move {
            let turn = waiting.await?;
            let slot = slots
                .acquire(&client)
                .await
                .ok_or_else(|| StoreError::Failed("the server starts no more runs".to_owned()))?;
            Ok(RunPermit {
                _turn: turn,
                _slot: slot,
            })
        };
        tokio::pin!(permit);
        let quiet = sleep(QUIET_PERIOD);
        tokio::pin!(quiet);
        loop {
            tokio::select! {
                biased;
                () = self.active.canceled.cancelled() => return Err(RunEnd::Canceled),
                () = self.core.closing.cancelled() => return Err(RunEnd::ServerStopped),
                permit = &mut permit => {
                    let permit = permit.map_err(|error: StoreError| {
                        RunEnd::WriteError(WriteError::Store(to_a2a_error(error, &self.record.task.id)))
                    })?;
                    return match self.core.make_room(&self.record.owner, 0, true).await {
                        Err(error) if error.reason == ErrorReason::ResourceExhausted => {
                            Err(RunEnd::NoRoom)
                        }
                        // If the store fails here, the first write of the run reports the error.
                        _ => Ok(permit),
                    };
                }
                () = &mut quiet, if !quiet.is_elapsed() => {
                    self.active.mark_visible();
                    self.unload();
                }
            }
        }
    }

    /// Drops the body of a waiting task from memory, because many tasks may wait while few run.
    fn unload(&mut self) {
        let task = &mut self.record.task;
        (task.history, task.artifacts, task.metadata) = (None, None, None);
        self.unloaded = true;
        self.weight = None;
    }
}
