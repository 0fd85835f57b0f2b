//! Session entries and their lines in a file.

use std::borrow::Cow;
use std::io::{self, BufRead, Read as _};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::environment::unix_millis;
use base::{named, validation};
use collective::Envelope;

/// The roles of a message (Heretek A2A §4.2).
const ROLES: [&str; 4] = ["user", "assistant", "system", "agent"];

/// The maximum length of a line in a session file. Frames have at most 16 MiB, but JSON may grow when it is serialized
/// again.
pub(super) const MAX_LINE_BYTES: usize = 48 << 20;

/// One entry of a session (Heretek A2A §7.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry<'a> {
    /// When the gateway received the message, in milliseconds since 1970.
    #[serde(default, deserialize_with = "validation::integer")]
    pub timestamp: u64,
    /// The speaker: `user`, `assistant`, `system` or `agent`.
    pub role: Cow<'a, str>,
    /// The content: text or an object.
    pub content: Cow<'a, Value>,
    /// The session id.
    pub session_id: Cow<'a, str>,
    /// The id of the message; empty if the message has no id.
    #[serde(default)]
    pub id: Cow<'a, str>,
    /// The change of the session, if the line records one instead of an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<Event>,
}

impl<'a> Entry<'a> {
    /// Creates the entry of a message received at `now`. If the content has the format of a message (Heretek A2A §4.2), the
    /// entry has its role and its `content`. Otherwise it has the whole content and the role `agent`.
    pub fn new(envelope: &'a Envelope, session_id: &'a str, now: SystemTime) -> Self {
        let content = envelope.content();
        let role = content.get("role").and_then(Value::as_str);
        let role = role.filter(|role| ROLES.contains(role));
        let inner = role.and(content.get("content"));
        Self {
            timestamp: unix_millis(now),
            role: role.unwrap_or("agent").into(),
            content: Cow::Borrowed(inner.unwrap_or(content)),
            session_id: session_id.into(),
            id: envelope.id().unwrap_or_default().into(),
            event: None,
        }
    }
}

named! {
    /// A change of the session that a line records. Other programs read such a line as an entry of the system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub(super) enum Event {
        Created = "created",
        Committed = "committed",
        Imported = "imported",
        /// An event of a later version.
        #[serde(other)]
        Unknown = "unknown",
    }
}

/// Serializes an entry as a line, with its line end.
pub(super) fn serialize(entry: &Entry<'_>) -> Vec<u8> {
    // Serialization only fails for maps with non-string keys, and entries have none.
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}

impl Event {
    /// Returns the line of the event.
    pub(super) fn line(self, session: &str, timestamp: u64) -> NewLine {
        let text = match self {
            Self::Created => "session created",
            Self::Committed => "session committed",
            Self::Imported | Self::Unknown => "session imported",
        };
        NewLine::from(&Entry {
            timestamp,
            role: "system".into(),
            content: Cow::Owned(Value::from(text)),
            session_id: session.into(),
            id: "".into(),
            event: Some(self),
        })
    }
}

/// A plain line to write, with the members that an encrypted one shows.
pub(super) struct NewLine {
    /// The recorded change; `None` for an entry.
    pub(super) event: Option<Event>,
    pub(super) time: u64,
    /// The id of the message.
    pub(super) id: String,
    /// The plain line with its line end.
    pub(super) bytes: Vec<u8>,
}

impl From<&Entry<'_>> for NewLine {
    fn from(entry: &Entry<'_>) -> Self {
        Self {
            event: entry.event,
            time: entry.timestamp,
            id: entry.id.clone().into_owned(),
            bytes: serialize(entry),
        }
    }
}

/// One line of a file.
pub(super) struct Line<'a> {
    /// The offset after its line end.
    pub(super) end: u64,
    /// Its number, from 1.
    pub(super) number: u64,
    /// Its bytes without the line end, at most [`MAX_LINE_BYTES`].
    pub(super) bytes: &'a [u8],
    /// Whether it has a line end.
    pub(super) ended: bool,
}

impl Line<'_> {
    /// Parses a plain line of a session, or returns `None` for a damaged one.
    pub(super) fn parse(&self, session: &str) -> Option<Entry<'static>> {
        parse_entry(self.bytes, session)
    }
}

/// Parses an entry of a session.
pub(super) fn parse_entry(bytes: &[u8], session: &str) -> Option<Entry<'static>> {
    let entry: Entry<'static> = serde_json::from_slice(bytes).ok()?;
    (entry.session_id == session).then_some(entry)
}

/// Reads lines. Holds only one line in memory.
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

    /// Reads the next line that is not blank. Truncates a line that is too long.
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
