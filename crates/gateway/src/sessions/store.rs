//! The session files of one process: a write queue, and metadata of the sessions in use.
//!
//! One writer at a time takes everything that the queue holds. Lines of one session that arrive together share one write and
//! one sync.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lru::LruCache;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::entry::millis;
use super::line::{self, Event, Scanner};
use super::name::{ACTIVE, ARCHIVE, EXTENSION, SessionKey, check_agent};
use super::{AGENTS, SessionError, lock};
use crate::config::{Fsync, ServerConfig};
use common::environment::Environment;
use common::files;
use common::log::{Level, Log};

/// Sessions whose metadata stays in memory, at about 300 bytes each.
const CACHED_SESSIONS: NonZeroUsize = NonZeroUsize::new(32_768).unwrap();

type Reply = Result<(), SessionError>;

pub(super) struct Store {
    /// The directory of all workspaces.
    pub(super) root: PathBuf,
    pub(super) env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    fsync: Fsync,
    fsync_interval: Duration,
    /// Time after its last line at which a session expires.
    ttl: Option<Duration>,
    /// Whether an entry creates its session; otherwise an unknown session is 4001.
    create_on_append: bool,
    max_queued_bytes: usize,
    queue: Mutex<Queue>,
    /// Held while session files are written, renamed or removed.
    pub(super) files: Mutex<()>,
    /// Metadata by path. The length of the file tells whether it is current.
    cache: Mutex<LruCache<PathBuf, SessionMeta>>,
    /// How many sessions each workspace in use has.
    counts: Mutex<HashMap<String, usize>>,
    /// The paths that wait for the next sync of [`Fsync::Interval`].
    pub(super) unsynced: Mutex<BTreeSet<PathBuf>>,
}

#[derive(Default)]
struct Queue {
    lines: Vec<PendingLine>,
    bytes: usize,
    has_writer: bool,
}

struct PendingLine {
    key: SessionKey,
    /// `None` for an entry.
    event: Option<Event>,
    time: u64,
    bytes: Vec<u8>,
    reply: oneshot::Sender<Reply>,
}

/// Metadata of one session file. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionMeta {
    file_bytes: u64,
    /// Length of the complete lines.
    pub(super) line_bytes: u64,
    /// Whether the last line, though complete, lacks its line end.
    unended: bool,
    pub(super) exists: bool,
    pub(super) entries: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) committed: Option<u64>,
    /// The first damaged line, from 1.
    pub(super) damaged: Option<u64>,
}

impl SessionMeta {
    /// Scans a session file. `now` caps timestamps, so that a wrong clock cannot keep a session alive.
    fn scan(file: &File, session: &str, now: u64) -> io::Result<Self> {
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

    fn record(&mut self, event: Option<Event>, time: u64) {
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

impl Store {
    pub(super) fn new(config: &ServerConfig, env: Arc<dyn Environment>, log: Arc<dyn Log>) -> Self {
        Self {
            root: config.state_dir.join(AGENTS),
            env,
            log,
            fsync: config.fsync,
            fsync_interval: Duration::from_millis(config.fsync_interval_ms),
            ttl: config.session_ttl_ms.map(Duration::from_millis),
            create_on_append: !config.strict,
            max_queued_bytes: config.limits.total_queue_bytes,
            queue: Mutex::default(),
            files: Mutex::default(),
            cache: Mutex::new(LruCache::new(CACHED_SESSIONS)),
            counts: Mutex::default(),
            unsynced: Mutex::default(),
        }
    }

    /// Returns the time of day, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        millis(self.env.system_time())
    }

    /// Checks the name of an agent, also against the names of other workspaces: some file systems ignore case.
    pub(super) fn check_agent(&self, agent: &str) -> Result<(), SessionError> {
        self.count(agent).map(drop)
    }

    /// Returns how many sessions a workspace has, archived ones excluded.
    pub(super) fn count(&self, agent: &str) -> Result<usize, SessionError> {
        check_agent(agent)?;
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get(agent) {
            return Ok(*count);
        }
        let twin = |name: &str| name != agent && name.eq_ignore_ascii_case(agent);
        let mut has_twin = counts.keys().any(|name| twin(name));
        for_each_name(&self.root, |name| has_twin |= twin(name))?;
        if has_twin {
            return Err(SessionError::AgentName(agent.to_owned()));
        }
        let mut count = 0;
        self.for_each_session(agent, ACTIVE, |_| count += 1)?;
        counts.insert(agent.to_owned(), count);
        Ok(count)
    }

    /// Changes the count of a workspace by a session that was added or removed.
    pub(super) fn add_to_count(&self, agent: &str, change: isize) {
        if let Some(count) = lock(&self.counts).get_mut(agent) {
            *count = count.saturating_add_signed(change);
        }
    }

    /// Calls `visit` with the file stem of each session in a directory of a workspace.
    pub(super) fn for_each_session(
        &self,
        agent: &str,
        folder: &str,
        mut visit: impl FnMut(&str),
    ) -> Result<(), SessionError> {
        for_each_name(&self.root.join(agent).join(folder), |name| {
            let stem = name
                .strip_suffix(EXTENSION)
                .and_then(|stem| stem.strip_suffix('.'));
            if let Some(stem) = stem {
                visit(stem);
            }
        })
    }

    pub(super) fn path(&self, key: &SessionKey) -> PathBuf {
        key.path(&self.root, ACTIVE)
    }

    pub(super) fn archive_path(&self, key: &SessionKey) -> PathBuf {
        key.path(&self.root, ARCHIVE)
    }

    /// Queues a line. Inside a tokio runtime a blocking thread writes it, otherwise the caller.
    ///
    /// # Errors
    /// 3003 if the queue is full, 2005 if the line is too long.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        key: SessionKey,
        event: Option<Event>,
        time: u64,
        bytes: Vec<u8>,
    ) -> Result<oneshot::Receiver<Reply>, SessionError> {
        if bytes.len() > line::MAX_LINE_BYTES {
            return Err(SessionError::TooLong);
        }
        let mut queue = lock(&self.queue);
        if queue.bytes + bytes.len() > self.max_queued_bytes {
            return Err(SessionError::Busy);
        }
        queue.bytes += bytes.len();
        let (reply, replied) = oneshot::channel();
        queue.lines.push(PendingLine {
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
        // Taken first: batches are written in the order in which they leave the queue.
        let _files = lock(&self.files);
        let mut lines = std::mem::take(&mut lock(&self.queue).lines);
        let bytes: usize = lines.iter().map(|line| line.bytes.len()).sum();
        // Stable: the lines of one session stay in order.
        lines.sort_by(|one, other| one.key.cmp(&other.key));
        let mut lines = lines.into_iter().peekable();
        while let Some(first) = lines.next() {
            let key = first.key.clone();
            let mut group = vec![first];
            group.extend(std::iter::from_fn(|| lines.next_if(|line| line.key == key)));
            self.write_group(&key, group);
        }
        let mut queue = lock(&self.queue);
        queue.bytes -= bytes;
        queue.has_writer = !queue.lines.is_empty();
        queue.has_writer
    }

    /// Writes lines of one session, and replies to each.
    fn write_group(self: &Arc<Self>, key: &SessionKey, group: Vec<PendingLine>) {
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
        let Some(meta) = existing.ok().filter(|_| !accepted.is_empty()) else {
            return;
        };
        let written = self.append(&path, meta, &accepted);
        if let Err(error) = &written {
            self.log.log(Level::Error, &error.to_string());
        }
        for line in accepted {
            // A caller that dropped its future does not need the reply.
            let _ = line.reply.send(written.clone());
        }
    }

    /// Decides whether a session accepts a line.
    fn admit(
        &self,
        key: &SessionKey,
        meta: &SessionMeta,
        exists: bool,
        event: Option<Event>,
    ) -> Result<(), SessionError> {
        let creates = event == Some(Event::Created);
        if exists && !creates {
            return self.check_usable(key, meta);
        }
        if exists || (creates && self.archive_path(key).exists()) {
            return Err(SessionError::Exists(key.clone()));
        }
        match self.missing(key) {
            SessionError::NotFound(_) if creates || (event.is_none() && self.create_on_append) => {
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Returns why a workspace lacks a session.
    pub(super) fn missing(&self, key: &SessionKey) -> SessionError {
        match self.archive_path(key).exists() {
            true => SessionError::Archived(key.clone()),
            false => SessionError::NotFound(key.clone()),
        }
    }

    /// Checks that a session is neither damaged nor expired.
    pub(super) fn check_usable(
        &self,
        key: &SessionKey,
        meta: &SessionMeta,
    ) -> Result<(), SessionError> {
        if let Some(line) = meta.damaged {
            return Err(SessionError::Corrupt(key.clone(), self.path(key), line));
        }
        match self.is_expired(meta) {
            true => Err(SessionError::Expired(key.clone())),
            false => Ok(()),
        }
    }

    pub(super) fn is_expired(&self, meta: &SessionMeta) -> bool {
        self.ttl
            .is_some_and(|ttl| meta.exists && meta.idle(self.now()) > ttl)
    }

    /// Returns the metadata of a session file. Scans a file that changed or that the cache lacks.
    pub(super) fn meta(&self, path: &Path, session: &str) -> Result<SessionMeta, SessionError> {
        let failed = |error| SessionError::io("read", path, error);
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(SessionMeta::default());
            }
            file => file.map_err(failed)?,
        };
        let length = file.metadata().map_err(failed)?.len();
        let cached = lock(&self.cache).get(path).cloned();
        if let Some(meta) = cached.filter(|meta| meta.file_bytes == length) {
            return Ok(meta);
        }
        let meta = SessionMeta::scan(&file, session, self.now()).map_err(failed)?;
        if let Some(line) = meta.damaged {
            let message = format!(
                "line {line} of `{}` is damaged: cannot read the session `{}` (4004 SESSION_CORRUPT)",
                path.display(),
                session.escape_debug()
            );
            self.log.log(Level::Error, &message);
        }
        lock(&self.cache).put(path.to_owned(), meta.clone());
        Ok(meta)
    }

    /// Appends lines of one session to its file.
    fn append(
        self: &Arc<Self>,
        path: &Path,
        mut meta: SessionMeta,
        lines: &[PendingLine],
    ) -> Result<(), SessionError> {
        let failed = |error| SessionError::io("write", path, error);
        let folder = path.parent().unwrap_or(path);
        files::create_private_dir_durably(folder).map_err(failed)?;
        let file = files::open_private_append(path).map_err(failed)?;
        super::lock::try_lock(&file, path)?;
        let is_new = !meta.exists;
        let torn = meta.file_bytes - meta.line_bytes;
        if torn > 0 {
            file.set_len(meta.line_bytes).map_err(failed)?;
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
            // A wrong clock must not keep a session alive.
            meta.record(line.event, line.time.min(self.now()));
        }
        let commits = |line: &PendingLine| line.event == Some(Event::Committed);
        let durable = self.fsync == Fsync::Always || lines.iter().any(commits);
        let written = || {
            (&file).write_all(&bytes)?;
            if durable {
                file.sync_data()?;
            }
            if durable && (is_new || self.fsync != Fsync::Always) {
                files::sync_dir(folder)?;
            }
            Ok(())
        };
        if let Err(error) = written() {
            // Refused lines must not stay. If this fails too, the next scan counts those that are complete.
            let _ = file.set_len(meta.line_bytes);
            return Err(failed(error));
        }
        meta.unended = false;
        meta.line_bytes += bytes.len() as u64;
        meta.file_bytes = meta.line_bytes;
        lock(&self.cache).put(path.to_owned(), meta);
        if is_new {
            let agent = lines.first().map(|line| line.key.agent.as_str());
            self.add_to_count(agent.unwrap_or_default(), 1);
        }
        if durable {
            lock(&self.unsynced).remove(path);
        } else if self.fsync == Fsync::Interval {
            self.schedule_sync([path, folder]);
        }
        Ok(())
    }

    /// Syncs paths after the interval.
    fn schedule_sync(self: &Arc<Self>, paths: [&Path; 2]) {
        let mut unsynced = lock(&self.unsynced);
        let scheduled = !unsynced.is_empty();
        unsynced.extend(paths.map(Path::to_owned));
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

    /// Syncs what waits for it, and logs errors.
    fn sync(&self) -> Result<(), SessionError> {
        let mut result = Ok(());
        for path in std::mem::take(&mut *lock(&self.unsynced)) {
            let synced = match path.is_dir() {
                true => files::sync_dir(&path),
                false => match files::private_options().append(true).open(&path) {
                    // Deleted or archived since; archiving syncs.
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

    /// Drops the metadata of a file that was renamed or removed.
    pub(super) fn forget(&self, path: &Path) {
        lock(&self.cache).pop(path);
    }

    /// Writes the queue and syncs.
    pub(super) fn flush(self: &Arc<Self>) -> Result<(), SessionError> {
        self.run_writer();
        self.sync()
    }
}

/// Calls `visit` with the name of each entry of a directory.
pub(super) fn for_each_name(
    folder: &Path,
    mut visit: impl FnMut(&str),
) -> Result<(), SessionError> {
    let failed = |error| SessionError::io("read", folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if let Some(name) = name.to_str() {
            visit(name);
        }
    }
    Ok(())
}
