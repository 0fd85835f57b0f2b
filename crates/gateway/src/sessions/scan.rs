//! Reads session files, and their metadata.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Take};
use std::path::PathBuf;
use std::time::Duration;

use super::encryption::{DecodeError, EncryptedLine, EncryptionKeys, Form, KeyId, LineCodec};
use super::line::{Entry, Event, Line, Scanner};
use super::{SessionError, SessionKey};

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
            let head = head(&line, session, meta.exists.then_some(meta.form));
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

/// What a scan reads of a line.
struct Head {
    event: Option<Event>,
    time: u64,
    /// The id of the key; `None` for a plain line.
    key: Option<KeyId>,
}

/// Reads what a scan needs of a line, without decrypting it, or returns `None` for a damaged one. `form` is that of the
/// lines before it.
fn head(line: &Line<'_>, session: &str, form: Option<Form>) -> Option<Head> {
    let encrypted = match form {
        Some(Form::Plain) => None,
        _ => EncryptedLine::parse(line.bytes, session),
    };
    match (encrypted, form) {
        (Some((line, key)), _) => Some(Head {
            event: line.event(),
            time: line.timestamp,
            key: Some(key),
        }),
        (None, Some(Form::Encrypted)) => None,
        (None, _) => line.parse(session).map(|entry| Head {
            event: entry.event,
            time: entry.timestamp,
            key: None,
        }),
    }
}
