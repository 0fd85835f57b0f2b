//! The JSON of tasks in stores: a record at some revision, and the changes since.
//!
//! Parsed JSON takes up to a hundred times the memory of its text, so the server parses a task only when it uses it.

use crate::store::StoreError;
use crate::task_record::{TaskChange, TaskRecord};

/// The number of changes from which loading a task compacts its log.
pub(crate) const MAX_CHANGES: usize = 64;

/// Encodes a record or a change.
///
/// # Errors
/// The value has no form in JSON.
pub(crate) fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| {
        StoreError::Failed(format!(
            "cannot write the task as JSON: {}",
            error_location(&error)
        ))
    })
}

/// Decodes the record at the start of a log.
pub(crate) fn decode_record(json: &[u8]) -> Result<TaskRecord, String> {
    serde_json::from_slice(json).map_err(|error| error_location(&error))
}

/// Decodes a change and applies it.
pub(crate) fn apply(record: &mut TaskRecord, at_ms: i64, json: &[u8]) -> Result<(), String> {
    let change: TaskChange =
        serde_json::from_slice(json).map_err(|error| error_location(&error))?;
    record.apply(change, at_ms);
    Ok(())
}

/// Describes where JSON is wrong. The text itself stays out of the error, because it may be a client's.
fn error_location(error: &serde_json::Error) -> String {
    format!(
        "invalid JSON of a task at line {}, column {}",
        error.line(),
        error.column()
    )
}
