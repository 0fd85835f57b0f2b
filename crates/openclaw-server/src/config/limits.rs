//! The limits of the A2A server.

use std::time::Duration;

use a2a_server::http::DEFAULT_KEEP_ALIVE;
use a2a_server::settings::ServiceLimits;
use http_server::request_limit::HttpLimits;
use http_server::serve::ConnectionConfig;
use serde::Deserialize;

use base::config::millis;
use base::settings;

/// By default, one client or address may use this fraction of a limit: a quarter.
const DEFAULT_SHARE_DIVISOR: usize = 4;

settings! {
    /// The limits of the server and its clients.
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    pub struct ServeLimits {
        /// The limits of requests and responses, without the share of one client in the bodies.
        #[serde(flatten)]
        http: HttpLimits,
        /// The limits of connections, without the share of one address.
        #[serde(flatten)]
        connections: ConnectionConfig,
        /// The limits of tasks.
        #[serde(flatten)]
        pub tasks: ServiceLimits,
        /// The maximum number of connections of one address. The default is a quarter of `connections`.
        connections_per_address: Option<usize>,
        /// The share of one client in `total_body_bytes`. The default is a quarter of it, and at least `body_bytes`.
        body_bytes_per_client: Option<usize>,
        /// How long a stream is silent before the server sends a comment.
        #[serde(rename = "keepAliveMs", deserialize_with = "millis")]
        pub keep_alive: Duration = DEFAULT_KEEP_ALIVE,
    }
}

impl ServeLimits {
    /// Returns the limits of requests and responses.
    pub fn http(&self) -> HttpLimits {
        let quarter = self.http.total_body_bytes / DEFAULT_SHARE_DIVISOR;
        let share = self.body_bytes_per_client;
        HttpLimits {
            body_bytes_per_client: share.unwrap_or_else(|| quarter.max(self.http.body_bytes)),
            ..self.http
        }
    }

    /// Returns the limits of connections.
    pub fn connections(&self) -> ConnectionConfig {
        let quarter = self.connections.total.div_ceil(DEFAULT_SHARE_DIVISOR);
        ConnectionConfig {
            per_address: self.connections_per_address.unwrap_or(quarter),
            ..self.connections.clone()
        }
    }
}
