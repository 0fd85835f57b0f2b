//! The session files of one process, metadata of the sessions in use, the lines to write, and what each identity may add.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fs, io};

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::config::ServerConfig;
use crate::shares::share;
use base::config::ConfigError;
use base::environment::Environment;
use base::files::{self, FileVersion, Fsync, LockedFile};
use base::log::{Level, Log};

use super::encryption::{EncryptionKeys, Form, LineCodec};
use super::line::{Event, NewLine};
use super::scan::SessionMeta;
use super::{ACTIVE, AGENTS, ARCHIVE, EXTENSION, SessionError, SessionKey, is_agent_name};

/// The maximum number of sessions whose metadata stays in memory, at about 300 bytes each.
const CACHED_SESSIONS: NonZeroUsize = NonZeroUsize::new(32_768).unwrap();

/// The maximum number of session files that stay open between appends. Connections need file descriptors too.
const MAX_OPEN_FILES: NonZeroUsize = NonZeroUsize::new(64).unwrap();

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// The size that a new file counts beside its content, because a file system allocates whole blocks.
pub(super) const FILE_BYTES: u64 = 4096;

/// The workspaces by the lowercase form of their names, because some file systems are case-insensitive.
type Workspaces = HashMap<String, Workspace>;

struct Workspace {
    /// Empty if the names of two directories differ only in case.
    name: String,
    /// The number of sessions. `None` until the first use of the workspace.
    sessions: Option<usize>,
}

pub(super) struct Store {
    /// The directory of all workspaces.
    pub(super) root: PathBuf,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
    pub(super) fsync: Fsync,
    pub(super) fsync_interval: Duration,
    /// The time to live of a session after its last line.
    ttl: Option<Duration>,
    /// Whether the first entry creates its session. Otherwise an unknown session is an error (4001).
    create_on_append: bool,
    pub(super) max_queued_bytes: usize,
    /// The share of one identity in `max_queued_bytes`.
    pub(super) max_queued_bytes_of: usize,
    pub(super) quota: Quota,
    pub(super) queue: Mutex<Queue>,
    /// Held while session files are written, renamed or removed.
    pub(super) files: Mutex<()>,
    /// Metadata by path. An entry is current if its length equals that of the file, or of a damaged one also the version.
    cache: Mutex<LruCache<PathBuf, SessionMeta>>,
    /// Files that stay open and locked between appends.
    open_files: Mutex<LruCache<PathBuf, LockedFile>>,
    /// `None` until the first use reads the root: the lock of the state directory keeps other processes from creating
    /// workspaces.
    workspaces: Mutex<Option<Workspaces>>,
    /// The paths that wait for the next sync of [`Fsync::Interval`].
    pub(super) unsynced: Mutex<BTreeSet<PathBuf>>,
    /// Held during the syncs, which may take longer than the interval: one thread syncs, at most one waits.
    pub(super) syncing: Mutex<()>,
    /// The keys of encrypted sessions; `None` without encryption.
    pub(super) keys: Option<Arc<EncryptionKeys>>,
    /// Whether sessions that are not encrypted are refused.
    refuse_plain: bool,
    /// Whether the log has a warning of a plain session, to which the gateway appends plain lines.
    pub(super) warned_of_plain: AtomicBool,
}

impl Store {
    /// # Errors
    /// A key cannot be used.
    pub(super) fn new(
        config: &ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, ConfigError> {
        let encryption = config.sessions.encryption.as_ref();
        let keys = encryption.map(|one| EncryptionKeys::load(one, |name| std::env::var(name).ok()));
        Ok(Self {
            root: config.state_dir.join(AGENTS),
            env,
            log,
            fsync: config.fsync,
            fsync_interval: Duration::from_millis(config.fsync_interval_ms),
            ttl: config.session_ttl_ms.map(Duration::from_millis),
            create_on_append: !config.strict,
            max_queued_bytes: config.limits.total_queue_bytes,
            max_queued_bytes_of: share(config.auth.is_some(), config.limits.total_queue_bytes),
            quota: Quota::new(config.limits.daily_session_bytes_per_client),
            queue: Mutex::default(),
            files: Mutex::default(),
            cache: Mutex::new(LruCache::new(CACHED_SESSIONS)),
            open_files: Mutex::new(LruCache::new(MAX_OPEN_FILES)),
            workspaces: Mutex::default(),
            unsynced: Mutex::default(),
            syncing: Mutex::default(),
            keys: keys.transpose()?.map(Arc::new),
            refuse_plain: encryption.is_some_and(|one| one.refuse_plain),
            warned_of_plain: AtomicBool::new(false),
        })
    }

    /// Returns the time of day, in milliseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.env.unix_millis()
    }

    /// Counts bytes that a client's identity adds. Does not count those of the gateway's operator, whose identity is empty.
    ///
    /// # Errors
    /// 3003 if the identity has added too much.
    pub(super) fn charge(&self, identity: &Arc<str>, bytes: u64) -> Result<(), SessionError> {
        match identity.is_empty() || self.quota.try_add(identity, bytes, self.now()) {
            true => Ok(()),
            false => Err(SessionError::Quota(self.quota.max_bytes())),
        }
    }

    /// Validates an agent's name. Also compares it with the names of other workspaces.
    pub(super) fn check_agent(&self, agent: &str) -> Result<(), SessionError> {
        self.count(agent).map(drop)
    }

    /// Returns the number of sessions of a workspace, without archived ones.
    pub(super) fn count(&self, agent: &str) -> Result<usize, SessionError> {
        if !is_agent_name(agent) {
            return Err(SessionError::AgentName(agent.to_owned()));
        }
        let mut workspaces = self.workspaces.lock();
        let workspaces = match &mut *workspaces {
            Some(workspaces) => workspaces,
            unread => unread.insert(self.read_workspaces()?),
        };
        let lowercase = agent.to_ascii_lowercase();
        let is_other = |known: &Workspace| known.name != agent;
        if workspaces.get(&lowercase).is_some_and(is_other) {
            // An operator may have renamed a workspace.
            let used = std::mem::replace(workspaces, self.read_workspaces()?);
            for (lowercase, used) in used {
                let is_renamed =
                    |known: &Workspace| !known.name.is_empty() && known.name != used.name;
                if used.sessions.is_some() && !workspaces.get(&lowercase).is_some_and(is_renamed) {
                    workspaces.insert(lowercase, used);
                }
            }
        }
        let known = workspaces.get(&lowercase);
        if known.is_some_and(is_other) {
            return Err(SessionError::AgentName(agent.to_owned()));
        }
        if let Some(sessions) = known.and_then(|known| known.sessions) {
            return Ok(sessions);
        }
        let mut sessions = 0;
        self.for_each_session(agent, ACTIVE, |_| sessions += 1)?;
        let workspace = Workspace {
            name: agent.to_owned(),
            sessions: Some(sessions),
        };
        workspaces.insert(lowercase, workspace);
        Ok(sessions)
    }

    /// Reads the names of the workspaces.
    fn read_workspaces(&self) -> Result<Workspaces, SessionError> {
        let mut workspaces = Workspaces::new();
        for_each_name(&self.root, |name| {
            workspaces
                .entry(name.to_ascii_lowercase())
                .and_modify(|known| known.name.clear())
                .or_insert_with(|| Workspace {
                    name: name.to_owned(),
                    sessions: None,
                });
        })?;
        Ok(workspaces)
    }

    /// Adds `change` to the session count of a workspace.
    pub(super) fn add_to_count(&self, agent: &str, change: isize) {
        let mut workspaces = self.workspaces.lock();
        let known = workspaces
            .as_mut()
            .and_then(|workspaces| workspaces.get_mut(&agent.to_ascii_lowercase()));
        if let Some(known) = known.filter(|known| known.name == agent)
            && let Some(sessions) = &mut known.sessions
        {
            *sessions = sessions.saturating_add_signed(change);
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

    /// Checks whether a session accepts a line.
    pub(super) fn admit(
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

    /// Returns the error of a session that is not in its workspace: unknown or archived.
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
        self.check_form(key, meta)?;
        match self.is_expired(meta) {
            true => Err(SessionError::Expired(key.clone())),
            false => Ok(()),
        }
    }

    /// Checks that the keys of a session are known, and that it is encrypted if it must be.
    pub(super) fn check_form(
        &self,
        key: &SessionKey,
        meta: &SessionMeta,
    ) -> Result<(), SessionError> {
        match meta.missing_key {
            Some(id) => Err(SessionError::MissingKey(key.clone(), id)),
            None if self.refuse_plain && meta.exists && meta.form == Form::Plain => {
                Err(SessionError::Plain(key.clone()))
            }
            None => Ok(()),
        }
    }

    /// Returns the form of new lines of a session.
    pub(super) fn form(&self, meta: &SessionMeta) -> Form {
        match &self.keys {
            _ if meta.exists => meta.form,
            Some(_) => Form::Encrypted,
            None => Form::Plain,
        }
    }

    /// Returns a codec for the lines of a session after the first `lines`.
    pub(super) fn codec(&self, key: &SessionKey, form: Form, lines: u64) -> LineCodec {
        LineCodec::new(self.keys.clone(), key.clone(), form, lines)
    }

    pub(super) fn is_expired(&self, meta: &SessionMeta) -> bool {
        self.ttl
            .is_some_and(|ttl| meta.exists && meta.idle(self.now()) > ttl)
    }

    /// Returns the metadata of the file of a session in the directory `folder` of its workspace. Scans the file if its length
    /// changed or it is not cached.
    ///
    /// A file that another program changed meanwhile is damaged if it lost lines or does not decrypt. The gateway writes
    /// nothing more to it until it is restored.
    pub(super) fn meta(&self, key: &SessionKey, folder: &str) -> Result<SessionMeta, SessionError> {
        let path = &key.path(&self.root, folder);
        let failed = |error| SessionError::io("read", path, error);
        let found = match fs::metadata(path) {
            Err(error) if is_missing(&error) => return Ok(SessionMeta::default()),
            found => found.map_err(failed)?,
        };
        let version = Some(FileVersion::of(&found));
        let known = self.cache.lock().get(path).cloned();
        // A damaged file may be restored to the same length.
        let is_current = |meta: &&SessionMeta| {
            meta.file_bytes == found.len() && (meta.damaged.is_none() || meta.version == version)
        };
        if let Some(meta) = known.as_ref().filter(is_current) {
            return Ok(meta.clone());
        }
        let file = match files::open_regular(path) {
            Err(error) if is_missing(&error) => return Ok(SessionMeta::default()),
            file => file.map_err(failed)?,
        };
        let is_encrypted = known
            .as_ref()
            .is_some_and(|known| known.form == Form::Encrypted);
        let codec = is_encrypted.then(|| self.codec(key, Form::Encrypted, 0));
        let keys = self.keys.as_deref();
        let meta = SessionMeta::scan(&file, &key.session, self.now(), keys, codec);
        let mut meta = meta.map_err(failed)?;
        let healthy_bytes = known.map_or(0, |known| known.healthy_bytes());
        if meta.line_bytes < healthy_bytes {
            meta.set_damaged(meta.lines + 1);
        }
        if let Some(line) = meta.damaged {
            meta.version = version;
            meta.healthy_bytes = healthy_bytes;
            self.log_damaged(path, key, line);
        } else if let Some(id) = meta.missing_key {
            let message = format!(
                "cannot read `{}`: it is encrypted with the key `{id}`, which is not in `sessions.encryption.keys`",
                path.display()
            );
            self.log.log(Level::Error, &message);
        }
        self.cache.lock().put(path.to_owned(), meta.clone());
        Ok(meta)
    }

    /// Remembers a damaged line that a reader found: a session that cannot be read takes no further entry. Ignores a finding in
    /// another `version` than that of the current file, which is checked when it is read.
    pub(super) fn set_damaged(
        &self,
        path: &Path,
        key: &SessionKey,
        version: Option<FileVersion>,
        line: u64,
    ) {
        let mut cache = self.cache.lock();
        let known = cache.get_mut(path).filter(|meta| meta.damaged.is_none());
        let Some(meta) = known.filter(|_| FileVersion::at(path) == version) else {
            return;
        };
        meta.healthy_bytes = meta.line_bytes;
        meta.set_damaged(line);
        meta.version = version;
        drop(cache);
        self.log_damaged(path, key, line);
    }

    fn log_damaged(&self, path: &Path, key: &SessionKey, line: u64) {
        let message = format!(
            "line {line} of `{}` is damaged or missing: cannot read the session `{}` (4004 SESSION_CORRUPT)",
            path.display(),
            key.session.escape_debug()
        );
        self.log.log(Level::Error, &message);
    }

    /// Caches the metadata of a file after a write.
    pub(super) fn remember(&self, path: PathBuf, meta: SessionMeta) {
        self.cache.lock().put(path, meta);
    }

    /// Removes the metadata of a renamed or removed file, and closes the file.
    pub(super) fn forget(&self, path: &Path) {
        self.cache.lock().pop(path);
        self.open_files.lock().pop(path);
    }

    /// Returns the file of a session for appends, locked against other processes.
    ///
    /// # Errors
    /// The file cannot be opened, or another process holds the lock.
    pub(super) fn open_append(&self, path: &Path) -> Result<LockedFile, SessionError> {
        let open = self.open_files.lock().pop(path);
        if let Some(file) = open.filter(|file| is_at(file, path)) {
            return Ok(file);
        }
        let failed = |error| SessionError::io("write", path, error);
        let mut file = files::open_private_append(path);
        if file.as_ref().is_err_and(is_missing) {
            files::create_private_dir(path.parent().unwrap_or(path)).map_err(failed)?;
            file = files::open_private_append(path);
        }
        let file = file.map_err(failed)?;
        super::try_lock(&file, path)?;
        Ok(LockedFile(file))
    }

    /// Closes the files, which releases their locks.
    pub(super) fn close_files(&self) {
        self.open_files.lock().clear();
    }

    /// Keeps a file open for the next append.
    pub(super) fn keep_open(&self, path: PathBuf, file: LockedFile) {
        self.open_files.lock().put(path, file);
    }
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns whether an open file is still the one at `path`. An operator may have replaced or removed it.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let open = file.metadata().map(identity);
    open.is_ok_and(|open| fs::metadata(path).map(identity).is_ok_and(|at| at == open))
}

/// Returns `false`, so that the file is opened again for each append.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    false
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

pub(super) type Reply = Result<(), SessionError>;

#[derive(Default)]
pub(super) struct Queue {
    pub(super) lines: Vec<PendingLine>,
    pub(super) bytes: usize,
    /// The bytes of each identity.
    pub(super) bytes_of: HashMap<Arc<str>, usize>,
    pub(super) has_writer: bool,
}

pub(super) struct PendingLine {
    /// The identity of the client; empty for the gateway's own lines.
    pub(super) identity: Arc<str>,
    pub(super) key: SessionKey,
    pub(super) line: NewLine,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The bytes that each identity has added within about a day. They are forgotten at a constant rate.
#[derive(Debug)]
pub(super) struct Quota {
    max_bytes: u64,
    identities: Mutex<HashMap<Arc<str>, Added>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Added {
    bytes: u64,
    /// The time at which `bytes` was right, in milliseconds since 1970.
    at: u64,
}

impl Added {
    /// Forgets bytes up to `now`.
    fn forget(&mut self, max_bytes: u64, now: u64) {
        let elapsed = now.saturating_sub(self.at).min(DAY_MILLIS);
        let forgotten = u128::from(max_bytes) * u128::from(elapsed) / u128::from(DAY_MILLIS);
        self.bytes = self
            .bytes
            .saturating_sub(u64::try_from(forgotten).unwrap_or(u64::MAX));
        self.at = now;
    }
}

impl Quota {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            identities: Mutex::default(),
        }
    }

    /// Returns the maximum number of bytes that an identity adds within a day.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Counts bytes before an identity adds them. Returns `false` if they do not fit.
    pub(super) fn try_add(&self, identity: &Arc<str>, bytes: u64, now: u64) -> bool {
        self.change(identity, now, |added, max_bytes| {
            let fits = added.bytes.saturating_add(bytes) <= max_bytes;
            if fits {
                added.bytes += bytes;
            }
            fits
        })
    }

    /// Counts bytes that an identity has added.
    pub(super) fn add(&self, identity: &Arc<str>, bytes: u64, now: u64) {
        self.change(identity, now, |added, _| {
            added.bytes = added.bytes.saturating_add(bytes)
        });
    }

    fn change<T>(
        &self,
        identity: &Arc<str>,
        now: u64,
        change: impl FnOnce(&mut Added, u64) -> T,
    ) -> T {
        let mut identities = self.identities.lock();
        if !identities.contains_key(identity) {
            identities.retain(|_, added| {
                added.forget(self.max_bytes, now);
                added.bytes > 0
            });
        }
        let added = identities
            .entry(Arc::clone(identity))
            .or_insert(Added { bytes: 0, at: now });
        added.forget(self.max_bytes, now);
        change(added, self.max_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_day_are_bounded_by_identity() {
        let quota = Quota::new(1000);
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        assert!(quota.try_add(&ada, 1000, 0));
        assert!(!quota.try_add(&ada, 1, 0));
        assert!(quota.try_add(&bob, 1000, 0));
        assert!(!quota.try_add(&ada, 501, DAY_MILLIS / 2));
        assert!(quota.try_add(&ada, 500, DAY_MILLIS / 2));
        quota.add(&ada, 5000, DAY_MILLIS / 2);
        assert!(!quota.try_add(&ada, 1, 2 * DAY_MILLIS));
    }

    #[test]
    fn identities_that_added_nothing_lately_are_forgotten() {
        let quota = Quota::new(1000);
        for name in 0..100 {
            quota.add(&name.to_string().into(), 10, 0);
        }
        quota.add(&"last".into(), 10, 2 * DAY_MILLIS);
        assert_eq!(quota.identities.lock().len(), 1);
    }
}
