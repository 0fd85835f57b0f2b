//! How fast a client may send.

use std::time::{Duration, Instant};

/// A token bucket: so many messages a second in the long run, and a burst after silence. Constant work and memory.
#[derive(Debug, Clone)]
pub struct RateLimit {
    /// What one message costs.
    each: Duration,
    /// How far ahead of its rate a client may be.
    ahead: Duration,
    /// When a client that sends no more is back where it began.
    paid: Instant,
}

impl RateLimit {
    /// At most `per_second` messages a second, and `burst` at once. None of them may be 0, which counts as 1.
    pub fn new(per_second: u64, burst: u64, now: Instant) -> Self {
        let each = Duration::from_secs(1) / u32::try_from(per_second.max(1)).unwrap_or(u32::MAX);
        Self {
            each,
            ahead: each.saturating_mul(u32::try_from(burst.max(1) - 1).unwrap_or(u32::MAX)),
            paid: now,
        }
    }

    /// Takes a message.
    ///
    /// # Errors
    /// It is one too many; so long until one may come again. It costs nothing.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let paid = self.paid.max(now);
        let debt = paid.saturating_duration_since(now);
        if debt > self.ahead {
            return Err(debt - self.ahead);
        }
        self.paid = paid + self.each;
        Ok(())
    }
}
