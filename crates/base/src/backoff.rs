//! Delays between attempts.

use std::iter;
use std::time::Duration;

/// A delay that doubles with each failed attempt, up to a maximum.
///
/// # Examples
///
/// ```
/// use openclaw_remote_agent_base::backoff::Backoff;
/// use std::time::Duration;
///
/// const RECONNECT: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(2));
///
/// assert_eq!(RECONNECT.delay(0).as_millis(), 500);
/// assert_eq!(RECONNECT.delay(1).as_millis(), 1000);
/// assert_eq!(RECONNECT.delay(9).as_millis(), 2000);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    max: Duration,
}

impl Backoff {
    /// Creates delays that begin with `first` and never exceed `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max }
    }

    /// Returns the delay that has doubled `doublings` times.
    #[must_use]
    pub fn delay(&self, doublings: u32) -> Duration {
        self.first
            .saturating_mul(2u32.saturating_pow(doublings))
            .min(self.max)
    }

    /// Returns the delay shortened by up to half: not at all for a `random` of 0, by half for 1. Clients that failed
    /// together do not retry together.
    #[must_use]
    pub fn jittered(&self, doublings: u32, random: f64) -> Duration {
        self.delay(doublings)
            .mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// Returns all delays in their order. They never end.
    pub fn delays(self) -> impl Iterator<Item = Duration> {
        let numbers = iter::successors(Some(0u32), |doublings| Some(doublings.saturating_add(1)));
        numbers.map(move |doublings| self.delay(doublings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));

    #[test]
    fn doubles_to_the_maximum() {
        let delays: Vec<_> = SECONDS
            .delays()
            .map(|delay| delay.as_secs())
            .take(6)
            .collect();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
        assert_eq!(SECONDS.delay(u32::MAX), Duration::from_secs(10));
    }

    #[test]
    fn first_delay_does_not_exceed_the_maximum() {
        let short = Backoff::new(Duration::from_secs(1), Duration::from_millis(20));
        assert_eq!(short.delay(0), Duration::from_millis(20));
    }

    #[test]
    fn jitter_shortens_by_up_to_half() {
        let delays = [0.0, 0.5, 1.0, 7.0].map(|random| SECONDS.jittered(2, random).as_millis());
        assert_eq!(delays, [4000, 3000, 2000, 2000]);
    }
}
