//! How many calls run at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::config::Limits;
use peer::Delivered;

use super::deadline::Deadline;
use super::error::{Reason, ToolError};

/// Lets so many calls run at a time, and so many of them to one target. The others wait in the order in which they came,
/// first for their target's turn and then for the common one, so that a slow target keeps nobody else waiting.
#[derive(Debug)]
pub(super) struct ConcurrencyLimiter {
    all: Semaphore,
    most: usize,
    most_per_target: usize,
    /// One line for each target with calls that run or wait. It goes with the last of them, so that requests, which may
    /// name any number of targets, leave nothing behind.
    lines: Mutex<HashMap<Arc<str>, Line>>,
}

/// A target's line.
#[derive(Debug)]
struct Line {
    turns: Arc<Semaphore>,
    /// How many calls run or wait. Each leaves under the lock, so that the last one knows that it is.
    places: usize,
}

/// A call's turn. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _common: SemaphorePermit<'a>,
    _of_target: OwnedSemaphorePermit,
    _place: Place<'a>,
}

impl ConcurrencyLimiter {
    /// A limiter for these limits.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            all: Semaphore::new(limits.concurrency.min(Semaphore::MAX_PERMITS)),
            most: limits.concurrency,
            most_per_target: limits.concurrency_per_target.min(Semaphore::MAX_PERMITS),
            lines: Mutex::default(),
        }
    }

    /// Waits for a turn to call the target of this key, within `deadline`.
    ///
    /// # Errors
    /// [`Reason::Busy`] when the time is up before a turn comes, and what else ends the call. Nothing was sent.
    pub(super) async fn enter(
        &self,
        target: &Arc<str>,
        deadline: &Deadline,
    ) -> Result<Turn<'_>, ToolError> {
        deadline
            .goes_on()
            .map_err(|error| error.delivered(Delivered::No))?;
        let (place, turns) = self.place(target);
        // Nobody is overtaken: where somebody waits, a turn that comes free is theirs at once, and none is to be had.
        let of_target = match Arc::clone(&turns).try_acquire_owned() {
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
        Ok(Turn {
            _common: common,
            _of_target: of_target,
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
            // A semaphore is never closed, so all that is left is that the time is up.
            Ok(Err(_)) | Err(_) => {
                let message =
                    format!("{most} calls are under way {whose}, and none of them ended in time");
                Err(ToolError::new(Reason::Busy, message).delivered(Delivered::No))
            }
        }
    }

    fn place(&self, target: &Arc<str>) -> (Place<'_>, Arc<Semaphore>) {
        let mut lines = self.lines();
        let line = lines.entry(Arc::clone(target)).or_insert_with(|| Line {
            turns: Arc::new(Semaphore::new(self.most_per_target)),
            places: 0,
        });
        line.places += 1;
        let place = Place {
            concurrency_limiter: self,
            target: Arc::clone(target),
        };
        (place, Arc::clone(&line.turns))
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a target's line.
#[derive(Debug)]
struct Place<'a> {
    concurrency_limiter: &'a ConcurrencyLimiter,
    target: Arc<str>,
}

impl Drop for Place<'_> {
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
    async fn a_call_waits_until_another_to_its_target_ends() {
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
    async fn turns_come_in_the_order_of_the_calls() {
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
    async fn a_call_whose_turn_does_not_come_is_told_so_at_its_deadline() {
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
    async fn calls_that_wait_for_their_target_keep_no_other_target_waiting() {
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
    async fn the_common_limit_holds_across_targets() {
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
    async fn a_call_that_is_cancelled_leaves_the_line() {
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
    async fn a_target_that_nobody_calls_any_more_is_forgotten() {
        let concurrency_limiter = concurrency_limiter(1, 1);
        let a = named("a");
        let running = concurrency_limiter.enter(&a, &seconds(9)).await.unwrap();
        let deadline = seconds(9);
        let mut given_up = Box::pin(concurrency_limiter.enter(&a, &deadline));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
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
