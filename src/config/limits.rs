//! Limits on a peer's answers, on concurrent calls and on waiting.

use serde::{Deserialize, Serialize};

use base::validation;

/// Limits on a peer's answers, on concurrent calls and on waiting.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// The largest reply, in bytes.
    #[serde(deserialize_with = "validation::integer_size")]
    pub response_bytes: usize,
    /// The largest event of a stream, in bytes.
    #[serde(deserialize_with = "validation::integer_size")]
    pub event_bytes: usize,
    /// How many events of a stream are kept.
    #[serde(deserialize_with = "validation::integer_size")]
    pub stream_events: usize,
    /// How many artifacts one task may have.
    #[serde(deserialize_with = "validation::integer_size")]
    pub artifacts: usize,
    /// How many calls run at a time; the others wait until their own deadline.
    #[serde(deserialize_with = "validation::integer_size")]
    pub concurrency: usize,
    /// How many of them may call one target.
    #[serde(deserialize_with = "validation::integer_size")]
    pub concurrency_per_target: usize,
    /// The longest text that a model reads of one result, in characters.
    #[serde(deserialize_with = "validation::integer_size")]
    pub model_text_chars: usize,
    /// How long a call that follows a task waits by default, in milliseconds.
    #[serde(deserialize_with = "validation::integer")]
    pub wait_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 32 << 20,
            event_bytes: 10 << 20,
            stream_events: 1000,
            artifacts: 1000,
            concurrency: 64,
            concurrency_per_target: 16,
            model_text_chars: 12_000,
            wait_ms: 25_000,
        }
    }
}
