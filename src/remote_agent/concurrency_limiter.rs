//! Limits on concurrent calls.

use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::config::Limits;
use base::keyed_semaphore::{KeyedPermit, KeyedSemaphore};
use peer::Delivered;

use super::deadline::Deadline;
use super::error::{Reason, ToolError};

/// Limits how many calls run at a time, in all and per target. The others wait in order of arrival, first for a permit
/// of their target and then for a common one, so that a slow target does not block calls to others.
#[derive(Debug)]
pub(super) struct ConcurrencyLimiter {
    all: Semaphore,
    max: usize,
    max_per_target: usize,
    /// The permits of targets. Requests may name any number of targets.
    targets: KeyedSemaphore<Arc<str>>,
}

/// Permission to run one call, until it is dropped.
#[derive(Debug)]
pub(super) struct CallPermit<'a> {
    _common: SemaphorePermit<'a>,
    _of_target: KeyedPermit<Arc<str>>,
}

impl ConcurrencyLimiter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            all: Semaphore::new(limits.concurrency.min(Semaphore::MAX_PERMITS)),
            max: limits.concurrency,
            max_per_target: limits.concurrency_per_target.min(Semaphore::MAX_PERMITS),
            targets: KeyedSemaphore::new(limits.concurrency_per_target),
        }
    }

    /// Waits for a permit to call the target of this key, within `deadline`.
    ///
    /// # Errors
    /// [`Reason::Busy`] when the deadline passes first, or the reason that the call was cancelled. Nothing was sent.
    pub(super) async fn acquire(
        &self,
        target: &Arc<str>,
        deadline: &Deadline,
    ) -> Result<CallPermit<'_>, ToolError> {
        deadline
            .check_cancelled()
            .map_err(|error| error.delivered(Delivered::No))?;
        // tokio's semaphores are fair: while a call waits, later ones get no permit.
        let mut waiting = self.targets.acquire(Arc::clone(target));
        let target_permit = match (&mut waiting).now_or_never() {
            Some(permit) => permit,
            None => {
                let permit = waiting.map(Ok::<_, AcquireError>);
                Box::pin(self.acquire_within(
                    deadline,
                    permit,
                    self.max_per_target,
                    "to this target",
                ))
                .await?
            }
        };
        let common = match self.all.try_acquire() {
            Ok(permit) => permit,
            Err(_) => {
                let permit = self.all.acquire();
                Box::pin(self.acquire_within(deadline, permit, self.max, "in all")).await?
            }
        };
        Ok(CallPermit {
            _common: common,
            _of_target: target_permit,
        })
    }

    async fn acquire_within<T, E>(
        &self,
        deadline: &Deadline,
        permit: impl Future<Output = Result<T, E>>,
        max: usize,
        scope: &str,
    ) -> Result<T, ToolError> {
        match deadline.run(permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Err(error) if error.reason != Reason::Timeout => Err(error.delivered(Delivered::No)),
            // A semaphore is never closed, so the error is the deadline's.
            Ok(Err(_)) | Err(_) => {
                let message =
                    format!("{max} calls are running {scope}, and no slot became free in time");
                Err(ToolError::new(Reason::Busy, message).delivered(Delivered::No))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;

    use super::*;

    fn limiter(concurrency: usize, concurrency_per_target: usize) -> ConcurrencyLimiter {
        ConcurrencyLimiter::new(&Limits {
            concurrency,
            concurrency_per_target,
            ..Limits::default()
        })
    }

    fn within(seconds: u64, cancel: CancellationToken) -> Deadline {
        let closed = CancellationToken::new();
        Deadline::new(Duration::from_secs(seconds), cancel, closed)
    }

    fn later() -> Deadline {
        within(9, CancellationToken::new())
    }

    fn now() -> Deadline {
        within(0, CancellationToken::new())
    }

    #[tokio::test]
    async fn permits_of_a_target_are_granted_in_order_of_arrival() {
        let (limiter, a, deadline) = (limiter(9, 1), "a".into(), later());
        let first = limiter.acquire(&a, &deadline).await.unwrap();
        let mut second = Box::pin(limiter.acquire(&a, &deadline));
        let mut third = Box::pin(limiter.acquire(&a, &deadline));
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
        for (limiter, target, scope) in [
            (limiter(9, 1), "a", "1 calls"),
            (limiter(1, 1), "b", "in all"),
        ] {
            let _running = limiter.acquire(&"a".into(), &later()).await.unwrap();
            let error = limiter.acquire(&target.into(), &now()).await.unwrap_err();
            let refusal = (error.reason, error.delivered);
            assert_eq!(refusal, (Reason::Busy, Delivered::No));
            assert!(error.message.contains(scope), "{}", error.message);
        }
    }

    #[tokio::test]
    async fn busy_target_does_not_block_others() {
        let (limiter, a, deadline) = (limiter(2, 1), "a".into(), later());
        let _running = limiter.acquire(&a, &deadline).await.unwrap();
        let mut waiting = Box::pin(limiter.acquire(&a, &deadline));
        assert!(waiting.as_mut().now_or_never().is_none());
        limiter.acquire(&"b".into(), &deadline).await.unwrap();
    }

    #[tokio::test]
    async fn cancelled_call_releases_its_place() {
        let (limiter, a) = (limiter(1, 1), "a".into());
        let running = limiter.acquire(&a, &later()).await.unwrap();
        let cancel = CancellationToken::new();
        let deadline = within(9, cancel.clone());
        let mut waiting = Box::pin(limiter.acquire(&a, &deadline));
        assert!(waiting.as_mut().now_or_never().is_none());
        cancel.cancel();
        assert_eq!(waiting.await.unwrap_err().reason, Reason::Aborted);
        drop(running);
        limiter.acquire(&a, &later()).await.unwrap();
    }

    #[tokio::test]
    async fn idle_target_is_removed() {
        let (limiter, a, deadline) = (limiter(1, 1), "a".into(), later());
        let running = limiter.acquire(&a, &deadline).await.unwrap();
        let mut dropped = Box::pin(limiter.acquire(&a, &deadline));
        assert!(dropped.as_mut().now_or_never().is_none());
        drop(dropped);
        limiter.acquire(&"b".into(), &now()).await.unwrap_err();
        assert_eq!(limiter.targets.len(), 1);
        drop(running);
        assert!(limiter.targets.is_empty());
        for i in 0..100 {
            let target = i.to_string().into();
            limiter.acquire(&target, &deadline).await.unwrap();
        }
        assert!(limiter.targets.is_empty());
    }
}
