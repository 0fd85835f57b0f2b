//! Limits how fast an address can guess credentials.
//!
//! After some failures, the server refuses further credentials of the address for a moment, valid or not: otherwise a
//! guess would cost nothing. A client that authenticated from the address before is still admitted, so that a neighbor
//! behind the same address cannot lock it out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::connection_limit::end_site;

/// How many failures of an address in a row have no consequence.
const BURST: u32 = 20;

/// The time after which the server forgets one failure.
const FORGET_INTERVAL: Duration = Duration::from_secs(1);

/// How long the server remembers that a client authenticated from an address.
const ADMISSION_TIME: Duration = Duration::from_secs(60 * 60);

/// The maximum number of remembered addresses, and of clients with their addresses.
const MAX_ENTRIES: usize = 10_000;

/// The failures of all addresses. An IPv6 /64 network is one address.
#[derive(Debug, Default)]
pub struct AuthLimiter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failures: HashMap<IpAddr, Failures>,
    /// When each client last authenticated from an address.
    admitted: HashMap<(IpAddr, Arc<str>), Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    /// The time up to which failures are forgotten.
    since: Instant,
}

impl AuthLimiter {
    /// Counts a failed authentication.
    ///
    /// # Errors
    /// The address has too many failures. The error is the time until the next attempt.
    pub fn fail(&self, address: IpAddr) -> Result<(), Duration> {
        let (address, now) = (end_site(address), Instant::now());
        let mut state = self.0.lock();
        state.check(address, now)?;
        if !state.failures.contains_key(&address) && state.failures.len() >= MAX_ENTRIES {
            state.failures.retain(|_, known| known.at(now).count > 0);
            if state.failures.len() >= MAX_ENTRIES {
                // An attacker with so many addresses is limited as one.
                return Err(FORGET_INTERVAL);
            }
        }
        let none = Failures {
            count: 0,
            since: now,
        };
        let known = state.failures.entry(address).or_insert(none);
        *known = known.at(now);
        known.count += 1;
        Ok(())
    }

    /// Admits a client with valid credentials.
    ///
    /// # Errors
    /// The address has too many failures, and the client has not authenticated from it before. The error is the time
    /// until the next attempt.
    pub fn succeed(&self, address: IpAddr, client: &Arc<str>) -> Result<(), Duration> {
        let (address, now) = (end_site(address), Instant::now());
        let is_valid = |at: &Instant| now.duration_since(*at) < ADMISSION_TIME;
        let key = (address, Arc::clone(client));
        let mut state = self.0.lock();
        if !state.admitted.get(&key).is_some_and(is_valid) {
            state.check(address, now)?;
        }
        if !state.admitted.contains_key(&key) && state.admitted.len() >= MAX_ENTRIES {
            state.admitted.retain(|_, at| is_valid(at));
            if state.admitted.len() >= MAX_ENTRIES {
                return Ok(());
            }
        }
        state.admitted.insert(key, now);
        Ok(())
    }
}

impl State {
    fn check(&self, address: IpAddr, now: Instant) -> Result<(), Duration> {
        match self.failures.get(&address).map(|known| known.at(now)) {
            Some(known) if known.count >= BURST => {
                Err(FORGET_INTERVAL.saturating_sub(now.duration_since(known.since)))
            }
            _ => Ok(()),
        }
    }
}

impl Failures {
    /// Forgets the failures that are old enough at `now`.
    fn at(self, now: Instant) -> Self {
        let elapsed = now.duration_since(self.since).as_secs();
        let forgotten = u32::try_from(elapsed).unwrap_or(u32::MAX).min(self.count);
        let count = self.count - forgotten;
        let since = match count {
            0 => now,
            _ => self.since + FORGET_INTERVAL * forgotten,
        };
        Self { count, since }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn failing() -> AuthLimiter {
        let limiter = AuthLimiter::default();
        limiter.succeed(ADDRESS, &"known".into()).unwrap();
        for _ in 0..BURST {
            limiter.fail(ADDRESS).unwrap();
        }
        limiter
    }

    #[tokio::test(start_paused = true)]
    async fn guesses_are_limited_to_one_a_second() {
        let limiter = failing();
        let mut accepted = 0;
        for _ in 0..1000 {
            accepted += u32::from(limiter.fail(ADDRESS).is_ok());
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!((9..=11).contains(&accepted), "{accepted}");
    }

    #[tokio::test(start_paused = true)]
    async fn correct_guess_is_refused_like_a_wrong_one() {
        let limiter = failing();
        let wait = limiter.succeed(ADDRESS, &"guessed".into()).unwrap_err();
        assert_eq!(limiter.fail(ADDRESS).unwrap_err(), wait);
        tokio::time::advance(wait).await;
        assert_eq!(limiter.succeed(ADDRESS, &"guessed".into()), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn known_client_and_other_addresses_are_not_delayed() {
        let limiter = failing();
        assert_eq!(limiter.succeed(ADDRESS, &"known".into()), Ok(()));
        let other = IpAddr::from([192, 0, 2, 2]);
        assert_eq!(limiter.succeed(other, &"new".into()), Ok(()));
        assert_eq!(limiter.fail(other), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn entries_are_bounded() {
        let limiter = AuthLimiter::default();
        for n in 0..2 * u32::try_from(MAX_ENTRIES).unwrap() {
            let address = IpAddr::from(n.to_be_bytes());
            let _ = limiter.fail(address);
            limiter.succeed(address, &"a".into()).unwrap();
        }
        let state = limiter.0.lock();
        assert_eq!(
            (state.failures.len(), state.admitted.len()),
            (MAX_ENTRIES, MAX_ENTRIES)
        );
    }
}
