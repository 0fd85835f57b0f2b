//! Reads the metadata of a session from its file.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::time::Duration;

use super::line::{Event, Scanner};

/// Metadata of one session file. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionMeta {
    pub(super) file_bytes: u64,
    /// The length of the complete lines, in bytes.
    pub(super) line_bytes: u64,
    /// Whether the last line is complete except for its line end.
    pub(super) unended: bool,
    pub(super) exists: bool,
    pub(super) entries: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) committed: Option<u64>,
    /// The number of the first damaged line, counted from 1.
    pub(super) damaged: Option<u64>,
}

impl SessionMeta {
    /// Scans a session file. Limits timestamps to `now`, so that a wrong clock cannot extend the time to live.
    pub(super) fn scan(file: &File, session: &str, now: u64) -> io::Result<Self> {
        let file_bytes = file.metadata()?.len();
        let mut meta = Self {
            file_bytes,
            line_bytes: file_bytes,
            ..Self::default()
        };
        let mut scanner = Scanner::new(BufReader::new(file.take(file_bytes)));
        let mut previous_end = 0;
        while let Some(line) = scanner.next()? {
            let entry = line.parse(session);
            if !line.ended && entry.is_none() {
                meta.line_bytes = previous_end;
                break;
            }
            previous_end = line.end;
            meta.unended = !line.ended;
            meta.exists = true;
            match entry {
                Some(entry) => meta.record(entry.event, entry.timestamp.min(now)),
                None => drop(meta.damaged.get_or_insert(line.number)),
            }
        }
        Ok(meta)
    }

    pub(super) fn record(&mut self, event: Option<Event>, time: u64) {
        if self.created == 0 {
            self.created = time;
        }
        self.exists = true;
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
