//! The limits of the A2A server.

use std::num::NonZeroU32;
use std::time::Duration;

use a2a_server::settings::ServiceLimits;
use a2a_server::store::Budget;
use http_server::request_limit::HttpLimits;
use http_server::serve::ConnectionConfig;
use serde::{Deserialize, Deserializer};

use base::validation::{integer, integer_size};

/// Parses an optional size.
fn optional_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    integer_size(deserializer).map(Some)
}

/// By default, one client or address may use this fraction of a limit: a quarter.
const DEFAULT_SHARE_DIVISOR: usize = 4;

/// The limits of the server and its clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServeLimits {
    /// The maximum number of connections.
    #[serde(deserialize_with = "integer_size")]
    pub connections: usize,
    /// The maximum number of connections of one address. The default is a quarter of `connections`.
    #[serde(deserialize_with = "optional_size")]
    pub connections_per_address: Option<usize>,
    /// The maximum number of concurrent requests of one client.
    #[serde(deserialize_with = "integer_size")]
    pub open_requests: usize,
    /// The sustained number of requests of one client per second.
    #[serde(deserialize_with = "integer")]
    pub requests_per_second: u64,
    /// The number of requests that a client may send at once after a pause.
    #[serde(deserialize_with = "integer")]
    pub burst: u64,
    /// The maximum size of a request body, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub body_bytes: usize,
    /// The maximum size of all request bodies that the server has not parsed, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub total_body_bytes: usize,
    /// The share of one client in `total_body_bytes`. The default is a quarter of it, and at least `body_bytes`.
    #[serde(deserialize_with = "optional_size")]
    pub body_bytes_per_client: Option<usize>,
    /// How long a request head may take to arrive, in milliseconds.
    #[serde(deserialize_with = "integer")]
    pub header_timeout_ms: u64,
    /// How long a request body may take to arrive, in milliseconds.
    #[serde(deserialize_with = "integer")]
    pub body_timeout_ms: u64,
    /// How long a stream is silent before the server sends a comment, in milliseconds.
    #[serde(deserialize_with = "integer")]
    pub keep_alive_ms: u64,
    /// The timeout of the shutdown, in milliseconds.
    #[serde(deserialize_with = "integer")]
    pub shutdown_timeout_ms: u64,
    /// The maximum number of concurrent runs.
    #[serde(deserialize_with = "integer_size")]
    pub runs: usize,
    /// The maximum number of unfinished tasks of one client.
    #[serde(deserialize_with = "integer_size")]
    pub tasks_per_client: usize,
    /// The maximum number of parts of a message.
    #[serde(deserialize_with = "integer_size")]
    pub parts: usize,
    /// The maximum number of messages in a returned history.
    #[serde(deserialize_with = "integer_size")]
    pub history: usize,
    /// The maximum size of the artifacts of a task, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub artifact_bytes: usize,
    /// The maximum size of a page of a list, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub page_bytes: usize,
    /// The maximum size of one client's stored tasks, in bytes.
    #[serde(deserialize_with = "integer")]
    pub bytes_per_client: u64,
    /// The maximum size of all stored tasks, in bytes.
    #[serde(deserialize_with = "integer")]
    pub total_bytes: u64,
    /// The maximum number of webhooks of a task.
    #[serde(deserialize_with = "integer_size")]
    pub pushes_per_task: usize,
    /// The maximum number of queued notifications.
    #[serde(deserialize_with = "integer_size")]
    pub waiting_pushes: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        let http = HttpLimits::default();
        let connections = ConnectionConfig::default();
        let tasks = ServiceLimits::default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            connections: connections.total,
            connections_per_address: None,
            open_requests: http.open_requests,
            requests_per_second: http.requests_per_second.get().into(),
            burst: http.burst.get().into(),
            body_bytes: http.body_bytes,
            total_body_bytes: http.total_body_bytes,
            body_bytes_per_client: None,
            header_timeout_ms: millis(connections.header_timeout),
            body_timeout_ms: millis(http.body_timeout),
            keep_alive_ms: millis(a2a_server::http::DEFAULT_KEEP_ALIVE),
            shutdown_timeout_ms: millis(connections.drain_timeout),
            runs: tasks.runs,
            tasks_per_client: tasks.tasks_per_client,
            parts: tasks.parts,
            history: tasks.history,
            artifact_bytes: tasks.artifact_bytes,
            page_bytes: tasks.page_bytes,
            bytes_per_client: tasks.stored_bytes.per_client,
            total_bytes: tasks.stored_bytes.total,
            pushes_per_task: tasks.pushes_per_task,
            waiting_pushes: tasks.waiting_pushes,
        }
    }
}

impl ServeLimits {
    /// Returns the limits of requests and responses.
    pub fn http(&self) -> HttpLimits {
        let some = |number: u64| {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
        };
        HttpLimits {
            requests_per_second: some(self.requests_per_second),
            burst: some(self.burst),
            open_requests: self.open_requests,
            body_bytes: self.body_bytes,
            total_body_bytes: self.total_body_bytes,
            body_bytes_per_client: self.body_share(),
            body_timeout: Duration::from_millis(self.body_timeout_ms),
            ..HttpLimits::default()
        }
    }

    /// Returns the limits of connections.
    pub fn connections(&self) -> ConnectionConfig {
        ConnectionConfig {
            total: self.connections,
            per_address: self.connection_share(),
            header_timeout: Duration::from_millis(self.header_timeout_ms),
            drain_timeout: self.shutdown_timeout(),
            ..ConnectionConfig::default()
        }
    }

    /// Returns the maximum number of connections of one address.
    pub fn connection_share(&self) -> usize {
        let quarter = self.connections.div_ceil(DEFAULT_SHARE_DIVISOR);
        self.connections_per_address.unwrap_or(quarter)
    }

    /// Returns the maximum size of all bodies of one client, in bytes.
    pub fn body_share(&self) -> usize {
        let quarter = self.total_body_bytes / DEFAULT_SHARE_DIVISOR;
        let share = self.body_bytes_per_client;
        share.unwrap_or_else(|| quarter.max(self.body_bytes))
    }

    /// Returns the limits of tasks.
    pub fn tasks(&self) -> ServiceLimits {
        ServiceLimits {
            runs: self.runs,
            tasks_per_client: self.tasks_per_client,
            parts: self.parts,
            history: self.history,
            artifact_bytes: self.artifact_bytes,
            page_bytes: self.page_bytes,
            stored_bytes: Budget {
                per_client: self.bytes_per_client,
                total: self.total_bytes,
            },
            pushes_per_task: self.pushes_per_task,
            waiting_pushes: self.waiting_pushes,
        }
    }

    /// Returns the timeout of the shutdown.
    pub fn shutdown_timeout(&self) -> Duration {
        Duration::from_millis(self.shutdown_timeout_ms)
    }
}
