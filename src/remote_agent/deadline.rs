//! How long a call may go on.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::error::{Reason, ToolError};

/// How long a peer has, at most, to say what became of a message at the end of a call.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The end of a call: its deadline, its caller's word, or the end of the instance. The deadline is counted by the
/// runtime's clock, because it is the runtime that wakes the call.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    deadline: Instant,
    wait: Duration,
    cancel: CancellationToken,
    closing: CancellationToken,
}

impl Deadline {
    /// A call that may take `wait` from now, unless its caller's `cancel` or the instance's `closing` ends it sooner.
    pub(super) fn new(
        wait: Duration,
        cancel: CancellationToken,
        closing: CancellationToken,
    ) -> Self {
        Self {
            deadline: Instant::now() + wait,
            wait,
            cancel,
            closing,
        }
    }

    /// The same call, with at most `wait` from now for a part of it.
    #[must_use]
    pub(super) fn shorter(&self, wait: Duration) -> Self {
        Self {
            deadline: self.deadline.min(Instant::now() + wait),
            wait: wait.min(self.wait),
            ..self.clone()
        }
    }

    /// Until when an answer is waited for that may become a task instead: shortly before the call's time is up, so that the
    /// task is heard of, and `at_most` from now.
    pub(super) fn until(&self, at_most: Option<Duration>) -> Instant {
        let end = self.deadline - (self.wait / 10).min(LAST_WORDS);
        at_most.map_or(end, |wait| end.min(Instant::now() + wait))
    }

    /// How much of the call's time is left.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Looks at the clock, which [`run`](Self::run) does only while its work has to wait: a peer that never stops talking
    /// would be heard for ever.
    ///
    /// # Errors
    /// [`Reason::Timeout`] when the call's time is up.
    pub(super) fn in_time(&self) -> Result<(), ToolError> {
        if self.left().is_zero() {
            return Err(self.late());
        }
        Ok(())
    }

    /// Nobody has ended the call so far.
    ///
    /// # Errors
    /// [`Reason::Aborted`] or [`Reason::ShuttingDown`].
    pub(super) fn goes_on(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            return Err(aborted());
        }
        if self.closing.is_cancelled() {
            return Err(closing());
        }
        Ok(())
    }

    /// Runs `work` within the deadline.
    ///
    /// # Errors
    /// [`Reason::Aborted`], [`Reason::ShuttingDown`] or [`Reason::Timeout`], whichever comes first; `work` is dropped,
    /// or not even begun.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, ToolError> {
        self.goes_on()?;
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.cancel.cancelled() => Err(aborted()),
            () = self.closing.cancelled() => Err(closing()),
            () = sleep_until(self.deadline) => Err(self.late()),
        }
    }

    fn late(&self) -> ToolError {
        let message = format!("the call took longer than {} ms", self.wait.as_millis());
        ToolError::new(Reason::Timeout, message)
    }
}

fn aborted() -> ToolError {
    ToolError::new(Reason::Aborted, "the caller cancelled the call")
}

fn closing() -> ToolError {
    ToolError::new(
        Reason::ShuttingDown,
        "the plugin was shut down while the call was under way",
    )
}
