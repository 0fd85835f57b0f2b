//! Limits how fast an address can guess credentials.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;

use crate::connection_limit::end_site;

/// The maximum number of remembered addresses, and of clients with their addresses.
const MAX_ENTRIES: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// How long the limiter remembers that a client authenticated from an address.
const ADMISSION_TIME: Duration = Duration::from_secs(60 * 60);

/// The failed authentications of all addresses. An IPv6 /64 network is one address.
///
/// After some failures, further credentials of the address are refused for a moment, valid or not: otherwise a guess would
/// cost nothing. A valid credential does not reset the count. Otherwise a client with one credential could guess another one
/// without a limit.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use http_server::auth_limit::AuthLimiter;
///
/// let (limiter, now) = (AuthLimiter::new(10, Duration::from_secs(2)), Instant::now());
/// let address = "192.0.2.1".parse().unwrap();
/// for guess in 0..10_u8 {
///     assert_eq!(limiter.check(address, now), Ok(()));
///     limiter.record_guess(address, &[guess], now);
/// }
/// assert_eq!(limiter.check(address, now), Err(Duration::from_secs(2)));
/// ```
#[derive(Debug)]
pub struct AuthLimiter {
    burst: u32,
    interval: Duration,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    failures: LruCache<IpAddr, Failures>,
    /// When each client last authenticated from an address.
    admitted: HashMap<(IpAddr, Arc<str>), Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    /// The time at which all failures are forgotten.
    forgotten_at: Instant,
    /// The hash of the last guess.
    last_guess: Option<u64>,
}

impl AuthLimiter {
    /// Creates a limiter that permits `burst` failures of an address at once, and then one more each `interval`.
    #[must_use]
    pub fn new(burst: u32, interval: Duration) -> Self {
        Self::with_max_entries(burst, interval, MAX_ENTRIES)
    }

    fn with_max_entries(burst: u32, interval: Duration, max_entries: NonZeroUsize) -> Self {
        Self {
            burst,
            interval,
            hasher: RandomState::new(),
            state: Mutex::new(State {
                failures: LruCache::new(max_entries),
                admitted: HashMap::new(),
            }),
        }
    }

    /// Checks whether a credential of an address may be verified.
    ///
    /// # Errors
    /// The address has too many failures. The error is the time until the next attempt.
    pub fn check(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        self.wait(&self.state.lock(), end_site(address), now)
    }

    /// Records that a credential of an address was wrong. A client that repeats the same wrong credential does not guess, so
    /// the repetition does not count, and a program with an old credential does not lock out the others of its address.
    pub fn record_guess(&self, address: IpAddr, credential: &[u8], now: Instant) {
        let guess = Some(self.hasher.hash_one(credential));
        self.record(&mut self.state.lock(), end_site(address), guess, now);
    }

    /// Counts a failed authentication, whatever the credential was.
    ///
    /// # Errors
    /// The address has too many failures. The error is the time until the next attempt.
    pub fn fail(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let address = end_site(address);
        let mut state = self.state.lock();
        self.wait(&state, address, now)?;
        if !state.failures.contains(&address) && state.is_full() {
            state.forget(now);
            if state.is_full() {
                // An attacker with so many addresses is limited as one.
                return Err(self.interval);
            }
        }
        self.record(&mut state, address, None, now);
        Ok(())
    }

    /// Admits a client with valid credentials. A client that authenticated from the address before is admitted in any case,
    /// so that a neighbor behind the same address cannot lock it out.
    ///
    /// # Errors
    /// The address has too many failures. The error is the time until the next attempt.
    pub fn succeed(
        &self,
        address: IpAddr,
        client: &Arc<str>,
        now: Instant,
    ) -> Result<(), Duration> {
        let address = end_site(address);
        let is_valid = |at: &Instant| now.saturating_duration_since(*at) < ADMISSION_TIME;
        let key = (address, Arc::clone(client));
        let mut state = self.state.lock();
        if !state.admitted.get(&key).is_some_and(is_valid) {
            self.wait(&state, address, now)?;
        }
        let max_entries = state.failures.cap().get();
        if !state.admitted.contains_key(&key) && state.admitted.len() >= max_entries {
            state.admitted.retain(|_, at| is_valid(at));
            if state.admitted.len() >= max_entries {
                return Ok(());
            }
        }
        state.admitted.insert(key, now);
        Ok(())
    }

    fn wait(&self, state: &State, address: IpAddr, now: Instant) -> Result<(), Duration> {
        let ahead = state
            .failures
            .peek(&address)
            .map_or(Duration::ZERO, |failures| {
                failures.forgotten_at.saturating_duration_since(now)
            });
        match ahead.checked_sub(self.interval * self.burst.saturating_sub(1)) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => Ok(()),
        }
    }

    fn record(&self, state: &mut State, address: IpAddr, guess: Option<u64>, now: Instant) {
        let failures = state.failures.get_or_insert_mut(address, || Failures {
            forgotten_at: now,
            last_guess: None,
        });
        if guess.is_none() || failures.last_guess != guess {
            failures.last_guess = guess;
            failures.forgotten_at = failures.forgotten_at.max(now) + self.interval;
        }
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.failures.len() >= self.failures.cap().get()
    }

    /// Removes the addresses whose failures are forgotten.
    fn forget(&mut self, now: Instant) {
        let failures = self.failures.iter();
        let forgotten: Vec<IpAddr> = failures
            .filter(|(_, failures)| failures.forgotten_at <= now)
            .map(|(address, _)| *address)
            .collect();
        for address in forgotten {
            self.failures.pop(&address);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    const BURST: u32 = 10;
    const INTERVAL: Duration = Duration::from_secs(2);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn limiter() -> AuthLimiter {
        AuthLimiter::new(BURST, INTERVAL)
    }

    fn failing(now: Instant) -> AuthLimiter {
        let limiter = limiter();
        limiter.succeed(ADDRESS, &"known".into(), now).unwrap();
        for _ in 0..BURST {
            limiter.fail(ADDRESS, now).unwrap();
        }
        limiter
    }

    fn guess(limiter: &AuthLimiter, address: IpAddr, now: Instant) -> usize {
        (0_u64..100)
            .take_while(|guess| {
                let checked = limiter.check(address, now);
                limiter.record_guess(address, &guess.to_be_bytes(), now);
                checked.is_ok()
            })
            .count()
    }

    #[test]
    fn failures_are_limited_to_one_each_interval() {
        let now = Instant::now();
        let limiter = failing(now);
        let accepted = (0_u32..500)
            .filter(|step| limiter.fail(ADDRESS, now + *step * INTERVAL / 100).is_ok())
            .count();
        // At the first step the address has just used up its burst.
        assert_eq!(accepted, 4);
    }

    #[test]
    fn guesses_of_one_address_are_delayed() {
        let (limiter, now) = (limiter(), Instant::now());
        let guesser = address("2001:db8::1");
        assert_eq!(guess(&limiter, guesser, now), 10);
        assert!(limiter.check(address("2001:db8::2"), now).is_err());
        assert_eq!(limiter.check(ADDRESS, now), Ok(()));
        // The refused guess counted as well.
        let later = now + 2 * INTERVAL;
        assert_eq!(limiter.check(guesser, later), Ok(()));
        let much_later = later + Duration::from_mins(10);
        assert_eq!(guess(&limiter, guesser, much_later), 10);
    }

    #[test]
    fn repeated_guess_counts_once() {
        let (limiter, now) = (limiter(), Instant::now());
        for _ in 0..100 {
            limiter.record_guess(ADDRESS, b"old", now);
        }
        assert_eq!(limiter.check(ADDRESS, now), Ok(()));
    }

    #[test]
    fn correct_guess_is_refused_like_a_wrong_one() {
        let now = Instant::now();
        let limiter = failing(now);
        let guessed = "guessed".into();
        let wait = limiter.succeed(ADDRESS, &guessed, now).unwrap_err();
        assert_eq!(limiter.fail(ADDRESS, now).unwrap_err(), wait);
        assert_eq!(limiter.succeed(ADDRESS, &guessed, now + wait), Ok(()));
    }

    #[test]
    fn known_client_and_other_addresses_are_not_delayed() {
        let now = Instant::now();
        let limiter = failing(now);
        assert_eq!(limiter.succeed(ADDRESS, &"known".into(), now), Ok(()));
        let other = address("192.0.2.2");
        assert_eq!(limiter.succeed(other, &"new".into(), now), Ok(()));
        assert_eq!(limiter.fail(other, now), Ok(()));
    }

    #[test]
    fn entries_are_bounded() {
        let max_entries = NonZeroUsize::new(2).unwrap();
        let limiter = AuthLimiter::with_max_entries(BURST, INTERVAL, max_entries);
        let now = Instant::now();
        let failed = (1..=3).map(|host| {
            let address = IpAddr::from([192, 0, 2, host]);
            limiter.succeed(address, &"a".into(), now).unwrap();
            limiter.fail(address, now)
        });
        let failed: Vec<_> = failed.collect();
        assert_eq!(failed, [Ok(()), Ok(()), Err(INTERVAL)]);
        {
            let state = limiter.state.lock();
            assert_eq!((state.failures.len(), state.admitted.len()), (2, 2));
        }
        assert_eq!(limiter.fail(address("192.0.2.3"), now + INTERVAL), Ok(()));
    }

    #[test]
    fn newest_guessers_are_remembered() {
        let max_entries = NonZeroUsize::new(2).unwrap();
        let limiter = AuthLimiter::with_max_entries(BURST, INTERVAL, max_entries);
        let now = Instant::now();
        for host in 1..=3 {
            guess(&limiter, IpAddr::from([192, 0, 2, host]), now);
        }
        assert_eq!(limiter.state.lock().failures.len(), 2);
        assert_eq!(limiter.check(address("192.0.2.1"), now), Ok(()));
        assert!(limiter.check(address("192.0.2.3"), now).is_err());
    }
}
