//! The write queue.
//!
//! One writer at a time takes all lines of the queue. Lines of one session that arrive together share one write. With
//! `fsync: always` they share one sync too, and several sessions are synced in parallel.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::encryption::{Form, max_encrypted_bytes};
use super::line::{Event, MAX_LINE_BYTES, NewLine};
use super::scan::SessionMeta;
use super::store::{FILE_BYTES, PendingLine, Reply, Store};
use super::{ACTIVE, SessionError, SessionKey};
use base::files::{self, Fsync, LockedFile};
use base::log::Level;

/// The maximum number of sessions in one batch.
const MAX_BATCH: usize = 64;

/// The number of threads that sync files. Parallel syncs are faster on most disks.
const SYNC_THREADS: usize = 8;

/// Lines of one session that are written but not synced.
struct UnsyncedLines {
    file: LockedFile,
    path: PathBuf,
    /// The metadata of the file including the lines.
    meta: SessionMeta,
    /// The length of the file before the lines.
    old_bytes: u64,
    is_new: bool,
    /// Whether the lines must be synced before the replies.
    durable: bool,
    synced: Result<(), Arc<io::Error>>,
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
        line: NewLine,
    ) -> Result<oneshot::Receiver<Reply>, SessionError> {
        let bytes = &line.bytes;
        let stored_bytes = match &self.keys {
            Some(_) => max_encrypted_bytes(&key.session, &line),
            None => bytes.len(),
        };
        if stored_bytes > MAX_LINE_BYTES {
            return Err(SessionError::TooLong);
        }
        let mut queue = self.queue.lock();
        let own = queue.bytes_of.get(identity).copied().unwrap_or(0);
        if queue.bytes + bytes.len() > self.max_queued_bytes
            || own + bytes.len() > self.max_queued_bytes_of
        {
            return Err(SessionError::Busy);
        }
        let file = match line.event {
            Some(Event::Created) => FILE_BYTES,
            _ => 0,
        };
        self.charge(identity, stored_bytes as u64 + file)?;
        queue.bytes += bytes.len();
        queue
            .bytes_of
            .insert(Arc::clone(identity), own + bytes.len());
        let (reply, replied) = oneshot::channel();
        queue.lines.push(PendingLine {
            identity: Arc::clone(identity),
            key,
            line,
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
        let bytes: usize = lines.iter().map(|line| line.line.bytes.len()).sum();
        let mut bytes_of: HashMap<Arc<str>, usize> = HashMap::new();
        for line in &lines {
            *bytes_of.entry(Arc::clone(&line.identity)).or_default() += line.line.bytes.len();
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
    fn write_group(&self, key: &SessionKey, group: Vec<PendingLine>) -> Option<UnsyncedLines> {
        let path = self.path(key);
        let existing = self.meta(key, ACTIVE);
        let mut accepted = Vec::with_capacity(group.len());
        for line in group {
            let admitted = existing.clone().and_then(|meta| {
                let exists = meta.exists || !accepted.is_empty();
                self.admit(key, &meta, exists, line.line.event)
            });
            match admitted {
                Ok(()) => accepted.push(line),
                Err(error) => drop(line.reply.send(Err(error))),
            }
        }
        let meta = existing.ok().filter(|_| !accepted.is_empty())?;
        match self.append(key, &path, meta, &accepted) {
            Ok((file, meta, old_bytes)) => {
                let commits = |line: &PendingLine| line.line.event == Some(Event::Committed);
                Some(UnsyncedLines {
                    file,
                    path,
                    meta,
                    old_bytes,
                    is_new: old_bytes == 0,
                    durable: self.fsync == Fsync::Always || accepted.iter().any(commits),
                    synced: Ok(()),
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

    /// Appends the lines of one session to its file. Returns the file, its metadata and its previous length.
    fn append(
        &self,
        key: &SessionKey,
        path: &Path,
        mut meta: SessionMeta,
        lines: &[PendingLine],
    ) -> Result<(LockedFile, SessionMeta, u64), SessionError> {
        let failed = |error| SessionError::io("write", path, error);
        let file = self.open_append(path)?;
        self.log_torn(path, &meta);
        if meta.file_bytes > meta.line_bytes {
            file.set_len(meta.line_bytes).map_err(failed)?;
        }
        meta.form = self.form(&meta);
        if self.keys.is_some()
            && meta.form == Form::Plain
            && !self.warned_of_plain.swap(true, Ordering::Relaxed)
        {
            let message = format!(
                "`{}` was begun without `sessions.encryption`, so its new lines are not encrypted either; other files may be the same. Stop the gateway and run `remote-agent gateway sessions rekey`",
                path.display()
            );
            self.log.log(Level::Warn, &message);
        }
        let mut codec = self.codec(key, meta.form, meta.lines);
        let mut bytes = match meta.unended {
            true => b"\n".to_vec(),
            false => Vec::new(),
        };
        for line in lines {
            let line = &line.line;
            bytes.extend_from_slice(&codec.encode(line).map_err(failed)?);
            // A wrong clock must not extend the time to live.
            meta.record(line.event, line.time.min(self.now()));
        }
        let old_bytes = meta.line_bytes;
        if let Err(error) = (&*file).write_all(&bytes) {
            let _ = file.set_len(old_bytes);
            return Err(failed(error));
        }
        meta.unended = false;
        meta.line_bytes += bytes.len() as u64;
        meta.file_bytes = meta.line_bytes;
        Ok((file, meta, old_bytes))
    }

    /// Logs the unfinished line of a file that is about to lose it.
    pub(super) fn log_torn(&self, path: &Path, meta: &SessionMeta) {
        let torn = meta.file_bytes - meta.line_bytes;
        if torn > 0 {
            let message = format!(
                "cut an unfinished line of {torn} bytes off `{}`; its writer stopped before it acknowledged the entry",
                path.display()
            );
            self.log.log(Level::Warn, &message);
        }
    }

    /// Syncs the lines that must be durable, and sends the replies.
    fn finish(self: &Arc<Self>, mut written: Vec<UnsyncedLines>) {
        let chunk = written.len().div_ceil(SYNC_THREADS).max(1);
        let parallel = self.fsync == Fsync::Always && written.len() > 1;
        std::thread::scope(|scope| {
            for chunk in written.chunks_mut(chunk) {
                let mut sync = move || {
                    for one in chunk.iter_mut().filter(|one| one.durable) {
                        one.synced = one.file.sync_data().map_err(Arc::new);
                    }
                };
                // Without `fsync: always`, only commits need a sync, and they are rare.
                match parallel {
                    true => drop(scope.spawn(sync)),
                    false => sync(),
                }
            }
        });
        let mut dirs = HashMap::new();
        for mut one in written {
            if one.durable && (one.is_new || self.fsync != Fsync::Always) {
                // The directories of the sessions, of the workspace and of all workspaces may be new.
                for dir in one.path.ancestors().skip(1).take(3) {
                    let sync = || files::sync_dir(dir).map_err(Arc::new);
                    let synced = dirs.entry(dir.to_owned()).or_insert_with(sync).clone();
                    one.synced = one.synced.and(synced);
                }
            }
            self.acknowledge(one);
        }
    }

    fn acknowledge(self: &Arc<Self>, written: UnsyncedLines) {
        let path = written.path;
        if let Err(error) = written.synced {
            // Remove refused lines. If this fails too, the next scan accepts the complete ones.
            let _ = written.file.set_len(written.old_bytes);
            let error = SessionError::Io("sync", path, error);
            self.log.log(Level::Error, &error.to_string());
            return reply(written.lines, &Err(error));
        }
        if let Some(line) = written.lines.first().filter(|_| written.is_new) {
            self.add_to_count(&line.key.agent, 1);
            if !line.identity.is_empty() && line.line.event != Some(Event::Created) {
                self.quota.add(&line.identity, FILE_BYTES, self.now());
            }
        }
        if written.durable {
            self.unsynced.lock().remove(&path);
        } else if self.fsync == Fsync::Interval {
            self.schedule_sync(&path);
        }
        self.keep_open(path.clone(), written.file);
        self.remember(path, written.meta);
        reply(written.lines, &Ok(()));
    }

    /// Schedules a sync of a file and its directories after the interval.
    fn schedule_sync(self: &Arc<Self>, path: &Path) {
        let mut unsynced = self.unsynced.lock();
        let scheduled = !unsynced.is_empty();
        unsynced.extend(path.ancestors().take(4).map(Path::to_owned));
        // Without a runtime, closing the sessions syncs them.
        let Some(runtime) = Handle::try_current().ok().filter(|_| !scheduled) else {
            return;
        };
        let store = Arc::clone(self);
        runtime.spawn(async move {
            tokio::time::sleep(store.fsync_interval).await;
            let _ = tokio::task::spawn_blocking(move || store.sync()).await;
        });
    }

    /// Syncs the unsynced files, and logs errors.
    fn sync(&self) -> Result<(), SessionError> {
        let mut result = Ok(());
        let _syncing = self.syncing.lock();
        // `take` releases the lock of the set before the syncs, so no message waits for them.
        let unsynced = std::mem::take(&mut *self.unsynced.lock());
        for path in unsynced {
            let synced = match path.is_dir() {
                true => files::sync_dir(&path),
                false => match files::private_options().append(true).open(&path) {
                    // The session was deleted or archived since; archiving syncs it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    file => file.and_then(|file| file.sync_data()),
                },
            };
            if let Err(error) = synced {
                let error = SessionError::io("sync", &path, error);
                self.log.log(Level::Error, &error.to_string());
                result = Err(error);
            }
        }
        result
    }

    /// Writes the queue, syncs the files and closes them.
    pub(super) fn flush(self: &Arc<Self>) -> Result<(), SessionError> {
        self.run_writer();
        self.close_files();
        self.sync()
    }
}

fn reply(lines: Vec<PendingLine>, reply: &Reply) {
    for line in lines {
        // The caller may have dropped the future.
        let _ = line.reply.send(reply.clone());
    }
}
