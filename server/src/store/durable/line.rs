//! Lines of the journal: a checksum, a blank, and what happened, in JSON.

use std::borrow::Cow;

use a2a::{TaskPushNotificationConfig, TaskState};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::caller::Version;
use crate::record::{Change, Record};
use crate::store::StoreError;

/// The version of the journal that this code writes, and the only one it reads.
pub(super) const FORMAT: u32 = 1;

/// The checksum in hexadecimal digits, and the blank.
const FRONT: usize = 9;

/// A configuration of push notifications, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) config: TaskPushNotificationConfig,
    pub(super) version: Version,
}

/// A line that is to be written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Write<'a> {
    /// The first line of a file.
    Journal { format: u32 },
    /// A new task.
    New(&'a Record),
    /// What happened to a task after its first `revision` changes.
    Change {
        id: &'a str,
        revision: u64,
        at_ms: i64,
        change: &'a Change,
    },
    /// A task as it stands; the lines of it that came before are not needed any more.
    Whole {
        record: &'a Record,
        pushes: &'a [Kept],
    },
    /// A task was deleted.
    Gone(&'a str),
    /// A configuration of a task that is not settled.
    Push(&'a Kept),
    /// One was deleted.
    Unpush { id: &'a str, config: &'a str },
    /// A context that has no task yet.
    Context {
        id: &'a str,
        owner: &'a str,
        session: &'a str,
    },
    /// A task whose lines cannot be read.
    Damaged { id: &'a str, why: &'a str },
    /// Says nothing: whether a line can be written at all.
    Nothing,
}

impl Write<'_> {
    /// The line, with its line end.
    pub(super) fn line(&self) -> Result<Vec<u8>, StoreError> {
        let mut line = vec![b' '; FRONT];
        serde_json::to_writer(&mut line, self).map_err(|error| {
            StoreError::Failed(format!("a task cannot be written as JSON: {error}"))
        })?;
        let sum = line.get(FRONT..).map_or(0, crc32fast::hash);
        let digits = format!("{sum:08x}");
        if let Some(front) = line.get_mut(..digits.len()) {
            front.copy_from_slice(digits.as_bytes());
        }
        line.push(b'\n');
        Ok(line)
    }
}

/// A whole line that was read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Read {
    New(Record),
    Change { at_ms: i64, change: Change },
    Whole { record: Record, pushes: Vec<Kept> },
    Push(Kept),
    Unpush { config: String },
}

/// Of a line, what the index needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Head<'a> {
    Journal {
        format: u32,
    },
    #[serde(borrow)]
    New(RecordHead<'a>),
    Change {
        #[serde(borrow)]
        id: Cow<'a, str>,
        revision: u64,
    },
    Whole {
        #[serde(borrow)]
        record: RecordHead<'a>,
    },
    #[serde(borrow)]
    Gone(Cow<'a, str>),
    #[serde(borrow)]
    Push(PushHead<'a>),
    Unpush {
        #[serde(borrow)]
        id: Cow<'a, str>,
    },
    Context {
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(borrow)]
        owner: Cow<'a, str>,
        #[serde(borrow)]
        session: Cow<'a, str>,
    },
    Damaged {
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(borrow)]
        why: Cow<'a, str>,
    },
    Nothing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordHead<'a> {
    #[serde(borrow)]
    pub(super) task: TaskHead<'a>,
    #[serde(borrow)]
    pub(super) owner: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) session: Cow<'a, str>,
    pub(super) changed_ms: i64,
    pub(super) revision: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskHead<'a> {
    #[serde(borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) context_id: Cow<'a, str>,
    pub(super) status: StatusHead,
}

#[derive(Deserialize)]
pub(super) struct StatusHead {
    pub(super) state: TaskState,
    #[serde(default)]
    pub(super) timestamp: Option<DateTime<Utc>>,
}

#[derive(Deserialize)]
pub(super) struct PushHead<'a> {
    #[serde(borrow)]
    pub(super) config: ConfigHead<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigHead<'a> {
    #[serde(borrow, default)]
    pub(super) task_id: Cow<'a, str>,
}

/// What a line without its line end says, where its checksum is right.
pub(super) fn checked(line: &[u8]) -> Option<&[u8]> {
    let (front, json) = line.split_at_checked(FRONT)?;
    let digits = std::str::from_utf8(front).ok()?.strip_suffix(' ')?;
    let sum = u32::from_str_radix(digits, 16).ok()?;
    (sum == crc32fast::hash(json)).then_some(json)
}

/// What the index needs of a line, where the line is whole.
pub(super) fn head(line: &[u8]) -> Option<Head<'_>> {
    serde_json::from_slice(checked(line)?).ok()
}

/// All of a line, where it is whole.
pub(super) fn read(line: &[u8]) -> Option<Read> {
    serde_json::from_slice(checked(line)?).ok()
}

#[cfg(test)]
mod tests;
