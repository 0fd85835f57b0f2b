//! The write queue.
//!
//! One writer at a time takes all lines of the queue. Lines of one session that arrive together share one write, and lines
//! of all sessions one sync.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::line::{Event, SessionMeta};
use super::store::{FILE_BYTES, PendingLine, Reply, Store};
use super::sync_log::Written;
use super::{SessionError, SessionKey, line};
use base::files::{self, Fsync};
use base::log::Level;

/// The maximum number of sessions in one batch.
const MAX_BATCH: usize = 64;

/// The time from a failed sync of session files to the next.
const SYNC_RETRY: Duration = Duration::from_secs(1);

/// Lines of one session that are written but not acknowledged.
struct WrittenLines {
    file: File,
    path: PathBuf,
    bytes: Vec<u8>,
    /// The metadata of the file including the lines.
    meta: SessionMeta,
    /// The length of the file before the lines.
    old_bytes: u64,
    /// Whether the lines must be synced before the replies.
    durable: bool,
    lines: Vec<PendingLine>,
}

impl Store {
    /// Queues a line. Inside a tokio runtime, a blocking thread writes it; otherwise the calling thread does.
    ///
    /// # Errors
    /// 3003 if the queue is full, 2005 if the line is too long.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        identity: &Arc<str>,
        key: SessionKey,
        event: Option<Event>,
        time: u64,
        bytes: Vec<u8>,
    ) -> Result<oneshot::Receiver<Reply>, SessionError> {
        if bytes.len() > line::MAX_LINE_BYTES {
            return Err(SessionError::TooLong);
        }
        let mut queue = self.queue.lock();
        let own = queue.bytes_of.get(identity).copied().unwrap_or(0);
        if queue.bytes + bytes.len() > self.max_queued_bytes
            || own + bytes.len() > self.max_queued_bytes_of
        {
            return Err(SessionError::Busy);
        }
        let size = bytes.len() as u64;
        if !identity.is_empty() && !self.quota.try_add(identity, size, self.now()) {
            return Err(SessionError::Quota(self.quota.max_bytes()));
        }
        queue.bytes += bytes.len();
        queue
            .bytes_of
            .insert(Arc::clone(identity), own + bytes.len());
        let (reply, replied) = oneshot::channel();
        queue.lines.push(PendingLine {
            identity: Arc::clone(identity),
            key,
            event,
            time,
            bytes,
            reply,
        });
        if !std::mem::replace(&mut queue.has_writer, true) {
            drop(queue);
            let store = Arc::clone(self);
            match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(move || store.run_writer())),
                Err(_) => store.run_writer(),
            }
        }
        Ok(replied)
    }

    /// Writes until the queue is empty.
    fn run_writer(self: &Arc<Self>) {
        while self.write_queue() {}
    }

    /// Writes the lines in the queue, and returns whether more arrived meanwhile.
    fn write_queue(self: &Arc<Self>) -> bool {
        // Lock first, so that batches are written in the order in which they leave the queue.
        let _files = self.files.lock();
        let mut lines = std::mem::take(&mut self.queue.lock().lines);
        let bytes: usize = lines.iter().map(|line| line.bytes.len()).sum();
        let mut bytes_of: HashMap<Arc<str>, usize> = HashMap::new();
        for line in &lines {
            *bytes_of.entry(Arc::clone(&line.identity)).or_default() += line.bytes.len();
        }
        // A stable sort keeps the lines of one session in order.
        lines.sort_by(|one, other| one.key.cmp(&other.key));
        let mut lines = lines.into_iter().peekable();
        let mut written = Vec::new();
        while let Some(first) = lines.next() {
            let key = first.key.clone();
            let mut group = vec![first];
            group.extend(std::iter::from_fn(|| lines.next_if(|line| line.key == key)));
            written.extend(self.write_group(&key, group));
            if written.len() == MAX_BATCH {
                self.finish(std::mem::take(&mut written));
            }
        }
        self.finish(written);
        let mut queue = self.queue.lock();
        queue.bytes -= bytes;
        queue.bytes_of.retain(|identity, bytes| {
            *bytes -= bytes_of.get(identity).copied().unwrap_or(0);
            *bytes > 0
        });
        queue.has_writer = !queue.lines.is_empty();
        queue.has_writer
    }

    /// Writes the lines of one session. Replies with an error to the lines that it refuses.
    fn write_group(&self, key: &SessionKey, group: Vec<PendingLine>) -> Option<WrittenLines> {
        let path = self.path(key);
        let existing = self.meta(&path, &key.session);
        let mut accepted = Vec::with_capacity(group.len());
        for line in group {
            let admitted = existing.clone().and_then(|meta| {
                let exists = meta.exists || !accepted.is_empty();
                self.admit(key, &meta, exists, line.event)
            });
            match admitted {
                Ok(()) => accepted.push(line),
                Err(error) => drop(line.reply.send(Err(error))),
            }
        }
        let meta = existing.ok().filter(|_| !accepted.is_empty())?;
        match self.append(&path, meta, &accepted) {
            Ok((file, bytes, meta, old_bytes)) => {
                let commits = |line: &PendingLine| line.event == Some(Event::Committed);
                Some(WrittenLines {
                    file,
                    path,
                    bytes,
                    meta,
                    old_bytes,
                    durable: self.fsync == Fsync::Always || accepted.iter().any(commits),
                    lines: accepted,
                })
            }
            Err(error) => {
                self.log.log(Level::Error, &error.to_string());
                reply(accepted, &Err(error));
                None
            }
        }
    }

    /// Appends the lines of one session to its file. Returns the file, the bytes, its metadata and its previous length.
    fn append(
        &self,
        path: &Path,
        mut meta: SessionMeta,
        lines: &[PendingLine],
    ) -> Result<(File, Vec<u8>, SessionMeta, u64), SessionError> {
        let failed = |error| SessionError::io("write", path, error);
        if !meta.is_safe && self.sync_log.is_incomplete(path) {
            let error = "it lacks entries that the next start adds; restart the gateway";
            return Err(failed(io::Error::other(error)));
        }
        let mut file = self.open_append(path)?;
        let torn = meta.file_bytes - meta.line_bytes;
        if torn > 0 {
            cut(&file, meta.line_bytes).map_err(failed)?;
            let message = format!(
                "cut an unfinished line of {torn} bytes off `{}`; its writer stopped before it acknowledged the entry",
                path.display()
            );
            self.log.log(Level::Warn, &message);
        }
        let mut bytes = match meta.unended {
            true => b"\n".to_vec(),
            false => Vec::new(),
        };
        for line in lines {
            bytes.extend_from_slice(&line.bytes);
            // A wrong clock must not extend the time to live.
            meta.record(line.event, line.time.min(self.now()));
        }
        let old_bytes = meta.line_bytes;
        if !meta.is_safe && old_bytes > 0 && self.uses_log {
            // The log continues only what is on disk, but a process that was killed may have written the end of the file
            // and not logged it, or had no log.
            self.sync_session(&file, path).map_err(failed)?;
        }
        meta.is_safe = true;
        if let Err(error) = file.write_all(&bytes) {
            let _ = cut(&file, old_bytes);
            return Err(failed(error));
        }
        meta.unended = false;
        meta.line_bytes += bytes.len() as u64;
        meta.file_bytes = meta.line_bytes;
        Ok((file, bytes, meta, old_bytes))
    }

    /// Makes the lines as durable as they must be, and sends the replies.
    fn finish(self: &Arc<Self>, written: Vec<WrittenLines>) {
        if written.is_empty() {
            return;
        }
        let logged = match self.uses_log {
            true => self.log_lines(&written),
            false => Ok(()),
        };
        for one in written {
            let synced = match !self.uses_log && one.durable {
                true => self
                    .sync_session(&one.file, &one.path)
                    .map_err(|error| SessionError::io("sync", &one.path, error)),
                false => logged.clone(),
            };
            self.acknowledge(one, synced);
        }
    }

    fn log_lines(self: &Arc<Self>, written: &[WrittenLines]) -> Result<(), SessionError> {
        let durable = written.iter().any(|one| one.durable);
        let lines = written.iter().filter_map(|one| {
            Some(Written {
                key: &one.lines.first()?.key,
                path: &one.path,
                at: one.old_bytes,
                bytes: &one.bytes,
            })
        });
        let lines: Vec<_> = lines.collect();
        self.sync_log.append(&lines, durable)?;
        if !durable {
            self.schedule_sync();
        }
        if self.sync_log.is_full(1) {
            self.schedule_emptying();
        }
        Ok(())
    }

    fn acknowledge(&self, written: WrittenLines, synced: Result<(), SessionError>) {
        if let Err(error) = synced {
            // Remove refused lines. If this fails too, the next scan accepts the complete ones.
            let _ = cut(&written.file, written.old_bytes);
            self.log.log(Level::Error, &error.to_string());
            return reply(written.lines, &Err(error));
        }
        if let Some(line) = written.lines.first().filter(|_| written.old_bytes == 0) {
            self.add_to_count(&line.key.agent, 1);
            if !line.identity.is_empty() {
                self.quota.add(&line.identity, FILE_BYTES, self.now());
            }
        }
        self.keep_open(written.path.clone(), written.file);
        self.remember(written.path, written.meta);
        reply(written.lines, &Ok(()));
    }

    /// Syncs a file and its directories, which may be new: those of the sessions, of the workspace and of all workspaces.
    fn sync_session(&self, file: &File, path: &Path) -> io::Result<()> {
        #[cfg(test)]
        self.synced_files.lock().push(path.to_owned());
        file.sync_data()?;
        let mut dirs = path.ancestors().skip(1).take(3);
        dirs.try_for_each(files::sync_dir)
    }

    /// Schedules a sync of the log after the interval. Without a runtime, closing the sessions syncs the files.
    fn schedule_sync(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if self.sync_log.schedule_sync() {
            let store = Arc::clone(self);
            runtime.spawn(async move {
                tokio::time::sleep(store.fsync_interval).await;
                let sync = move || store.logged(store.sync_log.sync());
                let _ = tokio::task::spawn_blocking(sync).await;
            });
        }
    }

    /// Empties the log in another thread. Without a runtime, closing the sessions does so.
    pub(super) fn schedule_emptying(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !self.sync_log.schedule_emptying() {
            return;
        }
        // After this store is closed, the log may be that of another one.
        let weak = Arc::downgrade(self);
        runtime.spawn(async move {
            while let Some(store) = weak.upgrade() {
                let emptied = Arc::clone(&store);
                let empty = move || {
                    emptied.logged(emptied.sync_log.empty())?;
                    Ok::<_, SessionError>(emptied.sync_log.end_emptying())
                };
                match tokio::task::spawn_blocking(empty).await {
                    Ok(Ok(true)) => return,
                    Ok(Ok(false)) => {}
                    _ => {
                        drop(store);
                        tokio::time::sleep(SYNC_RETRY).await;
                    }
                }
            }
        });
    }

    /// Logs an error.
    fn logged(&self, result: Result<(), SessionError>) -> Result<(), SessionError> {
        result.inspect_err(|error| self.log.log(Level::Error, &error.to_string()))
    }

    /// Writes the queue, syncs the files and closes them.
    pub(super) fn flush(self: &Arc<Self>) -> Result<(), SessionError> {
        self.run_writer();
        self.close_files();
        self.logged(self.sync_log.empty())
    }
}

/// Shortens a file on disk too, where the log must not meet the bytes that follow.
fn cut(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    file.sync_data()
}

fn reply(lines: Vec<PendingLine>, reply: &Reply) {
    for line in lines {
        // The caller may have dropped the future.
        let _ = line.reply.send(reply.clone());
    }
}
