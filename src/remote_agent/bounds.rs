//! How long a call may go on.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::error::{Reason, ToolError};

/// The end of a call: its deadline, or its caller's word.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    deadline: Instant,
    wait: Duration,
    cancel: CancellationToken,
}

impl Bounds {
    /// A call that may take `wait` from now, unless `cancel` ends it sooner.
    pub(super) fn new(wait: Duration, cancel: CancellationToken) -> Self {
        Self {
            deadline: Instant::now() + wait,
            wait,
            cancel,
        }
    }

    /// The same call, with at most `wait` from now for a part of it.
    #[must_use]
    pub(super) fn shorter(&self, wait: Duration) -> Self {
        let deadline = self.deadline.min(Instant::now() + wait);
        Self {
            deadline,
            wait: wait.min(self.wait),
            cancel: self.cancel.clone(),
        }
    }

    /// Runs `work` within the bounds.
    ///
    /// # Errors
    /// [`Reason::Aborted`] or [`Reason::Timeout`], whichever comes first; `work` is dropped.
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, ToolError> {
        if self.cancel.is_cancelled() {
            return Err(aborted());
        }
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.cancel.cancelled() => Err(aborted()),
            () = sleep_until(self.deadline) => {
                let message = format!("the call took longer than {} ms", self.wait.as_millis());
                Err(ToolError::new(Reason::Timeout, message))
            }
        }
    }
}

fn aborted() -> ToolError {
    ToolError::new(Reason::Aborted, "the caller cancelled the call")
}
