//! How much clients can make the gateway hold and do.

use serde::Deserialize;

use collective::LARGEST_FRAME;
use common::validation::{whole, whole_size};

/// How much clients can make the gateway hold and do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// So many connections at a time.
    #[serde(deserialize_with = "whole_size")]
    pub connections: usize,
    /// So many messages a second from one client, in the long run.
    #[serde(deserialize_with = "whole")]
    pub messages_per_second: u64,
    /// So many messages at once from a client that was silent before.
    #[serde(deserialize_with = "whole")]
    pub burst: u64,
    /// What may wait for one client that is slow to read, in bytes.
    #[serde(deserialize_with = "whole_size")]
    pub queue_bytes: usize,
    /// What may wait for all clients together, in bytes.
    #[serde(deserialize_with = "whole_size")]
    pub total_queue_bytes: usize,
    /// The largest frame, in bytes.
    #[serde(deserialize_with = "whole_size")]
    pub frame_bytes: usize,
    /// How long a client may be silent before its connection is closed, in milliseconds.
    #[serde(deserialize_with = "whole")]
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
            frame_bytes: LARGEST_FRAME,
            idle_ms: 90_000,
        }
    }
}
