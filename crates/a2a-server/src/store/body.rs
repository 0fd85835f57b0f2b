//! What stores keep of a task: the record at some revision, and the changes since, each as JSON.
//!
//! Parsed JSON takes up to a hundred times the room of its text, so a task is parsed only when it is used.

use crate::store::StoreError;
use crate::task_record::{TaskChange, TaskRecord};

/// Loading a task compacts its log once the log has this many changes.
pub(crate) const MAX_CHANGES: usize = 64;

/// Writes a record or a change.
///
/// # Errors
/// It has no form in JSON.
pub(crate) fn encode(value: &impl serde::Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|error| {
        StoreError::Failed(format!(
            "cannot write the task as JSON: {}",
            error_location(&error)
        ))
    })
}

/// Parses the record that a log begins with.
pub(crate) fn decode_record(json: &[u8]) -> Result<TaskRecord, String> {
    serde_json::from_slice(json).map_err(|error| error_location(&error))
}

/// Applies a change that a log goes on with.
pub(crate) fn apply(record: &mut TaskRecord, at_ms: i64, json: &[u8]) -> Result<(), String> {
    let change: TaskChange =
        serde_json::from_slice(json).map_err(|error| error_location(&error))?;
    record.apply(change, at_ms);
    Ok(())
}

/// Where JSON is wrong. The text itself stays out of it: it may be a client's.
fn error_location(error: &serde_json::Error) -> String {
    format!(
        "no JSON of a task at line {}, column {}",
        error.line(),
        error.column()
    )
}
