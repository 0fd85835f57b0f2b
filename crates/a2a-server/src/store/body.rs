//! The JSON of a task in a store: its record at some revision, and the later changes.
//!
//! Parsed JSON takes up to 320 times the memory of its text, so stores parse a task only when the server uses it.

use a2a::v1_0::TaskState;
use base::json::{self, Items, Limits};
use serde::Deserialize;

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
    // Room for most tasks.
    let mut json = Vec::with_capacity(1024);
    serde_json::to_writer(&mut json, value)
        .map_err(|error| StoreError::Failed(format!("cannot write {}", invalid(&error))))?;
    Ok(json)
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
pub(crate) struct RawRecord<'a> {
    /// The members of the task with their names.
    members: Vec<&'a [u8]>,
    /// The record from the value of `owner` on.
    owner: &'a [u8],
}

#[derive(Deserialize)]
struct RawStatus {
    state: TaskState,
}

impl<'a> RawRecord<'a> {
    /// Splits a record that [`encode`] wrote. Does not check the members.
    pub(crate) fn parse(record: &'a [u8]) -> Result<Self, String> {
        let task = record.strip_prefix(br#"{"task":"#).unwrap_or_default();
        let mut items = Items::of(task);
        let members = items.by_ref().collect();
        let owner = items.rest().strip_prefix(br#"},"owner":"#);
        let owner = owner.ok_or("the JSON of a task has another form")?;
        Ok(Self { members, owner })
    }

    /// Returns whether the task is of this client.
    pub(crate) fn is_owned_by(&self, client: &str) -> bool {
        let mut owner = serde_json::Deserializer::from_slice(self.owner).into_iter::<String>();
        matches!(owner.next(), Some(Ok(owner)) if owner == client)
    }

    /// Returns the state of the task.
    pub(crate) fn state(&self) -> Result<TaskState, String> {
        let mut members = self.members.iter();
        let status = members.find_map(|member| member.strip_prefix(br#""status":"#));
        let status = serde_json::from_slice(status.unwrap_or_default());
        let RawStatus { state } = status.map_err(|error| invalid(&error))?;
        Ok(state)
    }

    /// Appends the task as JSON of A2A 1.0, with the newest `messages` of its history, and its artifacts if `artifacts` is
    /// true. Copies the members of the task without decoding them.
    pub(crate) fn write_v1(&self, json: &mut Vec<u8>, messages: usize, artifacts: bool) {
        json.push(b'{');
        let empty = json.len();
        for member in &self.members {
            let (name, value) = match member.strip_prefix(br#""history":"#) {
                Some(history) => (&br#""history":["#[..], newest(history, messages)),
                None if !artifacts && member.starts_with(br#""artifacts":"#) => continue,
                None => (&[][..], *member),
            };
            if value == b"]" {
                continue;
            }
            if json.len() > empty {
                json.push(b',');
            }
            json.extend_from_slice(name);
            json.extend_from_slice(value);
        }
        json.push(b'}');
    }
}

/// Returns the last `most` items of an array, with its closing bracket.
fn newest(array: &[u8], most: usize) -> &[u8] {
    // An object and a comma have three bytes, so a short history needs no count.
    let older = match array.len() / 3 > most {
        true => Items::of(array).count().saturating_sub(most),
        false => 0,
    };
    let mut items = Items::of(array);
    items.by_ref().take(older).for_each(drop);
    items.rest()
}

/// Returns the task of a record as [`RawRecord::write_v1`] writes it.
pub(crate) fn task_v1(record: &[u8], messages: usize, artifacts: bool) -> Result<Vec<u8>, String> {
    let raw = RawRecord::parse(record)?;
    let mut json = Vec::with_capacity(record.len());
    raw.write_v1(&mut json, messages, artifacts);
    Ok(json)
}

/// Describes a JSON error by its location. The description contains no text, because that may be a client's.
fn invalid(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("the JSON of a task: invalid at line {line}, column {column}")
}

fn decode<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    json::from_slice(json, LIMITS).map_err(|error| format!("the JSON of a task: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{RawRecord, task_v1};
    use crate::store::tests::{artifact, message, record};

    #[test]
    fn error_names_the_place_and_quotes_nothing() {
        let error = super::decode_record(b"{\"s3cret\"").err().unwrap();
        assert!(error.contains("line 1, column 9"), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
        let record = br#"{"task":{"status":{"s3cret"}},"owner":"ann"}"#;
        let error = RawRecord::parse(record).unwrap().state().unwrap_err();
        let expected = "the JSON of a task: invalid at line 1, column 10";
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
