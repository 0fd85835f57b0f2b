//! Limits on concurrent calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::config::Limits;
use peer::Delivered;

use super::deadline::Deadline;
use super::error::{Reason, ToolError};

/// Limits how many calls run at a time, in all and per target. The others wait in order of arrival, first for a permit
/// of their target and then for a common one, so that a slow target does not block calls to others.
#[derive(Debug)]
pub(super) struct ConcurrencyLimiter {
    all: Semaphore,
    most: usize,
    most_per_target: usize,
    /// One semaphore for each target with calls that run or wait. The last call removes it, because requests may name
    /// any number of targets.
    lines: Mutex<HashMap<Arc<str>, TargetSemaphore>>,
}

/// The semaphore of a target.
#[derive(Debug)]
struct TargetSemaphore {
    turns: Arc<Semaphore>,
    /// How many calls run or wait. Changes under the lock of the map, so that exactly one call is the last.
    places: usize,
}

/// Permission to run one call, until it is dropped.
#[derive(Debug)]
pub(super) struct CallPermit<'a> {
    _common: SemaphorePermit<'a>,
    _of_target: OwnedSemaphorePermit,
    _place: Registration<'a>,
}

impl ConcurrencyLimiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            all: Semaphore::new(limits.concurrency.min(Semaphore::MAX_PERMITS)),
            most: limits.concurrency,
            most_per_target: limits.concurrency_per_target.min(Semaphore::MAX_PERMITS),
            lines: Mutex::default(),
        }
    }

    /// Waits for a permit to call the target of this key, within `deadline`.
    ///
    /// # Errors
    /// [`Reason::Busy`] when the deadline passes first, or the reason that the call was cancelled. Nothing was sent.
    pub(super) async fn enter(
        &self,
        target: &Arc<str>,
        deadline: &Deadline,
    ) -> Result<CallPermit<'_>, ToolError> {
        deadline
            .check_cancelled()
            .map_err(|error| error.delivered(Delivered::No))?;
        let (place, turns) = self.place(target);
        // tokio's semaphores are fair: while a call waits, `try_acquire` fails for later ones.
        let target_permit = match Arc::clone(&turns).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = turns.acquire_owned();
                Box::pin(self.wait(deadline, turn, self.most_per_target, "to this target")).await?
            }
        };
        let common = match self.all.try_acquire() {
            Ok(turn) => turn,
            Err(_) => {
                let turn = self.all.acquire();
                Box::pin(self.wait(deadline, turn, self.most, "in all")).await?
            }
        };
        Ok(CallPermit {
            _common: common,
            _of_target: target_permit,
            _place: place,
        })
    }

    async fn wait<T, E>(
        &self,
        deadline: &Deadline,
        turn: impl Future<Output = Result<T, E>>,
        most: usize,
        whose: &str,
    ) -> Result<T, ToolError> {
        match deadline.run(turn).await {
            Ok(Ok(turn)) => Ok(turn),
            Err(error) if error.reason != Reason::Timeout => Err(error.delivered(Delivered::No)),
            // A semaphore is never closed, so the error is the deadline's.
            Ok(Err(_)) | Err(_) => {
                let message =
                    format!("{most} calls are running {whose}, and no slot became free in time");
                Err(ToolError::new(Reason::Busy, message).delivered(Delivered::No))
            }
        }
    }

    fn place(&self, target: &Arc<str>) -> (Registration<'_>, Arc<Semaphore>) {
        let mut lines = self.lines();
        let line = lines
            .entry(Arc::clone(target))
            .or_insert_with(|| TargetSemaphore {
                turns: Arc::new(Semaphore::new(self.most_per_target)),
                places: 0,
            });
        line.places += 1;
        let place = Registration {
            concurrency_limiter: self,
            target: Arc::clone(target),
        };
        (place, Arc::clone(&line.turns))
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, TargetSemaphore>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's registration at its target's semaphore.
#[derive(Debug)]
struct Registration<'a> {
    concurrency_limiter: &'a ConcurrencyLimiter,
    target: Arc<str>,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut lines = self.concurrency_limiter.lines();
        if let Some(line) = lines.get_mut(&self.target) {
            line.places -= 1;
            if line.places == 0 {
                lines.remove(&self.target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn concurrency_limiter(
        concurrency: usize,
        concurrency_per_target: usize,
    ) -> ConcurrencyLimiter {
        ConcurrencyLimiter::new(&Limits {
            concurrency,
            concurrency_per_target,
            ..Limits::default()
        })
    }

    fn seconds(wait: u64) -> Deadline {
        Deadline::new(
            Duration::from_secs(wait),
            CancellationToken::new(),
            CancellationToken::new(),
        )
    }

    fn named(target: &str) -> Arc<str> {
        target.into()
    }

    #[tokio::test]
    async fn call_waits_for_a_permit_of_its_target() {
        let concurrency_limiter = concurrency_limiter(9, 1);
        let deadline = seconds(9);
        let first = concurrency_limiter
            .enter(&named("a"), &deadline)
            .await
            .unwrap();
        let a = named("a");
        let mut second = Box::pin(concurrency_limiter.enter(&a, &deadline));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        second.await.unwrap();
    }

    #[tokio::test]
    async fn permits_are_granted_in_order_of_arrival() {
        let concurrency_limiter = concurrency_limiter(1, 1);
        let deadline = seconds(9);
        let a = named("a");
        let first = concurrency_limiter.enter(&a, &deadline).await.unwrap();
        let mut second = Box::pin(concurrency_limiter.enter(&a, &deadline));
        let mut third = Box::pin(concurrency_limiter.enter(&a, &deadline));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        let second = second.await.unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop(second);
        third.await.unwrap();
    }

    #[tokio::test]
    async fn waiting_call_fails_as_busy_at_its_deadline() {
        let concurrency_limiter = concurrency_limiter(9, 1);
        let a = named("a");
        let _first = concurrency_limiter.enter(&a, &seconds(9)).await.unwrap();
        let error = concurrency_limiter
            .enter(&a, &seconds(0))
            .await
            .unwrap_err();
        assert_eq!(
            (error.reason, error.delivered),
            (Reason::Busy, Delivered::No)
        );
        assert!(error.message.contains("1 calls"), "{}", error.message);
    }

    #[tokio::test]
    async fn busy_target_does_not_block_others() {
        let concurrency_limiter = concurrency_limiter(2, 1);
        let deadline = seconds(9);
        let a = named("a");
        let _running = concurrency_limiter.enter(&a, &deadline).await.unwrap();
        let mut waiting = Box::pin(concurrency_limiter.enter(&a, &deadline));
        assert!(waiting.as_mut().now_or_never().is_none());
        concurrency_limiter
            .enter(&named("b"), &deadline)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn common_limit_covers_all_targets() {
        let concurrency_limiter = concurrency_limiter(1, 1);
        let _running = concurrency_limiter
            .enter(&named("a"), &seconds(9))
            .await
            .unwrap();
        let error = concurrency_limiter
            .enter(&named("b"), &seconds(0))
            .await
            .unwrap_err();
        assert!(error.message.contains("in all"), "{}", error.message);
    }

    #[tokio::test]
    async fn cancelled_call_releases_its_place() {
        let concurrency_limiter = concurrency_limiter(1, 1);
        let a = named("a");
        let running = concurrency_limiter.enter(&a, &seconds(9)).await.unwrap();
        let cancel = CancellationToken::new();
        let deadline = Deadline::new(
            Duration::from_secs(9),
            cancel.clone(),
            CancellationToken::new(),
        );
        let mut waiting = Box::pin(concurrency_limiter.enter(&a, &deadline));
        assert!(waiting.as_mut().now_or_never().is_none());
        cancel.cancel();
        assert_eq!(waiting.await.unwrap_err().reason, Reason::Aborted);
        drop(running);
        concurrency_limiter.enter(&a, &seconds(1)).await.unwrap();
    }

    #[tokio::test]
    async fn idle_target_is_removed() {
        let concurrency_limiter = concurrency_limiter(1, 1);
        let a = named("a");
        let running = concurrency_limiter.enter(&a, &seconds(9)).await.unwrap();
        let deadline = seconds(9);
        let mut dropped = Box::pin(concurrency_limiter.enter(&a, &deadline));
        assert!(dropped.as_mut().now_or_never().is_none());
        drop(dropped);
        concurrency_limiter
            .enter(&named("b"), &seconds(0))
            .await
            .unwrap_err();
        assert_eq!(concurrency_limiter.lines().len(), 1);
        drop(running);
        assert!(concurrency_limiter.lines().is_empty());
        for i in 0..100 {
            concurrency_limiter
                .enter(&named(&i.to_string()), &seconds(1))
                .await
                .unwrap();
        }
        assert!(concurrency_limiter.lines().is_empty());
    }
}
