//! The times of a call: its deadline, and the pauses between polls and subscriptions.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::backoff::Backoff;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::error::{Reason, ToolError};

/// How long before the deadline a blocking send becomes a task, at most.
const MAX_DETACH_MARGIN: Duration = Duration::from_secs(1);

/// How long a cancelled call still waits for the answer to a message that it has sent: without the id in it, the task that
/// the message began could not be cancelled.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The end of a call: its deadline, its cancellation, or the end of the instance. The deadline uses the runtime's
/// clock, because the runtime wakes the call.
#[derive(Debug, Clone)]
pub(super) struct Deadline {
    deadline: Instant,
    wait: Duration,
    cancel: CancellationToken,
    closing: CancellationToken,
    /// The end of the wait after a cancellation, which is one for all that a call waits for.
    grace_end: Arc<OnceLock<Instant>>,
}

impl Deadline {
    /// Creates a deadline `wait` from now, which `cancel` of the caller or `closing` of the instance ends sooner.
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
            grace_end: Arc::default(),
        }
    }

    /// Returns the same deadline, with at most `wait` from now for a part of the call.
    #[must_use]
    pub(super) fn with_limit(&self, wait: Duration) -> Self {
        Self {
            deadline: self.deadline.min(Instant::now() + wait),
            wait: wait.min(self.wait),
            ..self.clone()
        }
    }

    /// Returns the time at which a blocking send becomes a task: `at_most` from now, and shortly before the deadline,
    /// so that the answer names the task.
    pub(super) fn wait_until(&self, at_most: Option<Duration>) -> Instant {
        let end = self.deadline - (self.wait / 10).min(MAX_DETACH_MARGIN);
        at_most.map_or(end, |wait| end.min(Instant::now() + wait))
    }

    /// Returns the time until the deadline.
    pub(super) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns the time until shortly before the deadline, so that a result can still say what happened.
    pub(super) fn before_end(&self) -> Duration {
        self.wait_until(None)
            .saturating_duration_since(Instant::now())
    }

    /// Returns a deadline with the whole time from now.
    #[must_use]
    pub(super) fn renewed(&self) -> Self {
        Self {
            deadline: Instant::now() + self.wait,
            ..self.clone()
        }
    }

    /// Checks the clock. [`run`](Self::run) does so only while its work is pending, so an endless stream of ready
    /// events would pass the deadline.
    ///
    /// # Errors
    /// [`Reason::Timeout`] after the deadline.
    pub(super) fn check_expired(&self) -> Result<(), ToolError> {
        if self.remaining().is_zero() {
            return Err(self.timeout_error());
        }
        Ok(())
    }

    /// Checks for cancellation.
    ///
    /// # Errors
    /// [`Reason::Aborted`] or [`Reason::ShuttingDown`].
    pub(super) fn check_cancelled(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            return Err(aborted_error());
        }
        if self.closing.is_cancelled() {
            return Err(shutdown_error());
        }
        Ok(())
    }

    /// Runs `work` within the deadline.
    ///
    /// # Errors
    /// [`Reason::Aborted`], [`Reason::ShuttingDown`] or [`Reason::Timeout`], whichever comes first; `work` is dropped,
    /// or not started.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, ToolError> {
        self.check_cancelled()?;
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.cancel.cancelled() => Err(aborted_error()),
            () = self.closing.cancelled() => Err(shutdown_error()),
            () = sleep_until(self.deadline) => Err(self.timeout_error()),
        }
    }

    /// Runs `exchange`, which delivers a message, like [`run`](Self::run), but lets a cancellation wait for it up to
    /// [`CANCEL_GRACE`].
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub(super) async fn run_delivery<T>(
        &self,
        exchange: impl Future<Output = T>,
    ) -> Result<T, ToolError> {
        self.check_cancelled()?;
        self.run_answer(exchange).await
    }

    /// Waits for the first `answer` to a message that was sent. A cancellation waits for it up to [`CANCEL_GRACE`], also one
    /// that came before.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub(super) async fn run_answer<T>(
        &self,
        answer: impl Future<Output = T>,
    ) -> Result<T, ToolError> {
        let cancelled = async {
            self.cancel.cancelled().await;
            sleep_until(*self.grace_end.get_or_init(|| Instant::now() + CANCEL_GRACE)).await;
        };
        tokio::select! {
            biased;
            done = answer => Ok(done),
            () = cancelled => Err(aborted_error()),
            () = self.closing.cancelled() => Err(shutdown_error()),
            () = sleep_until(self.deadline) => Err(self.timeout_error()),
        }
    }

    /// Runs `work`, which has a limit of its own, until it ends or the call is cancelled.
    ///
    /// # Errors
    /// [`Reason::Aborted`] or [`Reason::ShuttingDown`]; `work` is dropped, or not started.
    pub(super) async fn run_without_limit<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, ToolError> {
        self.check_cancelled()?;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(aborted_error()),
            () = self.closing.cancelled() => Err(shutdown_error()),
            done = work => Ok(done),
        }
    }

    fn timeout_error(&self) -> ToolError {
        let message = format!("the call took longer than {} ms", self.wait.as_millis());
        ToolError::new(Reason::Timeout, message)
    }
}

fn aborted_error() -> ToolError {
    ToolError::new(Reason::Aborted, "the caller cancelled the call")
}

fn shutdown_error() -> ToolError {
    ToolError::new(
        Reason::ShuttingDown,
        "the plugin was shut down while the call was under way",
    )
}

/// How many times as long as `idle` the silence of a stream before a further poll may be.
const MAX_IDLE_FACTOR: u32 = 8;

/// The pauses between attempts to reach a task. A parameter, so that tests with a thousand cuts need not wait.
#[derive(Debug, Clone)]
pub struct PollIntervals {
    /// The pause between the first two polls. It doubles with each further one.
    pub first_poll: Duration,
    /// The longest pause between two polls.
    pub longest_poll: Duration,
    /// How long a stream may be silent before the task is polled: the peer may have lost the subscription.
    pub idle: Duration,
    /// How long a stream stays open after its task ended without an event marked as final.
    pub final_wait: Duration,
}

impl PollIntervals {
    /// Returns the pauses between polls.
    pub(super) fn polls(&self) -> Backoff {
        Backoff::new(self.first_poll, self.longest_poll)
    }

    /// Returns the silences of a stream before each poll.
    pub(super) fn silences(&self) -> Backoff {
        Backoff::new(self.idle, self.idle * MAX_IDLE_FACTOR)
    }
}

impl Default for PollIntervals {
    fn default() -> Self {
        Self {
            first_poll: Duration::from_secs(1),
            longest_poll: Duration::from_secs(10),
            idle: Duration::from_secs(15),
            final_wait: Duration::from_millis(250),
        }
    }
}
