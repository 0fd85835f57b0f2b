//! Lines of a session file, written and read.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Take};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::name::SessionKey;
use super::{Entry, SessionError};

/// The longest line of a session file: frames have at most 16 MiB, and JSON may grow when it is serialized again.
pub(super) const MAX_LINE_BYTES: usize = 48 << 20;

/// Marks a line that records a change of its session. Other readers see it as an entry of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Event {
    Created,
    Committed,
    Imported,
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

/// Serializes an entry as a line, with its line end.
pub(super) fn serialize(entry: &Entry<'_>) -> Vec<u8> {
    // Serializing fails only for maps whose keys are not strings, which entries lack.
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Serializes an event as a line, with its line end.
pub(super) fn serialize_event(event: Event, session: &str, timestamp: u64) -> Vec<u8> {
    let text = match event {
        Event::Created => "session created",
        Event::Committed => "session committed",
        Event::Imported | Event::Unknown => "session imported",
    };
    serialize(&Entry {
        timestamp,
        role: "system".into(),
        content: Cow::Owned(Value::from(text)),
        session_id: session.into(),
        id: "".into(),
        event: Some(event),
    })
}

/// One line of a file.
pub(super) struct Line<'a> {
    /// The offset behind its line end.
    pub(super) end: u64,
    /// Its number, from 1.
    pub(super) number: u64,
    /// Its bytes without the line end, at most [`MAX_LINE_BYTES`].
    pub(super) bytes: &'a [u8],
    /// Whether it has a line end.
    pub(super) ended: bool,
}

impl Line<'_> {
    /// Parses a line of a session, or returns `None` for a damaged one.
    pub(super) fn parse(&self, session: &str) -> Option<Entry<'static>> {
        let entry: Entry<'static> = serde_json::from_slice(self.bytes).ok()?;
        (entry.session_id == session).then_some(entry)
    }
}

/// Reads lines and holds one at a time.
pub(super) struct Scanner<R> {
    from: R,
    line: Vec<u8>,
    end: u64,
    number: u64,
}

impl<R: BufRead> Scanner<R> {
    pub(super) fn new(from: R) -> Self {
        let (line, end, number) = (Vec::new(), 0, 0);
        Self {
            from,
            line,
            end,
            number,
        }
    }

    /// Reads the next line that is not blank. Of a line that is too long it returns the beginning.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            self.line.clear();
            let mut limited = (&mut self.from).take(MAX_LINE_BYTES as u64 + 1);
            let mut read = limited.read_until(b'\n', &mut self.line)? as u64;
            let mut ended = self.line.ends_with(b"\n");
            if !ended && self.line.len() > MAX_LINE_BYTES {
                let rest = self.from.skip_until(b'\n')? as u64;
                (read, ended) = (read + rest, rest > 0);
            }
            if read == 0 {
                return Ok(None);
            }
            self.end += read;
            self.number += 1;
            if !ended || !self.line.trim_ascii().is_empty() {
                return Ok(Some(Line {
                    end: self.end,
                    number: self.number,
                    bytes: self.line.strip_suffix(b"\n").unwrap_or(&self.line),
                    ended,
                }));
            }
        }
    }
}

/// The entries of a session in order, as of the time it was opened. Holds one entry at a time; reading blocks.
pub struct Reader {
    pub(super) key: SessionKey,
    pub(super) path: PathBuf,
    pub(super) scanner: Scanner<BufReader<Take<File>>>,
}

impl Iterator for Reader {
    type Item = Result<Entry<'static>, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.scanner.next() {
                Ok(line) => line?,
                Err(error) => return Some(Err(SessionError::io("read", &self.path, error))),
            };
            match line.parse(&self.key.session) {
                Some(entry) if entry.event.is_none() => return Some(Ok(entry)),
                Some(_) => {}
                None => {
                    let (key, path) = (self.key.clone(), self.path.clone());
                    return Some(Err(SessionError::Corrupt(key, path, line.number)));
                }
            }
        }
    }
}
