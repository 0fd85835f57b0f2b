//! Parses JSON of peers, within the memory that a maximum response size allows.

use serde_json::Value;

use base::json::{self, JsonError, JsonErrorKind, Limits};
use egress::NetFault;
use peer::{PeerError, PeerErrorKind};

/// The memory that is always allowed, in bytes.
const MIN_ALLOWED_BYTES: usize = 16 << 20;

/// The memory of one answer, in bytes. A result of the tool and the text of a host contain its values several times.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Returns the limits of an answer for a maximum response size of `answer_bytes`.
pub(super) fn answer_limits(answer_bytes: usize) -> Limits {
    let limits = limits(answer_bytes);
    Limits {
        memory: limits.memory.min(MAX_ANSWER_BYTES),
        ..limits
    }
}

/// Returns the limits for a maximum response size of `answer_bytes`. The parser itself limits the depth.
pub(super) fn limits(answer_bytes: usize) -> Limits {
    let memory = answer_bytes
        .saturating_mul(json::MAX_MEMORY_RATIO)
        .max(MIN_ALLOWED_BYTES);
    Limits {
        depth: usize::MAX,
        values: usize::MAX,
        memory,
    }
}

/// Parses an error body, which has at most some kilobytes.
pub(super) fn error_body(body: &[u8]) -> Option<Value> {
    json::from_slice(body, limits(body.len())).ok()
}

/// Returns the error for the text that `subject` names, such as `the response`.
pub(super) fn unreadable(subject: &str, error: &JsonError) -> PeerError {
    match error.kind {
        JsonErrorKind::TooManyValues => PeerError::new(
            PeerErrorKind::Net(NetFault::TooLarge),
            format!("{subject}: {error}"),
        ),
        _ => PeerError::new(
            PeerErrorKind::InvalidResponse,
            format!("{subject} is not JSON: {error}"),
        ),
    }
}

/// Returns the bytes that a text counts against a limit.
pub(super) fn size(text: &str) -> usize {
    json::counted_bytes(text.len(), json::Structure::of(text.as_bytes()).memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_json_weighs_more_than_its_text() {
        let dense = "{\"a\":0},".repeat(1000);
        assert!(size(&dense) > 10 * dense.len());
        let prose = format!("[\"{}\"]", "word, ".repeat(1000));
        assert_eq!(size(&prose), prose.len());
    }

    #[test]
    fn answer_of_many_small_values_is_refused_whatever_the_maximum_size() {
        let dense = format!("[{}0]", "{\"a\":0},".repeat(340_000));
        assert!(json::check(dense.as_bytes(), limits(32 << 20)).is_ok());
        assert!(json::check(dense.as_bytes(), answer_limits(32 << 20)).is_err());
    }

    #[test]
    fn rejects_json_above_the_memory_limit() {
        let dense = format!("[{}0]", "[0],".repeat(1 << 20));
        assert!(json::check(dense.as_bytes(), limits(dense.len())).is_err());
        let numbers = format!("[{}0]", "12.345,".repeat(1 << 20));
        assert!(json::check(numbers.as_bytes(), limits(numbers.len())).is_ok());
    }
}
