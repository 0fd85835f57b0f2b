//! The rate limit of a client.

use std::time::{Duration, Instant};

/// A token bucket with a sustained rate and a burst, in constant time and memory.
#[derive(Debug, Clone)]
pub struct RateLimit {
    /// The interval between two messages at the sustained rate.
    interval: Duration,
    /// The time by which a client may be ahead of its rate.
    max_ahead: Duration,
    /// The time at which the bucket is full again.
    full_at: Instant,
}

impl RateLimit {
    /// Creates a limit of `per_second` messages per second with bursts of `burst` messages. 0 counts as 1.
    pub fn new(per_second: u64, burst: u64, now: Instant) -> Self {
        let interval =
            Duration::from_secs(1) / u32::try_from(per_second.max(1)).unwrap_or(u32::MAX);
        Self {
            interval,
            max_ahead: interval.saturating_mul(u32::try_from(burst.max(1) - 1).unwrap_or(u32::MAX)),
            full_at: now,
        }
    }

    /// Acquires one message.
    ///
    /// # Errors
    /// The time until the next message is allowed.
    pub fn try_acquire(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now);
        let ahead = full_at.saturating_duration_since(now);
        if ahead > self.max_ahead {
            return Err(ahead - self.max_ahead);
        }
        self.full_at = full_at + self.interval;
        Ok(())
    }
}
