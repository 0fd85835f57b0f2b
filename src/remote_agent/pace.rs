//! How long to wait between attempts.

use std::time::Duration;

/// How long to wait between attempts to hear of a task. A parameter, so that whoever provokes a thousand cuts need not
/// wait for each.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Between the first two polls; it doubles with each further one.
    pub first_poll: Duration,
    /// Between two polls at most.
    pub longest_poll: Duration,
    /// A stream that is silent for so long is asked about: the peer may have forgotten it.
    pub idle: Duration,
    /// How much longer a stream is listened to when its task is settled and no event was marked as the last one.
    pub settle: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_poll: Duration::from_secs(1),
            longest_poll: Duration::from_secs(10),
            idle: Duration::from_secs(15),
            settle: Duration::from_millis(250),
        }
    }
}
