//! The only source of randomness in a simulation.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::environment::{Clock, IdGenerator};
use uuid::Uuid;

/// The start time of a simulation, in seconds since 1970.
const START_UNIX_SECONDS: u64 = 1_800_000_000;

/// SplitMix64 (Steele, Lea, Flood 2014). The same seed gives the same numbers on every platform.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(super) fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).unwrap_or_default()
    }

    /// Returns `true` with a probability of `chance` percent.
    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(super) fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_millis(self.below(limit))
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// Returns an independent generator.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// The clocks of one process, which follow tokio's clock, and its random ids.
pub(super) struct SimulatedEnvironment {
    began: tokio::time::Instant,
    base: Instant,
    /// The offset of the time of day, in seconds.
    adjusted: AtomicI64,
    random: Mutex<Random>,
}

impl SimulatedEnvironment {
    pub(super) fn new(random: Random) -> Self {
        Self {
            began: tokio::time::Instant::now(),
            base: Instant::now(),
            adjusted: AtomicI64::new(0),
            random: Mutex::new(random),
        }
    }

    /// Sets the offset of the time of day, in seconds.
    pub(super) fn adjust(&self, seconds: i64) {
        self.adjusted.store(seconds, Ordering::Relaxed);
    }
}

impl Clock for SimulatedEnvironment {
    fn now(&self) -> Instant {
        self.base + self.began.elapsed()
    }

    fn system_time(&self) -> SystemTime {
        let start = START_UNIX_SECONDS.saturating_add_signed(self.adjusted.load(Ordering::Relaxed));
        UNIX_EPOCH + Duration::from_secs(start) + self.began.elapsed()
    }
}

impl IdGenerator for SimulatedEnvironment {
    fn uuid(&self) -> Uuid {
        let mut random = self.random.lock().unwrap();
        let bytes = (u128::from(random.next()) << 64 | u128::from(random.next())).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}
