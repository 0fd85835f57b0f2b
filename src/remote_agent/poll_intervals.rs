//! Pauses between polls and subscriptions.

use std::time::Duration;

/// The pauses between attempts to reach a task. A parameter, so that tests with a thousand cuts need not wait.
#[derive(Debug, Clone)]
pub struct PollIntervals {
    /// The pause between the first two polls; it doubles with each further one.
    pub first_poll: Duration,
    /// The longest pause between two polls.
    pub longest_poll: Duration,
    /// How long a stream may be silent before the task is polled: the peer may have lost the subscription.
    pub idle: Duration,
    /// How long a stream stays open after its task ended without an event marked as final.
    pub final_wait: Duration,
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
