//! Limits the rate at which one address guesses credentials.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

use crate::connection_limit::end_site;

/// The maximum number of addresses that are remembered.
const MAX_ADDRESSES: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// The number of different wrong credentials that an address may send at once.
const BURST: u32 = 10;

/// The time after which an address may send one more wrong credential.
const INTERVAL: Duration = Duration::from_secs(2);

/// The failed logins of each address: ten at once, then one every two seconds.
///
/// A valid credential does not reset the count. Otherwise a client with one credential could guess another one without
/// a limit. A client that repeats the same wrong credential does not guess, so the repetition does not count, and a
/// program with an old credential does not lock out the others of its address.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use http_server::failed_logins::FailedLogins;
///
/// let (logins, now) = (FailedLogins::default(), Instant::now());
/// let address = "192.0.2.1".parse().unwrap();
/// for guess in 0..10_u8 {
///     assert_eq!(logins.check(address, now), Ok(()));
///     logins.record_failure(address, &[guess], now);
/// }
/// assert_eq!(logins.check(address, now), Err(Duration::from_secs(2)));
/// ```
#[derive(Debug)]
pub struct FailedLogins {
    addresses: Mutex<LruCache<IpAddr, Failures>>,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    /// The time at which all failures are forgotten.
    forgotten_at: Instant,
    /// The hash of the last wrong credential.
    last: u64,
}

impl Default for FailedLogins {
    fn default() -> Self {
        Self::with_max_addresses(MAX_ADDRESSES)
    }
}

impl FailedLogins {
    fn with_max_addresses(max_addresses: NonZeroUsize) -> Self {
        Self {
            addresses: Mutex::new(LruCache::new(max_addresses)),
            hasher: RandomState::new(),
        }
    }

    /// Checks whether a credential of an address may be verified. All addresses of an IPv6 /64 network count as one.
    ///
    /// # Errors
    /// The address has sent too many wrong credentials. The error is the time until the next one may be verified.
    pub fn check(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let failures = self.addresses.lock().peek(&end_site(address)).copied();
        let ahead = failures.map_or(Duration::ZERO, |failures| {
            failures.forgotten_at.saturating_duration_since(now)
        });
        match ahead.checked_sub(INTERVAL * (BURST - 1)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(()),
        }
    }

    /// Records that a credential of an address was wrong.
    pub fn record_failure(&self, address: IpAddr, credential: &[u8], now: Instant) {
        let last = self.hasher.hash_one(credential);
        let mut addresses = self.addresses.lock();
        let failures = addresses.get_or_insert_mut(end_site(address), || Failures {
            forgotten_at: now,
            last: !last,
        });
        if failures.last != last {
            failures.last = last;
            failures.forgotten_at = failures.forgotten_at.max(now) + INTERVAL;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn guess(logins: &FailedLogins, address: IpAddr, now: Instant) -> usize {
        (0_u64..100)
            .take_while(|guess| {
                let checked = logins.check(address, now);
                logins.record_failure(address, &guess.to_be_bytes(), now);
                checked.is_ok()
            })
            .count()
    }

    #[test]
    fn guesses_of_one_address_are_delayed() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        let guesser = address("2001:db8::1");
        assert_eq!(guess(&logins, guesser, now), 10);
        assert!(logins.check(address("2001:db8::2"), now).is_err());
        assert_eq!(logins.check(address("192.0.2.1"), now), Ok(()));
        // The refused guess counted as well.
        let later = now + Duration::from_secs(4);
        assert_eq!(logins.check(guesser, later), Ok(()));
        assert_eq!(guess(&logins, guesser, later + Duration::from_mins(10)), 10);
    }

    #[test]
    fn repeated_credential_counts_once() {
        let (logins, now) = (FailedLogins::default(), Instant::now());
        for _ in 0..100 {
            logins.record_failure(address("192.0.2.1"), b"old", now);
        }
        assert_eq!(logins.check(address("192.0.2.1"), now), Ok(()));
    }

    #[test]
    fn number_of_addresses_is_bounded() {
        let logins = FailedLogins::with_max_addresses(NonZeroUsize::new(2).unwrap());
        let now = Instant::now();
        for host in 1..=3 {
            guess(&logins, IpAddr::from([192, 0, 2, host]), now);
        }
        assert_eq!(logins.addresses.lock().len(), 2);
        assert_eq!(logins.check(address("192.0.2.1"), now), Ok(()));
        assert!(logins.check(address("192.0.2.3"), now).is_err());
    }
}
