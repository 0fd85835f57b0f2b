//! The log of the lines that may be in no session file on disk yet.
//!
//! A sync of one log costs the same for one session as for a thousand. So the writer appends each line to the session's file
//! and to the log, and syncs only the log. A kill loses nothing of the session files. After a loss of power, the next start
//! completes them from the log. A full log becomes the old log: another thread syncs its session files, and removes it.

mod recovery;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{ACTIVE, SessionError, SessionKey, is_agent_name};
use base::files;
use base::log::{Level, Log};

/// The log and the old log, beside the workspaces. No workspace can have these names.
const CURRENT: &str = ".sync-log";
const OLD: &str = ".sync-log.old";

/// The records of session files that could not be synced or completed. The next start completes these files.
const FAILED: &str = ".sync-log.failed";
/// The records of session files that another program changed. They are for the operator.
const CHANGED: &str = ".sync-log.changed";
const DRAFT: &str = ".sync-log.new";

/// The size and the number of session files from which a log is full. They bound the time of a start after a crash.
const FULL_BYTES: u64 = 16 << 20;
const FULL_FILES: usize = if cfg!(test) { 64 } else { 4096 };

/// How many times the size of a full log the writer adds while the old log is still needed. Then it waits.
const MAX_FILL: usize = 2;

/// The number of threads that sync the files of an old log. Parallel syncs are faster on most disks.
const SYNC_THREADS: usize = 4;

/// The head of a record, one line of JSON. The session's lines follow it.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    agent: Cow<'a, str>,
    session: Cow<'a, str>,
    /// The offset of the lines in the session's file.
    at: u64,
    /// The length of the lines. 0 if the session's file, which is on disk, is about to be moved or removed.
    bytes: u64,
}

/// Lines that were appended to a session's file.
pub(super) struct Written<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) path: &'a Path,
    /// The offset of the lines in the file.
    pub(super) at: u64,
    pub(super) bytes: &'a [u8],
}

pub(super) struct SyncLog {
    /// The directory of all workspaces.
    root: PathBuf,
    log: Arc<dyn Log>,
    logs: Mutex<Logs>,
    /// Held during a sync of the log, so that slow ones do not overlap.
    syncing: Mutex<()>,
    /// Held while the files of an old log are synced.
    emptying: Mutex<()>,
}

#[derive(Default)]
struct Logs {
    current: Option<OpenLog>,
    old: Option<OpenLog>,
    /// Whether a sync of the log is scheduled.
    sync_scheduled: bool,
    emptying_scheduled: bool,
    /// Whether the log has more to lose than at the beginning of that emptying.
    empty_again: bool,
    /// The session files and directories that could not be synced or completed.
    failed: BTreeSet<PathBuf>,
}

#[derive(Clone)]
struct OpenLog {
    file: Arc<File>,
    bytes: u64,
    synced_bytes: u64,
    /// The session files with lines in the log, and the directories of new ones.
    paths: BTreeSet<PathBuf>,
}

impl OpenLog {
    fn is_full(&self, times: usize) -> bool {
        self.bytes >= FULL_BYTES * times as u64 || self.paths.len() >= FULL_FILES * times
    }
}

impl SyncLog {
    pub(super) fn new(root: PathBuf, log: Arc<dyn Log>) -> Self {
        Self {
            root,
            log,
            logs: Mutex::default(),
            syncing: Mutex::default(),
            emptying: Mutex::default(),
        }
    }

    fn failed(&self, action: &'static str, error: io::Error) -> SessionError {
        SessionError::io(action, &self.root.join(CURRENT), error)
    }

    /// Appends the lines, and syncs them if they are `durable`. On an error the log does not contain them.
    pub(super) fn append(
        &self,
        written: &[Written<'_>],
        durable: bool,
    ) -> Result<(), SessionError> {
        if self.is_full(MAX_FILL) {
            self.empty()?;
        }
        let mut records = Vec::new();
        for lines in written {
            record(&mut records, lines.key, lines.at, lines.bytes);
        }
        let mut logs = self.logs.lock();
        let log = self.open(&mut logs)?;
        let new_bytes = log.bytes + records.len() as u64;
        let mut appended = (&*log.file)
            .write_all(&records)
            .map_err(|error| self.failed("write", error));
        let (file, old_bytes) = (Arc::clone(&log.file), log.bytes);
        if appended.is_ok() {
            log.bytes = new_bytes;
            for lines in written {
                if lines.at == 0 || !log.paths.contains(lines.path) {
                    let dirs = if lines.at == 0 { 3 } else { 0 };
                    let paths = lines.path.ancestors().take(1 + dirs);
                    log.paths.extend(paths.map(Path::to_owned));
                }
            }
            if durable {
                appended = file.sync_data().map_err(|error| self.failed("sync", error));
                log.synced_bytes = new_bytes;
            }
        }
        if appended.is_err() {
            let _ = file.set_len(old_bytes);
            // After an error it is unknown what is on disk. The next lines begin another log, as after a full one.
            log.bytes = u64::MAX;
        }
        appended
    }

    /// Returns the current log. Creates it if necessary.
    fn open<'a>(&self, logs: &'a mut Logs) -> Result<&'a mut OpenLog, SessionError> {
        let log = match logs.current.take() {
            Some(log) => log,
            None => {
                let file = files::open_private_append(&self.root.join(CURRENT))
                    .map_err(|error| self.failed("create", error))?;
                let file = Arc::new(file);
                files::sync_dir(&self.root).map_err(|error| self.failed("create", error))?;
                OpenLog {
                    file,
                    bytes: 0,
                    synced_bytes: 0,
                    paths: BTreeSet::new(),
                }
            }
        };
        Ok(logs.current.insert(log))
    }

    /// Prepares a session's file for its removal: its lines must not come back. Returns whether the log has some of them.
    pub(super) fn release(&self, key: &SessionKey, path: &Path) -> Result<bool, SessionError> {
        let logs = self.logs.lock();
        let has_lines = |log: &Option<OpenLog>| {
            let log = log.as_ref();
            log.is_some_and(|log| log.paths.contains(path))
        };
        if !has_lines(&logs.current) && !has_lines(&logs.old) {
            return Ok(false);
        }
        drop(logs);
        let (at, bytes) = (0, &[][..]);
        let record = Written {
            key,
            path,
            at,
            bytes,
        };
        // A full disk must not prevent a deletion.
        self.append(&[record], true).or_else(|_| self.empty())?;
        Ok(true)
    }

    /// Returns whether the caller must call [`sync`](Self::sync) later.
    pub(super) fn schedule_sync(&self) -> bool {
        !std::mem::replace(&mut self.logs.lock().sync_scheduled, true)
    }

    /// Syncs the lines that the log has when the sync before has ended.
    pub(super) fn sync(&self) -> Result<(), SessionError> {
        let _syncing = self.syncing.lock();
        let mut logs = self.logs.lock();
        logs.sync_scheduled = false;
        let log = logs.current.as_ref();
        let Some(log) = log.filter(|log| log.bytes > log.synced_bytes) else {
            return Ok(());
        };
        let (file, bytes) = (Arc::clone(&log.file), log.bytes);
        drop(logs);
        if let Err(error) = file.sync_data() {
            // A later sync may succeed without these lines.
            self.empty()?;
            return Err(self.failed("sync", error));
        }
        let mut logs = self.logs.lock();
        let current = logs.current.as_mut();
        if let Some(current) = current.filter(|current| Arc::ptr_eq(&current.file, &file)) {
            current.synced_bytes = bytes;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn unsynced_bytes(&self) -> u64 {
        let logs = self.logs.lock();
        let both = [&logs.old, &logs.current].into_iter().flatten();
        both.map(|log| log.bytes - log.synced_bytes).sum()
    }

    /// Returns whether the caller must call [`empty`](Self::empty) until [`end_emptying`](Self::end_emptying) is true.
    pub(super) fn schedule_emptying(&self) -> bool {
        let mut logs = self.logs.lock();
        logs.empty_again = logs.emptying_scheduled;
        !std::mem::replace(&mut logs.emptying_scheduled, true)
    }

    /// Returns whether no other emptying was scheduled meanwhile.
    pub(super) fn end_emptying(&self) -> bool {
        let mut logs = self.logs.lock();
        logs.emptying_scheduled = std::mem::take(&mut logs.empty_again);
        !logs.emptying_scheduled
    }

    pub(super) fn is_full(&self, times: usize) -> bool {
        let logs = self.logs.lock();
        logs.current.as_ref().is_some_and(|log| log.is_full(times))
    }

    /// Syncs the session files of the log, and removes it. Lines that arrive meanwhile begin another log.
    pub(super) fn empty(&self) -> Result<(), SessionError> {
        let _emptying = self.emptying.lock();
        // After an error there is an old log already.
        self.empty_old()?;
        self.begin_another()?;
        self.empty_old()
    }

    /// Makes the log the old log. The lines of the next log continue its lines, so these are on disk before: in the log, or
    /// else in the session files.
    pub(super) fn begin_another(&self) -> Result<(), SessionError> {
        let mut logs = self.logs.lock();
        let Some(log) = &mut logs.current else {
            return Ok(());
        };
        if log.bytes > log.synced_bytes {
            let synced = log.file.sync_data();
            synced.or_else(|error| match sync_paths(&log.paths).is_empty() {
                true => Ok(()),
                false => Err(self.failed("sync", error)),
            })?;
            log.synced_bytes = log.bytes;
        }
        fs::rename(self.root.join(CURRENT), self.root.join(OLD))
            .map_err(|error| self.failed("rename", error))?;
        logs.old = logs.current.take();
        Ok(())
    }

    fn empty_old(&self) -> Result<(), SessionError> {
        let Some(log) = self.logs.lock().old.clone() else {
            return Ok(());
        };
        let failed = sync_paths(&log.paths);
        if !failed.is_empty() {
            self.report(&failed);
            let old = self.read(OLD)?.unwrap_or_default();
            let of_failed = |key: &SessionKey| has_failed(&failed, &key.path(&self.root, ACTIVE));
            self.keep(FAILED, &select(&old, of_failed))?;
        }
        self.remove(OLD)?;
        self.logs.lock().old = None;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), SessionError> {
        let path = self.root.join(name);
        let removed = files::remove_durably(&path);
        removed
            .map(drop)
            .map_err(|e| SessionError::io("remove", &path, e))
    }

    /// Returns the content of a log, or `None` if it does not exist.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, SessionError> {
        let path = self.root.join(name);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => bytes
                .map(Some)
                .map_err(|e| SessionError::io("read", &path, e)),
        }
    }

    /// Adds records to a log that the process does not have open.
    fn keep(&self, name: &str, records: &[u8]) -> Result<(), SessionError> {
        let kept = self.read(name)?.unwrap_or_default();
        self.replace(name, &[&kept, records].concat())
    }

    /// Replaces a log that the process does not have open. Removes an empty one.
    fn replace(&self, name: &str, records: &[u8]) -> Result<(), SessionError> {
        if records.is_empty() {
            return self.remove(name);
        }
        let (path, draft) = (self.root.join(name), self.root.join(DRAFT));
        let mut options = files::private_options();
        let opened = options.write(true).create(true).truncate(true).open(&draft);
        opened
            .and_then(|mut file| file.write_all(records))
            .and_then(|()| files::rename_durably(&draft, &path))
            .map_err(|error| {
                let _ = fs::remove_file(&draft);
                SessionError::io("write", &path, error)
            })
    }

    /// Returns whether a session's file lacks lines that the next start adds.
    pub(super) fn is_incomplete(&self, path: &Path) -> bool {
        let failed = &self.logs.lock().failed;
        path.ancestors().any(|path| failed.contains(path))
    }

    /// Returns whether the next start looks for lines of the session in its file.
    pub(super) fn is_kept(&self, key: &SessionKey) -> Result<bool, SessionError> {
        let failed = self.read(FAILED)?.unwrap_or_default();
        Ok(!select(&failed, |other| other == key).is_empty())
    }

    /// Removes the lines of a session that were kept after an error.
    pub(super) fn forget(&self, key: &SessionKey) -> Result<(), SessionError> {
        for name in [FAILED, CHANGED] {
            if let Some(kept) = self.read(name)? {
                self.replace(name, &select(&kept, |other| other != key))?;
            }
        }
        self.logs
            .lock()
            .failed
            .remove(&key.path(&self.root, ACTIVE));
        Ok(())
    }

    fn report(&self, failed: &Failed) {
        self.logs.lock().failed.extend(failed.keys().cloned());
        for (path, error) in failed {
            let message = format!(
                "cannot store `{}`: {error}; its last entries are in `{}`, from which the next start completes it; repair the file, and restart the gateway",
                path.display(),
                self.root.join(FAILED).display()
            );
            self.log.log(Level::Error, &message);
        }
    }
}

/// The session files and directories that could not be synced or completed.
type Failed = BTreeMap<PathBuf, io::Error>;

/// Returns whether a session's file or one of its directories failed.
fn has_failed(failed: &Failed, path: &Path) -> bool {
    path.ancestors().any(|path| failed.contains_key(path))
}

fn record(records: &mut Vec<u8>, key: &SessionKey, at: u64, bytes: &[u8]) {
    let head = Head {
        agent: key.agent.as_str().into(),
        session: key.session.as_str().into(),
        at,
        bytes: bytes.len() as u64,
    };
    // Serialization only fails for maps with non-string keys.
    records.extend(serde_json::to_vec(&head).unwrap_or_default());
    records.push(b'\n');
    records.extend(bytes);
}

/// Returns the records of the wanted sessions.
fn select(mut log: &[u8], wanted: impl Fn(&SessionKey) -> bool) -> Vec<u8> {
    let mut records = Vec::new();
    while let Some((key, _, _, rest)) = read_record(log) {
        if wanted(&key) {
            records.extend(&log[..log.len() - rest.len()]);
        }
        log = rest;
    }
    records
}

/// Returns the first record of a log, and what follows it. `None` if it is not complete: it was not synced, so it was not
/// promised.
fn read_record(log: &[u8]) -> Option<(SessionKey, u64, &[u8], &[u8])> {
    let end = log.iter().position(|byte| *byte == b'\n')?;
    let head: Head<'_> = serde_json::from_slice(&log[..end]).ok()?;
    let (bytes, rest) = log[end + 1..].split_at_checked(usize::try_from(head.bytes).ok()?)?;
    // JSON has no zeros: these bytes did not reach the disk.
    let is_whole = !bytes.contains(&0) && (bytes.is_empty() || bytes.ends_with(b"\n"));
    let key = SessionKey::new(&head.agent, &head.session)?;
    let is_valid = is_whole && is_agent_name(&head.agent);
    is_valid.then_some((key, head.at, bytes, rest))
}

/// Syncs session files and directories. Returns those that it cannot sync.
fn sync_paths(paths: &BTreeSet<PathBuf>) -> Failed {
    let paths: Vec<_> = paths.iter().collect();
    let failed = Mutex::new(Failed::new());
    let sync_all = &|paths: &[&PathBuf]| {
        for path in paths {
            if let Err(error) = sync_path(path) {
                failed.lock().insert(path.to_path_buf(), error);
            }
        }
    };
    std::thread::scope(|scope| {
        for chunk in paths.chunks(paths.len().div_ceil(SYNC_THREADS).max(1)) {
            let thread = std::thread::Builder::new();
            // A system without another thread syncs in this one.
            if thread.spawn_scoped(scope, move || sync_all(chunk)).is_err() {
                sync_all(chunk);
            }
        }
    });
    failed.into_inner()
}

pub(super) fn sync_path(path: &Path) -> io::Result<()> {
    let synced = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => files::sync_dir(path),
        // Opening a pipe would block.
        Ok(metadata) if !metadata.is_file() => Err(not_a_file()),
        Ok(_) => {
            let file = File::options().append(true).open(path);
            file.and_then(|file| file.sync_data())
        }
        Err(error) => Err(error),
    };
    match synced {
        // The session was deleted or archived since: its file was synced before.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => synced,
    }
}

/// Returns the error of a pipe, directory or device in place of a session's file.
pub(super) fn not_a_file() -> io::Error {
    io::Error::other("it is not a regular file")
}
