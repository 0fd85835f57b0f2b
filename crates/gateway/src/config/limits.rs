//! Limits of clients.

use serde::Deserialize;

use base::validation::{integer, integer_size};
use collective::MAX_FRAME_BYTES;

/// Limits of clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// The maximum number of connections.
    #[serde(deserialize_with = "integer_size")]
    pub connections: usize,
    /// The sustained message rate of a client, per second.
    #[serde(deserialize_with = "integer")]
    pub messages_per_second: u64,
    /// The maximum burst of messages of a client.
    #[serde(deserialize_with = "integer")]
    pub burst: u64,
    /// The maximum size of the outbox of a client, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub queue_bytes: usize,
    /// The maximum total size of all outboxes, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub total_queue_bytes: usize,
    /// The maximum size of a frame, in bytes.
    #[serde(deserialize_with = "integer_size")]
    pub frame_bytes: usize,
    /// The maximum size of the session entries that one client adds within a day, in bytes.
    #[serde(deserialize_with = "integer")]
    pub daily_session_bytes_per_client: u64,
    /// The silence after which the gateway closes a connection, in milliseconds.
    #[serde(deserialize_with = "integer")]
    pub idle_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 2048,
            messages_per_second: 200,
            burst: 400,
            queue_bytes: 4 << 20,
            total_queue_bytes: 128 << 20,
            frame_bytes: MAX_FRAME_BYTES,
            daily_session_bytes_per_client: 1 << 30,
            idle_ms: 90_000,
        }
    }
}
