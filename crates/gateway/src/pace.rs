//! How long the gateway waits for what its configuration does not say.

use std::time::Duration;

/// How long the gateway waits for what. Only tests need other times than the default.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// For TLS and the request that opens a WebSocket.
    pub opening: Duration,
    /// For the request of a connection whose place another one has taken.
    pub eviction: Duration,
    /// For the credential of a new connection, where one is needed.
    pub credential: Duration,
    /// For a client's socket to take what is written to it.
    pub reading: Duration,
    /// For the answer to a message that wants one, where its `ttl` does not say.
    pub answer: Duration,
    /// For the answer of a service.
    pub service: Duration,
    /// For a client to close after one side said that it leaves.
    pub farewell: Duration,
    /// For everything that goes on when the gateway is shut down.
    pub shutdown: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            opening: Duration::from_secs(10),
            eviction: Duration::from_secs(1),
            credential: Duration::from_secs(10),
            reading: Duration::from_secs(10),
            answer: Duration::from_mins(30),
            service: Duration::from_secs(30),
            farewell: Duration::from_secs(1),
            shutdown: Duration::from_secs(5),
        }
    }
}
