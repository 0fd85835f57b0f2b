//! Timeouts that are not configurable. `limits.idleMs` and `heartbeatMs` are in `config`.

use std::time::Duration;

/// The timeouts of the gateway. Only tests change the defaults.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// The timeout of the TLS handshake, and that of the upgrade request.
    pub handshake: Duration,
    /// How long an evicted connection may still take to send its upgrade request.
    pub eviction_grace: Duration,
    /// The timeout for the credential of a new connection.
    pub authentication: Duration,
    /// The timeout of a write to a client's socket.
    pub write: Duration,
    /// The timeout of a reply to a message without a `ttl`.
    pub reply: Duration,
    /// The timeout of a service's response.
    pub service: Duration,
    /// How long the client may take to close after either side ended the connection.
    pub close: Duration,
    /// The timeout of running work at shutdown.
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
