//! Limits the rate of requests of each client.

use parking_lot::Mutex;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{NotUntil, Quota};
use tokio::time::Instant;

use crate::connection_limit::end_site;

/// The maximum number of addresses with their own quota. All other addresses share one quota.
const MAX_ADDRESSES: usize = 10_000;

/// The minimum time between two removals of addresses without recent requests.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The key by which requests count towards a rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RateLimitKey {
    /// An authenticated client, or all clients of a server without tokens.
    Client(Arc<str>),
    /// The network address of an unauthenticated client.
    Address(IpAddr),
}

impl RateLimitKey {
    /// Returns the key of an address. An IPv6 /64 network has one key, because one site has 2^64 addresses.
    pub fn address(ip: IpAddr) -> Self {
        Self::Address(end_site(ip))
    }
}

/// Limits the rate of requests. The number of clients and `MAX_ADDRESSES` limit the memory that it needs.
pub struct RateLimiter {
    clients: Keyed<Arc<str>>,
    addresses: Keyed<IpAddr>,
    /// The quota that further addresses share when `addresses` is full.
    overflow: governor::RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Nanos>>,
    swept: Mutex<Instant>,
    clock: TokioClock,
    max_addresses: usize,
}

type Keyed<K> = governor::RateLimiter<K, DashMapStateStore<K>, TokioClock, NoOpMiddleware<Nanos>>;

impl RateLimiter {
    /// Creates a limiter for a sustained rate of `per_second`, and `burst` requests at once after a pause.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::with_max_addresses(per_second, burst, MAX_ADDRESSES)
    }

    fn with_max_addresses(per_second: NonZeroU32, burst: NonZeroU32, max_addresses: usize) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        let clock = TokioClock(Instant::now());
        Self {
            clients: governor::RateLimiter::new(quota, DashMapStateStore::default(), clock),
            addresses: governor::RateLimiter::new(quota, DashMapStateStore::default(), clock),
            overflow: governor::RateLimiter::direct_with_clock(quota, clock),
            swept: Mutex::new(clock.0),
            clock,
            max_addresses,
        }
    }

    /// Counts a request towards the rate of its key.
    ///
    /// # Errors
    /// The rate is exceeded. The error is the time until the next request is allowed.
    pub fn check(&self, key: &RateLimitKey) -> Result<(), Duration> {
        let taken = match key {
            RateLimitKey::Client(name) => self.clients.check_key(name),
            RateLimitKey::Address(ip) if self.has_room() => self.addresses.check_key(ip),
            RateLimitKey::Address(_) => self.overflow.check(),
        };
        taken.map_err(|early: NotUntil<Nanos>| early.wait_time_from(self.clock.now()))
    }

    fn has_room(&self) -> bool {
        if self.addresses.len() < self.max_addresses {
            return true;
        }
        let mut swept = self.swept.lock();
        if swept.elapsed() >= SWEEP_INTERVAL {
            *swept = Instant::now();
            self.addresses.retain_recent();
        }
        self.addresses.len() < self.max_addresses
    }
}

/// Tokio's clock, relative to the creation of the limiter.
#[derive(Debug, Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

#[cfg(test)]
mod tests;
