//! The lease of this server, and the recovery of tasks of dead servers.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;

use super::Inner;
use super::queue::Notifiers;
use crate::store::{StoreError, Summary};

/// The maximum number of tasks that one call recovers.
const RECOVERY_BATCH: usize = 500;
/// The maximum number of cancel requests that one call reads.
const CANCEL_BATCH: usize = 64;

/// Renews the lease three times per lease time.
pub(super) async fn renew_lease(inner: Arc<Inner>) {
    let mut tick = tokio::time::interval(inner.lease / 3);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if let Err(error) = inner.heartbeat().await {
            tracing::warn!(%error, "cannot renew the lease of this server");
        }
    }
}

/// Forwards the cancel requests for this server to `to` until its receiver is dropped.
pub(super) async fn forward_cancellations(
    inner: Arc<Inner>,
    notifiers: Arc<Notifiers>,
    to: Sender<String>,
) {
    loop {
        notifiers.cancels.notified().await;
        loop {
            match forward_batch(&inner, &to).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the cancel requests");
                    tokio::time::sleep(inner.lease / 6).await;
                }
            }
            if to.is_closed() {
                return;
            }
        }
    }
}

/// Forwards a batch of cancel requests. Returns whether there was one.
async fn forward_batch(inner: &Inner, to: &Sender<String>) -> Result<bool, StoreError> {
    let key = format!("{}cancels:{}", inner.prefix, inner.server);
    let call = inner.scripts.canceled.call().arg(CANCEL_BATCH);
    let task_ids: Vec<Vec<u8>> = inner.connection.call(&call).await?;
    let found = !task_ids.is_empty();
    for task_id in task_ids {
        // Removed only after forwarding, so that a request may arrive twice but is never lost.
        let mut done = redis::cmd("LREM");
        done.arg(&key).arg(0).arg(&task_id);
        // No server wrote bytes that are no text.
        if let Ok(task_id) = String::from_utf8(task_id) {
            let _ = to.send(task_id).await;
        }
        let _: usize = inner.connection.query(&done).await?;
    }
    Ok(found)
}

/// Recovered tasks that need a further step.
#[derive(Default)]
pub(super) struct RecoveryState {
    /// Tasks whose recovery Redis has not confirmed.
    unconfirmed: HashSet<Vec<u8>>,
    /// Tasks whose cancellation was requested from a dead server. The next call requests it again, once this server
    /// runs them.
    canceled: Vec<String>,
}

impl Inner {
    pub(super) async fn heartbeat(&self) -> Result<(), StoreError> {
        let call = self.scripts.heartbeat.call().arg(self.lease_ms());
        let _: String = self.connection.call(&call).await?;
        Ok(())
    }

    pub(super) async fn release_lease(&self) -> Result<(), StoreError> {
        let _: String = self
            .connection
            .call(&self.scripts.release_lease.call())
            .await?;
        Ok(())
    }

    /// Takes over the tasks of dead servers.
    pub(super) async fn recover(
        &self,
        recovery: &Mutex<RecoveryState>,
    ) -> Result<Vec<Summary>, StoreError> {
        while let Some(task_id) = { recovery.lock().canceled.pop() } {
            // All other errors mean that the task is deleted, terminal or damaged, so it needs no cancel request.
            if let Err(error @ (StoreError::Failed(_) | StoreError::Refused(_))) =
                self.request_cancel(&task_id).await
            {
                recovery.lock().canceled.push(task_id);
                return Err(error);
            }
        }
        if self.is_young().await? {
            return Ok(Vec::new());
        }
        let call = self
            .scripts
            .recover
            .call()
            .arg(self.lease_ms())
            .arg(RECOVERY_BATCH);
        let (task_ids, canceled): (Vec<Vec<u8>>, Vec<Vec<u8>>) =
            self.connection.call(&call).await?;
        if task_ids.is_empty() {
            return Ok(Vec::new());
        }
        let (mut tasks, mut done) = (Vec::new(), Vec::new());
        for id in task_ids {
            // No server created a task whose id is no text.
            if let Ok(task_id) = std::str::from_utf8(&id)
                && !recovery.lock().unconfirmed.contains(&id)
            {
                match self.load(task_id).await {
                    Ok(Some(record)) if !record.is_terminal() => {
                        self.mark_running(task_id);
                        tasks.push(Summary::new(&record));
                    }
                    Ok(_) => {}
                    // Continue with the other tasks. The next call returns this one again.
                    Err(error) => {
                        tracing::warn!(task_id, %error, "cannot recover a task of a dead server");
                        continue;
                    }
                }
            }
            done.push(id);
        }
        let call = done
            .iter()
            .fold(self.scripts.confirm_recovery.call(), |call, id| {
                call.arg(id)
            });
        let confirmed: Result<String, StoreError> = self.connection.call(&call).await;
        let mut recovery = recovery.lock();
        recovery.canceled.extend(
            canceled
                .into_iter()
                .filter_map(|id| String::from_utf8(id).ok())
                .filter(|id| tasks.iter().any(|task| task.id == *id)),
        );
        match confirmed {
            Ok(_) => recovery.unconfirmed.clear(),
            // The next call returns these tasks again, and `unconfirmed` skips them.
            Err(_) => recovery.unconfirmed.extend(done),
        }
        Ok(tasks)
    }

    /// Returns whether Redis started less than a lease ago. Servers that lost their connection need that time to renew
    /// their leases.
    async fn is_young(&self) -> Result<bool, StoreError> {
        let info: String = self
            .connection
            .query(redis::cmd("INFO").arg("server"))
            .await?;
        Ok(field(&info, "uptime_in_seconds")
            .and_then(|seconds| seconds.parse::<u64>().ok())
            .is_some_and(|seconds| seconds.saturating_mul(1000) < self.lease_ms()))
    }
}

/// Returns a field of the `INFO` command.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}
