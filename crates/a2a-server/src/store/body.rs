//! The JSON of a task in a store: its record at some revision, and the later changes.
//!
//! Parsed JSON takes up to a hundred times the memory of its text, so stores parse a task only when the server uses it.

use std::borrow::Cow;

use a2a::v1_0::TaskState;
use base::json::{self, Limits};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

/// A record whose task is only split into its members. The JSON of a task in a store is the JSON of A2A 1.0, so the
/// server sends these members as they are.
#[derive(Deserialize)]
pub(crate) struct RawRecord<'a> {
    #[serde(borrow)]
    task: RawTask<'a>,
    #[serde(borrow)]
    owner: Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTask<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    context_id: &'a RawValue,
    #[serde(borrow)]
    status: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    artifacts: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawStatus {
    state: TaskState,
}

impl<'a> RawRecord<'a> {
    pub(crate) fn parse(record: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(record).map_err(|error| invalid(&error))
    }

    /// Returns the client that owns the task.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the state of the task.
    pub(crate) fn state(&self) -> Result<TaskState, String> {
        let status = serde_json::from_str(self.task.status.get());
        let RawStatus { state } = status.map_err(|error| invalid(&error))?;
        Ok(state)
    }

    /// Appends the task as JSON of A2A 1.0, with the newest `messages` of its history, and its artifacts if `artifacts` is
    /// true. Copies the members of the task without decoding them.
    pub(crate) fn write_v1(
        mut self,
        json: &mut Vec<u8>,
        messages: usize,
        artifacts: bool,
    ) -> Result<(), String> {
        let history = &mut self.task.history;
        history.drain(..history.len().saturating_sub(messages));
        if !artifacts {
            self.task.artifacts = None;
        }
        serde_json::to_writer(json, &self.task).map_err(|error| invalid(&error))
    }
}

/// Returns the task of a record as [`RawRecord::write_v1`] writes it.
pub(crate) fn task_v1(record: &[u8], messages: usize, artifacts: bool) -> Result<Vec<u8>, String> {
    let mut json = Vec::with_capacity(record.len());
    RawRecord::parse(record)?.write_v1(&mut json, messages, artifacts)?;
    Ok(json)
}

fn invalid(error: &serde_json::Error) -> String {
    format!("the JSON of a task: {}", error_location(error))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::task_v1;
    use crate::store::tests::{artifact, message, record};

    #[test]
    fn error_names_the_place_and_quotes_nothing() {
        let error = task_v1(b"{\"s3cret\"", 0, true).unwrap_err();
        let expected = "the JSON of a task: invalid JSON of a task at line 1, column 9";
        assert_eq!(error, expected);
    }

    #[test]
    fn cut_task_is_the_encoded_cut() {
        let mut record = record("t", "ann", "c", 0);
        record.task.artifacts = Some(vec![artifact("a", "\u{1} \"text\"")]);
        record.task.history = Some((0..3).map(|n| message(&n.to_string(), "{}")).collect());
        let json = serde_json::to_vec(&record).unwrap();
        for (messages, artifacts) in [(0, true), (1, false), (2, true), (9, true)] {
            let mut cut = record.task.clone();
            let history = cut.history.take().unwrap_or_default();
            let older = history.len().saturating_sub(messages);
            cut.history = Some(history[older..].to_vec()).filter(|history| !history.is_empty());
            cut.artifacts = cut.artifacts.filter(|_| artifacts);
            let expected = serde_json::to_string(&cut).unwrap();
            let sent = task_v1(&json, messages, artifacts).unwrap();
            assert_eq!(String::from_utf8(sent).unwrap(), expected);
        }
    }
}
