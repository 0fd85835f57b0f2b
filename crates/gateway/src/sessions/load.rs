//! A workspace's file, read once from its beginning: where every session's lines are, and what is wrong.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use super::index::{Change, Index};
use super::line::{Event, Head, LONGEST, Line, Scanner, session_of_damaged};
use common::log::{Level, Log};

/// So many damaged lines of one file are told one by one.
const TOLD: u64 = 10;

/// What a file holds.
pub(super) struct Loaded {
    pub(super) index: Index,
    /// The byte behind the last line that is whole.
    pub(super) end: u64,
    /// How many lines it has.
    pub(super) lines: u64,
    /// What is behind the last whole line.
    pub(super) tail: Tail,
}

/// What is behind the last line end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// Nothing.
    Clean,
    /// A line that is whole but for its line end.
    Open,
    /// The beginning of a line, of so many bytes: who wrote it was stopped. Nobody was told that it is kept.
    Torn(u64),
}

/// A damaged line that does not say its session.
struct Stray {
    line: u64,
    before: Option<String>,
}

/// What is found out of a file, line by line.
pub(super) struct Loading<'a> {
    index: Index,
    path: PathBuf,
    log: &'a dyn Log,
    /// The time of day, in milliseconds since 1970.
    pub(super) now: u64,
    damaged: u64,
    stray: Option<Stray>,
    /// The session of the line before.
    last: String,
}

/// Reads the file at `path`. What is damaged is told to `log`.
pub(super) fn load(file: &File, path: &Path, now: u64, log: &dyn Log) -> io::Result<Loaded> {
    let mut scanner = Scanner::new(BufReader::with_capacity(256 << 10, file), 0);
    let mut loading = Loading::new(path.to_owned(), now, log);
    let (mut end, mut lines, mut tail) = (0, 0, Tail::Clean);
    while let Some(line) = scanner.next()? {
        if !line.ended && !is_whole(&line) {
            let torn = line.end - line.start;
            // So long a line was never this code's: better to keep what cannot be understood.
            if torn <= LONGEST as u64 {
                tail = Tail::Torn(torn);
                break;
            }
        }
        if !line.ended {
            tail = Tail::Open;
        }
        (end, lines) = (line.end, line.number);
        loading.line(&line);
    }
    Ok(Loaded {
        index: loading.end(),
        end,
        lines,
        tail,
    })
}

fn is_whole(line: &Line<'_>) -> bool {
    line.bytes.is_some_and(|bytes| Head::read(bytes).is_some())
}

impl<'a> Loading<'a> {
    pub(super) fn new(path: PathBuf, now: u64, log: &'a dyn Log) -> Self {
        Self {
            index: Index::default(),
            path,
            log,
            now,
            damaged: 0,
            stray: None,
            last: String::new(),
        }
    }

    /// There are no more lines.
    pub(super) fn end(mut self) -> Index {
        self.settle(None);
        if self.damaged > TOLD {
            let message = format!(
                "damaged lines in `{}`: {}, of which the first {TOLD} were told",
                self.path.display(),
                self.damaged
            );
            self.log.log(Level::Error, &message);
        }
        self.index
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &Line<'_>) {
        let bytes = line.bytes.unwrap_or_default();
        if line.bytes.is_some() && bytes.trim_ascii().is_empty() {
            return;
        }
        let Some(head) = Head::read(bytes) else {
            match session_of_damaged(bytes) {
                Some(session) => self.damage(&session, line.number),
                None => {
                    self.settle(None);
                    let before = (!self.last.is_empty()).then(|| self.last.clone());
                    self.stray = Some(Stray {
                        line: line.number,
                        before,
                    });
                }
            }
            return;
        };
        self.settle(Some(&head.session_id));
        let change = match head.event {
            None => Change::Entry,
            Some(Event::Committed) => Change::Committed,
            Some(_) => Change::Other,
        };
        // A clock that was wrong must not keep a session for ever.
        let time = head.timestamp.min(self.now);
        let place = (line.start, line.end);
        self.index.note(&head.session_id, change, place, time);
        self.last.clear();
        self.last.push_str(&head.session_id);
    }

    /// A damaged line between two lines of one session is that session's. Of others nobody knows whose they are.
    fn settle(&mut self, after: Option<&str>) {
        let Some(stray) = self.stray.take() else {
            return;
        };
        match stray.before {
            Some(session) if after == Some(&session) => self.damage(&session, stray.line),
            _ => {
                self.index.strays += 1;
                self.tell(stray.line, "it does not say which session it belongs to");
            }
        }
    }

    fn damage(&mut self, session: &str, line: u64) {
        self.index.damage(session, line);
        let message = format!(
            "the session `{}` cannot be read (4004 SESSION_CORRUPT)",
            session.escape_debug()
        );
        self.tell(line, &message);
    }

    fn tell(&mut self, line: u64, what: &str) {
        self.damaged += 1;
        if self.damaged <= TOLD {
            let path = self.path.display();
            let message = format!("line {line} of `{path}` is damaged: {what}");
            self.log.log(Level::Error, &message);
        }
    }
}
