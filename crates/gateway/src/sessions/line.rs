//! Lines, out of a file and into it.

use std::borrow::Cow;
use std::io::{self, BufRead};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Entry;
use common::validation;

/// A line that is longer was not written by this code: frames have 16 MiB at most, and JSON that is written anew may grow.
pub(super) const LONGEST: usize = 48 << 20;

/// What marks a line that is no entry but says what happened to its session. To readers that do not know the mark it is an
/// entry of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Event {
    /// The session was made.
    Created,
    /// It was brought to the disk on request.
    Committed,
    /// Its entries came from elsewhere.
    Imported,
    /// It went to the archive; the first line of its file there.
    Archived,
    /// What a later version writes.
    #[serde(other)]
    Unknown,
}

/// What is looked at to know where a line belongs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head<'a> {
    #[serde(default, deserialize_with = "validation::whole")]
    pub(super) timestamp: u64,
    #[serde(borrow)]
    pub(super) session_id: Cow<'a, str>,
    #[serde(default)]
    pub(super) event: Option<Event>,
    #[serde(borrow, rename = "role")]
    _role: Cow<'a, str>,
    #[serde(default, borrow, rename = "id")]
    _id: Cow<'a, str>,
    #[serde(rename = "content")]
    _content: IgnoredAny,
}

impl<'a> Head<'a> {
    pub(super) fn read(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// A whole line.
#[derive(Serialize, Deserialize)]
pub(super) struct Written<'a> {
    #[serde(flatten)]
    pub(super) entry: Entry<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<Event>,
}

/// An entry as a line, with its line end.
pub(super) fn entry(entry: &Entry<'_>) -> Vec<u8> {
    ended(entry)
}

/// A line that says what happened to a session.
pub(super) fn event(event: Event, session: &str, timestamp: u64, content: Value) -> Vec<u8> {
    let entry = Entry {
        timestamp,
        role: "system".into(),
        content: Cow::Owned(content),
        session_id: session.into(),
        id: "".into(),
    };
    let event = Some(event);
    ended(&Written { entry, event })
}

fn ended(line: &impl Serialize) -> Vec<u8> {
    // Writing to memory fails only where a map has keys that are no strings, and there is none.
    let mut line = serde_json::to_vec(line).unwrap_or_default();
    line.push(b'\n');
    line
}

/// The session that a damaged line belongs to, where it still says so: what it says last counts, for content comes before.
pub(super) fn session_of_damaged(line: &[u8]) -> Option<String> {
    const KEY: &[u8] = br#""sessionId":"#;
    let at = memchr::memmem::rfind(line, KEY)? + KEY.len();
    let mut values = serde_json::Deserializer::from_slice(line.get(at..)?).into_iter::<String>();
    values.next()?.ok()
}

/// Reads lines one after the other and holds one at a time.
pub(super) struct Scanner<R> {
    from: R,
    line: Vec<u8>,
    at: u64,
    number: u64,
}

/// One line, and where it is.
pub(super) struct Line<'a> {
    /// Its first byte in the file.
    pub(super) start: u64,
    /// The byte behind its line end.
    pub(super) end: u64,
    /// From 1.
    pub(super) number: u64,
    /// What it says, without its line end; `None` where it is too long to be looked at.
    pub(super) bytes: Option<&'a [u8]>,
    /// It has a line end.
    pub(super) ended: bool,
}

impl<R: BufRead> Scanner<R> {
    /// Reads from `from`, which is at the byte `at` of its file.
    pub(super) fn new(from: R, at: u64) -> Self {
        Self {
            from,
            line: Vec::new(),
            at,
            number: 0,
        }
    }

    /// The next line.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let start = self.at;
        let mut whole = true;
        let ended = loop {
            let buffer = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if buffer.is_empty() {
                break false;
            }
            let end = memchr::memchr(b'\n', buffer);
            let piece = buffer.get(..end.unwrap_or(buffer.len()));
            let piece = piece.unwrap_or_default();
            if self.line.len() + piece.len() > LONGEST {
                whole = false;
                self.line.clear();
                self.line.shrink_to(0);
            } else if whole {
                self.line.extend_from_slice(piece);
            }
            let taken = piece.len() + usize::from(end.is_some());
            self.from.consume(taken);
            self.at += taken as u64;
            if end.is_some() {
                break true;
            }
        };
        if self.at == start {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(Line {
            start,
            end: self.at,
            number: self.number,
            bytes: whole.then_some(self.line.as_slice()),
            ended,
        }))
    }

    /// What it reads from.
    pub(super) fn into_inner(self) -> R {
        self.from
    }
}
