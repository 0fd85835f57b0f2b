//! Bounds the records of refused messages, so that they do not displace those of accepted ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::access::RateLimit;

/// The maximum number of refused messages of one sender that are recorded at once.
const BURST: u64 = 50;

/// The time after which one more refused message of a sender is recorded.
const INTERVAL: Duration = Duration::from_secs(10);

/// The maximum number of senders with a rate of their own. The others share one.
const MAX_SENDERS: usize = 1024;

/// The rates of the records of refused messages. A sender is an identity, or the address of an unauthenticated client.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<Arc<str>, Sender>>);

struct Sender {
    rate: RateLimit,
    /// The number of refused messages since the last counting record.
    counted: u64,
}

/// Whether a refused message gets a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The message gets a record.
    Recorded,
    /// The message is only counted.
    Counted,
    /// The message is the first one that is only counted. Contains the sender for [`Refusals::take_count`].
    FirstCounted(Arc<str>),
}

impl Refusals {
    /// Decides whether a refused message of `sender` gets a record.
    pub(super) fn admit(&self, sender: Arc<str>, now: Instant) -> Admission {
        let mut senders = self.0.lock();
        if senders.len() >= MAX_SENDERS && !senders.contains_key(&sender) {
            senders.retain(|_, sender| sender.counted > 0 || !sender.rate.is_full(now));
        }
        let sender = match senders.len() >= MAX_SENDERS && !senders.contains_key(&sender) {
            true => "others".into(),
            false => sender,
        };
        let known = senders
            .entry(Arc::clone(&sender))
            .or_insert_with(|| Sender {
                rate: RateLimit::with_interval(INTERVAL, BURST, now),
                counted: 0,
            });
        if known.rate.try_acquire(now).is_ok() {
            return Admission::Recorded;
        }
        known.counted += 1;
        match known.counted {
            1 => Admission::FirstCounted(sender),
            _ => Admission::Counted,
        }
    }

    /// Returns the number of refused messages of `sender` that were only counted, and starts again at zero.
    pub(super) fn take_count(&self, sender: &str) -> u64 {
        let mut senders = self.0.lock();
        let known = senders.get_mut(sender);
        known.map_or(0, |known| std::mem::take(&mut known.counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_above_the_rate_are_counted() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(refusals.admit("eve".into(), now), Admission::Recorded);
        }
        let first = refusals.admit("eve".into(), now);
        assert_eq!(first, Admission::FirstCounted("eve".into()));
        assert_eq!(refusals.admit("eve".into(), now), Admission::Counted);
        assert_eq!(refusals.admit("ada".into(), now), Admission::Recorded);
        assert_eq!(refusals.take_count("eve"), 2);
        let later = now + INTERVAL;
        assert_eq!(refusals.admit("eve".into(), later), Admission::Recorded);
        let first = refusals.admit("eve".into(), later);
        assert_eq!(first, Admission::FirstCounted("eve".into()));
    }

    #[test]
    fn senders_are_bounded() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        for host in 0..2 * MAX_SENDERS {
            refusals.admit(host.to_string().into(), now);
        }
        assert_eq!(refusals.0.lock().len(), MAX_SENDERS + 1);
        refusals.admit("late".into(), now + Duration::from_hours(1));
        let senders = refusals.0.lock();
        let mut left: Vec<_> = senders.keys().map(|name| &**name).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            ["late", "others"],
            "the count of the others is not lost"
        );
    }
}
