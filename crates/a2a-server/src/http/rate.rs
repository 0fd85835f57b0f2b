//! How fast somebody may ask, and how much at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{NotUntil, Quota, RateLimiter};
use tokio::time::Instant;

use common::connection_limit::network;

/// So many addresses are told apart; when there are more, the newcomers share one rate.
const ADDRESSES: usize = 10_000;

/// How often addresses that have been silent are forgotten, at most.
const SWEEP: Duration = Duration::from_secs(1);

/// Whose rate a request counts against.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Payer {
    /// A client that has said who it is, or everybody where nobody has to.
    Client(Arc<str>),
    /// Somebody who has not; by its address, of IPv6 the network.
    Address(IpAddr),
}

impl Payer {
    /// Somebody who has not said who it is. An end site of IPv6 has 2^64 addresses, and counts once.
    pub fn address(ip: IpAddr) -> Self {
        Self::Address(network(ip))
    }
}

/// Counts requests. Its memory is bounded by the number of clients and `ADDRESSES`.
pub struct Rate {
    clients: Keyed<Arc<str>>,
    addresses: Keyed<IpAddr>,
    newcomers: RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Nanos>>,
    swept: Mutex<Instant>,
    clock: Ticks,
    most: usize,
}

type Keyed<K> = RateLimiter<K, DashMapStateStore<K>, Ticks, NoOpMiddleware<Nanos>>;

impl Rate {
    /// At most `per_second` requests a second in the long run, and `burst` at once from who was silent before.
    pub fn new(per_second: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::remembering(per_second, burst, ADDRESSES)
    }

    fn remembering(per_second: NonZeroU32, burst: NonZeroU32, most: usize) -> Self {
        let quota = Quota::per_second(per_second).allow_burst(burst);
        let clock = Ticks(Instant::now());
        Self {
            clients: RateLimiter::new(quota, DashMapStateStore::default(), clock),
            addresses: RateLimiter::new(quota, DashMapStateStore::default(), clock),
            newcomers: RateLimiter::direct_with_clock(quota, clock),
            swept: Mutex::new(clock.0),
            clock,
            most,
        }
    }

    /// Takes a request.
    ///
    /// # Errors
    /// It is one too many; so long until the next may come.
    pub fn take(&self, payer: &Payer) -> Result<(), Duration> {
        let taken = match payer {
            Payer::Client(name) => self.clients.check_key(name),
            Payer::Address(ip) if self.has_room() => self.addresses.check_key(ip),
            Payer::Address(_) => self.newcomers.check(),
        };
        taken.map_err(|early: NotUntil<Nanos>| early.wait_time_from(self.clock.now()))
    }

    fn has_room(&self) -> bool {
        if self.addresses.len() < self.most {
            return true;
        }
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.elapsed() >= SWEEP {
            *swept = Instant::now();
            self.addresses.retain_recent();
        }
        self.addresses.len() < self.most
    }
}

/// Tokio's clock, counted from the start.
#[derive(Debug, Clone, Copy)]
struct Ticks(Instant);

impl Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

/// Counts what somebody has open at a time, so that no client takes every connection.
#[derive(Debug)]
pub struct Open {
    now: Mutex<HashMap<Payer, usize>>,
    most: usize,
}

impl Open {
    /// At most `most` of each.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            now: Mutex::default(),
            most,
        })
    }

    /// Opens one more, which lasts as long as what this returns; `None` where it would be too many.
    pub fn enter(self: &Arc<Self>, payer: Payer) -> Option<Opened> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let count = now.entry(payer.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Opened {
            of: Arc::clone(self),
            payer,
        })
    }
}

/// Something open. Dropping it closes it.
#[derive(Debug)]
pub struct Opened {
    of: Arc<Open>,
    payer: Payer,
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut now = self.of.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = now.get_mut(&self.payer) {
            *count -= 1;
            if *count == 0 {
                now.remove(&self.payer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
