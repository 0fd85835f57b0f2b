//! Reads the metadata of session files.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::time::Duration;

use base::files::FileVersion;

use super::encryption::{DecodeError, EncryptedLine, EncryptionKeys, Form, KeyId, LineCodec};
use super::line::{Event, Line, Scanner};

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
    /// The version of a damaged file.
    pub(super) version: Option<FileVersion>,
    /// The value of `line_bytes` before the file was damaged.
    pub(super) healthy_bytes: u64,
    /// The first key that the gateway does not have.
    pub(super) missing_key: Option<KeyId>,
    /// Whether a line is encrypted with another key than the first.
    pub(super) has_older_key: bool,
}

impl SessionMeta {
    /// Scans a session file. Limits timestamps to `now`, so that a wrong clock cannot extend the time to live. Decrypts lines only
    /// with a `codec`: otherwise, whether they are authentic shows when they are read.
    pub(super) fn scan(
        file: &File,
        session: &str,
        now: u64,
        keys: Option<&EncryptionKeys>,
        mut codec: Option<LineCodec>,
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
            let mut decrypts = || match &mut codec {
                Some(codec) => !matches!(codec.decode(&line), Err(DecodeError::Damaged)),
                None => true,
            };
            let head = head(&line, session, meta.exists.then_some(meta.form));
            let head = head.filter(|_| decrypts());
            if !line.ended && head.is_none() {
                meta.line_bytes = previous_end;
                // A line begins with a brace, and a loss of power may leave zeros. Anything else is not the gateway's to cut.
                let first = line.bytes.trim_ascii_start().first();
                if !meta.exists && first.is_some_and(|byte| !matches!(byte, b'{' | 0)) {
                    meta.set_damaged(line.number);
                }
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
                None => meta.set_damaged(line.number),
            }
            meta.exists = true;
        }
        Ok(meta)
    }

    /// Records a damaged line, unless one before it is known.
    pub(super) fn set_damaged(&mut self, line: u64) {
        self.exists = true;
        self.damaged.get_or_insert(line);
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

    /// Returns the length of the complete lines that the file had before it was damaged.
    pub(super) fn healthy_bytes(&self) -> u64 {
        match self.damaged {
            Some(_) => self.healthy_bytes,
            None => self.line_bytes,
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
