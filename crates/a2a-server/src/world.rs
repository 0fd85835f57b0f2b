//! Time and randomness, as parameters.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// What the server takes from the machine besides sockets and files. What is measured goes by tokio's clock, which tests
/// can stop.
pub trait World: Send + Sync + 'static {
    /// The time of day.
    fn wall(&self) -> DateTime<Utc>;

    /// A random UUID.
    fn uuid(&self) -> Uuid;
}

/// The machine's own time and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl World for System {
    fn wall(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}
