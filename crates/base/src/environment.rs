//! Time and random identifiers as parameters, so that tests can set them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

/// A clock.
pub trait Clock: Send + Sync + 'static {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the time of day.
    fn system_time(&self) -> SystemTime;

    /// Returns the time of day in milliseconds since 1970.
    fn unix_millis(&self) -> u64 {
        unix_millis(self.system_time())
    }
}

/// Converts a time to seconds since 1970. Earlier times become 0.
#[must_use]
pub fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// Converts a time to milliseconds since 1970. Earlier times become 0.
#[must_use]
pub fn unix_millis(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Converts a duration to milliseconds.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Generates random identifiers.
pub trait IdGenerator: Send + Sync + 'static {
    /// Returns a random UUID (RFC 9562, version 4).
    fn uuid(&self) -> Uuid;

    /// Returns a random number from 0 up to but not including 1, for the jitter of a delay.
    fn random(&self) -> f64 {
        // The upper 32 bits of a random UUID are all random.
        f64::from(self.uuid().as_fields().0) / (f64::from(u32::MAX) + 1.0)
    }
}

/// A clock and a source of random ids.
pub trait Environment: Clock + IdGenerator {
    /// Returns a UUID of 48 bits of time and 74 random ones (RFC 9562, version 7). Indexes of such ids grow at their end.
    fn ordered_uuid(&self) -> Uuid {
        let random = self.uuid();
        let mut rest = [0; 10];
        rest.copy_from_slice(&random.as_bytes()[6..]);
        Builder::from_unix_timestamp_millis(self.unix_millis(), &rest).into_uuid()
    }
}

impl<T: Clock + IdGenerator> Environment for T {}

/// The clock and the randomness of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Clock for SystemEnvironment {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn system_time(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl IdGenerator for SystemEnvironment {
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_ids_begin_with_their_time_and_differ() {
        let before = SystemEnvironment.unix_millis();
        let [first, second] = [0; 2].map(|_| SystemEnvironment.ordered_uuid());
        let after = SystemEnvironment.unix_millis();
        for id in [first, second] {
            assert_eq!(id.get_version(), Some(uuid::Version::SortRand));
            let (seconds, nanos) = id
                .get_timestamp()
                .map(|time| time.to_unix())
                .unwrap_or_default();
            let millis = seconds * 1000 + u64::from(nanos) / 1_000_000;
            assert!((before..=after).contains(&millis), "{id}");
        }
        assert_ne!(first.as_bytes()[8..], second.as_bytes()[8..]);
    }

    #[test]
    fn random_numbers_are_below_one_and_differ() {
        let numbers: Vec<_> = (0..20).map(|_| SystemEnvironment.random()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        assert!(numbers.windows(2).any(|pair| pair[0] < pair[1]));
    }
}
