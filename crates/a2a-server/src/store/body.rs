//! The JSON of a task in a store: its record at some revision, and the later changes.
//!
//! Parsed JSON takes up to a hundred times the memory of its text, so stores parse a task only when the server uses it.

use base::json::{self, Limits};

use crate::store::StoreError;
use crate::task_record::{TaskChange, TaskRecord};

/// The number of changes from which the store compacts them when it loads the task.
pub(crate) const MAX_CHANGES: usize = 64;

/// The number of tasks that a store loads at once. A loaded task may be large, and one client may send many requests:
/// its answers count against the limit of unread answers only once they are written.
pub(crate) const MAX_LOADS: usize = 4;

/// The limits of a task's JSON. No server stores more, but another program may have.
const LIMITS: Limits = Limits {
    memory: 1 << 30,
    ..Limits::NONE
};

/// Encodes a record or a change.
///
/// # Errors
/// JSON cannot express the value.
pub(crate) fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| {
        StoreError::Failed(format!(
            "cannot write the task as JSON: {}",
            error_location(&error)
        ))
    })
}

/// Decodes a record.
pub(crate) fn decode_record(json: &[u8]) -> Result<TaskRecord, String> {
    decode(json)
}

/// Decodes a change.
pub(crate) fn decode_change(json: &[u8]) -> Result<TaskChange, String> {
    decode(json)
}

/// Decodes a change and applies it to a record.
pub(crate) fn apply(record: &mut TaskRecord, at_ms: i64, json: &[u8]) -> Result<(), String> {
    record.apply(decode_change(json)?, at_ms);
    Ok(())
}

fn decode<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    json::from_slice(json, LIMITS).map_err(|error| format!("the JSON of a task: {error}"))
}

/// Describes the location of a JSON error. The description contains no text, because that may be a client's.
fn error_location(error: &serde_json::Error) -> String {
    format!(
        "invalid JSON of a task at line {}, column {}",
        error.line(),
        error.column()
    )
}
