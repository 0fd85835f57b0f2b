//! Timeouts that the configuration does not set. `limits.idleMs` and `heartbeatMs` are in `config`.

use std::time::Duration;

/// How long the gateway waits. Only tests change the defaults.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For TLS and for the upgrade request, each.
    pub handshake: Duration,
    /// For the upgrade request of a connection that was evicted.
    pub eviction_grace: Duration,
    /// For the credential of a new connection.
    pub authentication: Duration,
    /// For a client's socket to accept a write.
    pub write: Duration,
    /// For the reply to a message without a `ttl`.
    pub reply: Duration,
    /// For the response of a service.
    pub service: Duration,
    /// For the client to close after a side ended the connection.
    pub close: Duration,
    /// For running work at shutdown.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            eviction_grace: Duration::from_secs(1),
            authentication: Duration::from_secs(10),
            write: Duration::from_secs(10),
            reply: Duration::from_mins(30),
            service: Duration::from_secs(30),
            close: Duration::from_secs(1),
            shutdown: Duration::from_secs(5),
        }
    }
}
