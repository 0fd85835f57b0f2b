//! Time and random identifiers as parameters, so that tests can set them.

use std::time::{Instant, SystemTime};

use uuid::Uuid;

/// A clock.
pub trait Clock: Send + Sync + 'static {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the time of day.
    fn system_time(&self) -> SystemTime;
}

/// Generates random identifiers.
pub trait IdGenerator: Send + Sync + 'static {
    /// Returns a random UUID (RFC 9562, version 4).
    fn uuid(&self) -> Uuid;
}

/// A clock and a source of random ids.
pub trait Environment: Clock + IdGenerator {}

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
