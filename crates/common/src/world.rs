//! Time and randomness, as parameters.

use std::time::{Instant, SystemTime};

use uuid::Uuid;

/// What a call takes from the machine besides sockets.
pub trait World: Send + Sync + 'static {
    /// A point in time to measure from.
    fn now(&self) -> Instant;

    /// The time of day.
    fn wall(&self) -> SystemTime;

    /// A random UUID (RFC 9562, version 4).
    fn uuid(&self) -> Uuid;
}

/// The machine's own time and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl World for System {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}
