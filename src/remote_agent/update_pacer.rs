//! The pace of updates.

use std::mem;
use std::time::Duration;

use tokio::time::Instant;

/// Decides which events become updates: the first at once, then at most one in each interval. An event that comes too
/// early waits, and a later one replaces it.
#[derive(Debug)]
pub(super) struct UpdatePacer {
    interval: Duration,
    next: Option<Instant>,
    waits: bool,
}

impl UpdatePacer {
    /// Creates a pacer. Without an interval, every event becomes an update.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            next: None,
            waits: false,
        }
    }

    /// Returns whether a new event becomes an update now. Otherwise it waits.
    pub(super) fn is_due(&mut self) -> bool {
        if self.interval.is_zero() {
            return true;
        }
        let now = Instant::now();
        self.waits = self.next.is_some_and(|next| now < next);
        if !self.waits {
            self.next = Some(now + self.interval);
        }
        !self.waits
    }

    /// Returns the time at which the waiting event becomes an update; `None` if no event waits.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        self.next.filter(|_| self.waits)
    }

    /// Returns whether an event waits, and lets it become an update now, whatever the time.
    pub(super) fn release(&mut self) -> bool {
        let waited = mem::take(&mut self.waits);
        if waited {
            self.next = Some(Instant::now() + self.interval);
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn one_event_in_each_interval_becomes_an_update() {
        let mut pacer = UpdatePacer::new(INTERVAL);
        let mut due = Vec::new();
        for ms in 0..1000 {
            if pacer.is_due() {
                due.push(ms);
            }
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(due, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    #[tokio::test(start_paused = true)]
    async fn early_event_waits_for_the_end_of_the_interval() {
        let mut pacer = UpdatePacer::new(INTERVAL);
        let start = Instant::now();
        assert!(pacer.is_due() && pacer.waits_until().is_none());
        assert!(!pacer.is_due());
        assert_eq!(pacer.waits_until(), Some(start + INTERVAL));
        assert!(pacer.release() && !pacer.release());
        assert_eq!(pacer.waits_until(), None);
    }

    #[test]
    fn without_an_interval_every_event_becomes_an_update() {
        let mut pacer = UpdatePacer::new(Duration::ZERO);
        assert!((0..100).all(|_| pacer.is_due()) && !pacer.release());
    }
}
