//! Session entries, their lines in a file, and the metadata of a session from its lines.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader, Read as _, Take};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::environment::unix_millis;
use base::{named, validation};
use collective::Envelope;

use super::encryption::{DecodeError, EncryptedLine, EncryptionKeys, Form, KeyId, LineCodec};
use super::{SessionError, SessionKey};

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

    /// Reads what a scan needs of a line, without decrypting it, or returns `None` for a damaged one. `form` is that of the
    /// lines before it.
    fn head(&self, session: &str, form: Option<Form>) -> Option<Head> {
        let encrypted = match form {
            Some(Form::Plain) => None,
            _ => EncryptedLine::parse(self.bytes, session),
        };
        match (encrypted, form) {
            (Some((line, key)), _) => Some(Head {
                event: line.event(),
                time: line.timestamp,
                key: Some(key),
            }),
            (None, Some(Form::Encrypted)) => None,
            (None, _) => self.parse(session).map(|entry| Head {
                event: entry.event,
                time: entry.timestamp,
                key: None,
            }),
        }
    }
}

/// What a scan reads of a line.
struct Head {
    event: Option<Event>,
    time: u64,
    /// The id of the key; `None` for a plain line.
    key: Option<KeyId>,
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

/// Reads the entries that a session had when it was opened, in order. Holds only one entry in memory. Reading blocks.
pub struct Reader {
    pub(super) key: SessionKey,
    pub(super) path: PathBuf,
    pub(super) scanner: Scanner<BufReader<Take<File>>>,
    pub(super) codec: LineCodec,
}

impl Reader {
    /// Returns the next line: its entry, which may be a change of the session, and its plain bytes without line end.
    #[expect(clippy::type_complexity, reason = "one caller takes the pair apart")]
    pub(super) fn next_line(
        &mut self,
    ) -> Result<Option<(Entry<'static>, Cow<'_, [u8]>)>, SessionError> {
        let line = self.scanner.next();
        let line = line.map_err(|error| SessionError::io("read", &self.path, error))?;
        let Some(line) = line else { return Ok(None) };
        let decoded = self.codec.decode(&line).map_err(|error| match error {
            DecodeError::Damaged => {
                SessionError::Corrupt(self.key.clone(), self.path.clone(), line.number)
            }
            DecodeError::MissingKey(id) => SessionError::MissingKey(self.key.clone(), id),
        });
        decoded.map(Some)
    }
}

impl Iterator for Reader {
    type Item = Result<Entry<'static>, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_line() {
                Ok(Some((entry, _))) if entry.event.is_none() => return Some(Ok(entry)),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Metadata of one session file. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionMeta {
    pub(super) file_bytes: u64,
    /// The length of the complete lines, in bytes.
    pub(super) line_bytes: u64,
    /// Whether the last line is complete except for its line end.
    pub(super) unended: bool,
    pub(super) exists: bool,
    pub(super) form: Form,
    /// The number of lines.
    pub(super) lines: u64,
    pub(super) entries: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) committed: Option<u64>,
    /// The number of the first damaged line, counted from 1.
    pub(super) damaged: Option<u64>,
    /// The first key that the gateway does not have.
    pub(super) missing_key: Option<KeyId>,
    /// Whether a line is encrypted with another key than the first.
    pub(super) has_older_key: bool,
}

impl SessionMeta {
    /// Scans a session file. Limits timestamps to `now`, so that a wrong clock cannot extend the time to live. Does not decrypt
    /// lines: whether they are authentic shows when they are read.
    pub(super) fn scan(
        file: &File,
        session: &str,
        now: u64,
        keys: Option<&EncryptionKeys>,
    ) -> io::Result<Self> {
        let file_bytes = file.metadata()?.len();
        let mut meta = Self {
            file_bytes,
            line_bytes: file_bytes,
            ..Self::default()
        };
        let mut scanner = Scanner::new(BufReader::new(file.take(file_bytes)));
        let mut previous_end = 0;
        while let Some(line) = scanner.next()? {
            let head = line.head(session, meta.exists.then_some(meta.form));
            if !line.ended && head.is_none() {
                meta.line_bytes = previous_end;
                break;
            }
            previous_end = line.end;
            meta.unended = !line.ended;
            match head {
                Some(head) => {
                    if let Some(key) = head.key {
                        meta.form = Form::Encrypted;
                        meta.has_older_key |= !keys.is_some_and(|keys| keys.is_first(key));
                        if !keys.is_some_and(|keys| keys.contains(key)) {
                            meta.missing_key.get_or_insert(key);
                        }
                    }
                    meta.record(head.event, head.time.min(now));
                }
                None => drop(meta.damaged.get_or_insert(line.number)),
            }
            meta.exists = true;
        }
        Ok(meta)
    }

    pub(super) fn record(&mut self, event: Option<Event>, time: u64) {
        if self.created == 0 {
            self.created = time;
        }
        self.exists = true;
        self.lines += 1;
        self.updated = self.updated.max(time);
        match event {
            None => self.entries += 1,
            Some(Event::Committed) => self.committed = Some(time),
            Some(_) => {}
        }
    }

    pub(super) fn idle(&self, now: u64) -> Duration {
        Duration::from_millis(now.saturating_sub(self.updated))
    }
}
