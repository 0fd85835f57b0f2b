//! A workspace's file, written anew and put in place of the old one: either all of it happens or nothing.
//!
//! Entries come meanwhile. What was there at the beginning is copied while they do; only what came since is copied, and the
//! new file put in place, while they wait. So they wait for milliseconds, whatever the size of the file.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use super::line::{Head, Line, Scanner, session_of_damaged};
use super::load::Loading;
use super::lock::hold;
use super::workspace::{Appender, Workspace};
use super::{SessionError, files, lock};
use common::log::Silent;

/// So many bytes are copied while entries wait.
const LITTLE: u64 = 1 << 20;

/// So often is what came meanwhile copied before entries have to wait.
const ROUNDS: usize = 4;

/// What writes more lines behind the old ones.
pub(super) type More<'a> = &'a mut dyn FnMut(&mut Rewrite<'_>) -> Result<(), SessionError>;

/// Writes the file anew with the lines of the sessions that `keep` names among those it has now, with all that come
/// meanwhile, and with `more` behind them. Lines that do not say whose they are stay. Whoever calls it holds the turn to do so.
pub(super) fn renew(
    workspace: &Workspace,
    keep: &dyn Fn(&str) -> bool,
    more: Option<More<'_>>,
    now: &dyn Fn() -> u64,
) -> Result<(), SessionError> {
    let (mut new, end) = {
        let mut appender = lock(&workspace.file);
        (Rewrite::begin(workspace, &mut appender)?, appender.end)
    };
    new.copy(end, keep, now())?;
    new.sync()?;
    for _ in 0..ROUNDS {
        let end = lock(&workspace.file).end;
        if end - new.from <= LITTLE {
            break;
        }
        new.copy(end, &|_| true, now())?;
        new.sync()?;
    }
    let mut appender = lock(&workspace.file);
    appender.usable(&new.path)?;
    new.copy(appender.end, &|_| true, now())?;
    if let Some(more) = more {
        more(&mut new)?;
    }
    new.finish(&mut appender)
}

/// A new file. Where it is not finished, it is taken away.
pub(super) struct Rewrite<'a> {
    workspace: &'a Workspace,
    path: PathBuf,
    new: PathBuf,
    to: BufWriter<File>,
    /// The byte of the old file behind what has been copied.
    from: u64,
    /// The size of the new file, and its lines.
    end: u64,
    lines: u64,
    loading: Loading<'static>,
    finished: bool,
}

impl<'a> Rewrite<'a> {
    /// Makes the new file.
    pub(super) fn begin(
        workspace: &'a Workspace,
        appender: &mut Appender,
    ) -> Result<Self, SessionError> {
        let path = workspace.path();
        appender.usable(&path)?;
        workspace.opened(appender)?;
        let new = path.with_extension("jsonl.new");
        let file = files::create_new(&new).map_err(|e| SessionError::io("write", &path, e))?;
        hold(&file, &new)?;
        // What is damaged has been told.
        let loading = Loading::new(path.clone(), 0, &Silent);
        Ok(Self {
            workspace,
            path,
            new,
            to: BufWriter::new(file),
            from: 0,
            end: 0,
            lines: 0,
            loading,
            finished: false,
        })
    }

    /// Copies the lines of the sessions that `keep` names, up to the byte `to` of the old file.
    pub(super) fn copy(
        &mut self,
        to: u64,
        keep: &dyn Fn(&str) -> bool,
        now: u64,
    ) -> Result<(), SessionError> {
        self.loading.now = now;
        let copied = self.copied(to, keep);
        copied.map_err(|e| SessionError::io("write", &self.path, e))
    }

    fn copied(&mut self, to: u64, keep: &dyn Fn(&str) -> bool) -> io::Result<()> {
        let mut old = File::open(&self.path)?;
        old.seek(SeekFrom::Start(self.from))?;
        let old = BufReader::with_capacity(256 << 10, old).take(to.saturating_sub(self.from));
        let mut lines = Scanner::new(old, self.from);
        while let Some(line) = lines.next()? {
            // A line that was too long to be looked at is let go with the first rewrite: it belongs to nobody.
            let Some(bytes) = line.bytes else {
                continue;
            };
            let stays = match Head::read(bytes) {
                Some(head) => keep(&head.session_id),
                None => session_of_damaged(bytes).is_none_or(|session| keep(&session)),
            };
            if stays {
                self.put(bytes)?;
            }
        }
        self.from = self.from.max(to);
        Ok(())
    }

    /// Writes one more line, which has no line end.
    pub(super) fn line(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let put = self.put(bytes);
        put.map_err(|e| SessionError::io("write", &self.path, e))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.to.write_all(b"\n")?;
        let start = self.end;
        self.end += bytes.len() as u64 + 1;
        self.lines += 1;
        self.loading.line(&Line {
            start,
            end: self.end,
            number: self.lines,
            bytes: Some(bytes),
            ended: true,
        });
        Ok(())
    }

    /// Brings to the disk what has been written, so that less is to be brought there at the end.
    fn sync(&mut self) -> Result<(), SessionError> {
        let synced = self.to.flush().and_then(|()| self.to.get_ref().sync_data());
        synced.map_err(|e| SessionError::io("write", &self.path, e))
    }

    /// Puts the new file in place of the old one.
    pub(super) fn finish(mut self, appender: &mut Appender) -> Result<(), SessionError> {
        let wrong = |error| SessionError::io("write", &self.path, error);
        self.to.flush().map_err(wrong)?;
        let file = self.to.get_ref().try_clone().map_err(wrong)?;
        file.sync_all()
            .and_then(|()| fs::rename(&self.new, &self.path))
            .map_err(wrong)?;
        self.finished = true;
        let loading =
            std::mem::replace(&mut self.loading, Loading::new(PathBuf::new(), 0, &Silent));
        *lock(&self.workspace.index) = loading.end();
        *appender = Appender {
            file: Some(Arc::new(file)),
            end: self.end,
            lines: self.lines,
            scheduled: appender.scheduled,
            ..Appender::default()
        };
        files::sync_folder(&self.workspace.folder).map_err(|error| {
            // Which of the two files a power cut would leave, nobody can say.
            appender.failed = Some(error.to_string());
            SessionError::io("write", &self.path, error)
        })
    }
}

impl Drop for Rewrite<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // The old file holds; what is left of the new one is in nobody's way.
            let _ = fs::remove_file(&self.new);
        }
    }
}
