//! A session, read one line at a time.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom, Take};
use std::path::{Path, PathBuf};

use super::line::{Head, Scanner, Written, session_of_damaged};
use super::{Entry, SessionError};

/// The lines of one session, raw.
pub(super) struct Lines {
    path: PathBuf,
    session: String,
    pieces: std::vec::IntoIter<(u64, u64)>,
    scanner: Option<Scanner<Take<BufReader<File>>>>,
    found: Vec<u8>,
}

impl Lines {
    /// The lines of `session` among those in `pieces` of the file at `path`.
    pub(super) fn open(
        path: &Path,
        pieces: Vec<(u64, u64)>,
        session: &str,
    ) -> Result<Self, SessionError> {
        let file = File::open(path).map_err(|e| SessionError::io("open", path, e))?;
        Ok(Self {
            path: path.to_owned(),
            session: session.to_owned(),
            pieces: pieces.into_iter(),
            scanner: Some(Scanner::new(BufReader::new(file).take(0), 0)),
            found: Vec::new(),
        })
    }

    /// The next line, without its line end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, SessionError> {
        while let Some(scanner) = &mut self.scanner {
            let line = scanner.next();
            let line = line.map_err(|e| SessionError::io("read", &self.path, e))?;
            match line {
                Some(line) => {
                    let bytes = line.bytes.unwrap_or_default();
                    match Head::read(bytes) {
                        Some(head) if head.session_id == self.session => {
                            self.found.clear();
                            self.found.extend_from_slice(bytes);
                            return Ok(Some(&self.found));
                        }
                        Some(_) => {}
                        // It was whole when the file was opened.
                        None if session_of_damaged(bytes).as_ref() == Some(&self.session) => {
                            let start = line.start;
                            return Err(self.damaged(start));
                        }
                        None => {}
                    }
                }
                None => self.scanner = self.piece()?,
            }
        }
        Ok(None)
    }

    fn damaged(&self, start: u64) -> SessionError {
        let before = File::open(&self.path).and_then(|file| {
            let mut lines = Scanner::new(BufReader::new(file.take(start)), 0);
            let mut count = 0;
            while lines.next()?.is_some() {
                count += 1;
            }
            Ok(count)
        });
        match before {
            Ok(before) => SessionError::Corrupt {
                session: self.session.clone(),
                path: self.path.clone(),
                line: before + 1,
            },
            Err(error) => SessionError::io("read", &self.path, error),
        }
    }

    /// Goes on to the next piece.
    fn piece(&mut self) -> Result<Option<Scanner<Take<BufReader<File>>>>, SessionError> {
        let next = self.scanner.take().zip(self.pieces.next());
        let Some((scanner, (start, end))) = next else {
            return Ok(None);
        };
        let mut file = scanner.into_inner().into_inner();
        let moved = file.seek(SeekFrom::Start(start));
        moved.map_err(|e| SessionError::io("read", &self.path, e))?;
        Ok(Some(Scanner::new(file.take(end - start), start)))
    }
}

/// The entries of a session, in order, as they were when it was opened. It holds one at a time; reading blocks.
pub struct Reader(Lines);

impl Reader {
    pub(super) fn new(lines: Lines) -> Self {
        Self(lines)
    }

    fn entry(&mut self) -> Result<Option<Entry<'static>>, SessionError> {
        while let Some(line) = self.0.next()? {
            // It was looked at: what it lacks can only be text where text must be.
            let Ok(written) = serde_json::from_slice::<Written<'_>>(line) else {
                continue;
            };
            if written.event.is_none() {
                return Ok(Some(written.entry.into_owned()));
            }
        }
        Ok(None)
    }
}

impl Iterator for Reader {
    type Item = Result<Entry<'static>, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entry().transpose()
    }
}
