//! Pauses between polls and subscriptions.

use std::time::Duration;

use base::backoff::Backoff;

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
