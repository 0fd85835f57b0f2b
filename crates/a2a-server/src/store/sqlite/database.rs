//! The database and its directory: connections, the conversion of errors, and the lock that reserves the directory for one
//! server.

use std::fs::{File, TryLockError};
use std::io;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::files::{self, Fsync, LockedFile};
use chrono::{DateTime, Utc};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::store::StoreError;

/// The name of the database file in the directory of a store.
const FILE_NAME: &str = "tasks.db";

/// The `PRAGMA application_id` that identifies the file as a task store.
const APPLICATION_ID: i32 = 0x6f63_7461;

/// The version of the schema (`PRAGMA user_version`).
pub(super) const SCHEMA_VERSION: i32 = 3;

/// Adds what version 2 has and version 1 has not. Rewrites no row.
const UPGRADE: &str =
    "ALTER TABLE tasks ADD COLUMN sum INTEGER; ALTER TABLE tasks ADD COLUMN body BLOB;";

/// Adds what version 3 has and version 2 has not: the totals of each client. Counts the tasks, once: half a second for a million.
const TOTALS: &str = include_str!("totals.sql");

/// Whether the file has the index of earlier versions by the contexts of tasks, and what replaces it. Earlier versions can use
/// the new one.
const HAS_OLD_INDEX: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tasks_by_context')";
const NEW_INDEX: &str = "BEGIN IMMEDIATE; DROP INDEX tasks_by_context;
     CREATE INDEX tasks_of_context ON tasks (context, owner, changed_ms, id); COMMIT;";

/// How long a connection waits for the lock of another process, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of pages in the write-ahead log from which a commit triggers a checkpoint: 32 MiB.
const CHECKPOINT_PAGES: i32 = 8192;

/// The size to which SQLite truncates the write-ahead log after a checkpoint, in bytes.
const MAX_IDLE_WAL_BYTES: i64 = 64 << 20;

/// An error inside of a write or a read: the store rejects the operation, or SQLite failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) enum SqlError {
    Rejected(#[from] StoreError),
    Sql(#[from] rusqlite::Error),
}

impl SqlError {
    /// Converts the error for the database at `path`.
    pub(super) fn into_store(self, verb: &str, path: &Path) -> StoreError {
        match self {
            Self::Rejected(error) => error,
            Self::Sql(error) => failed(verb, path, &error),
        }
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::Failed("the task store is closed".to_owned())
}

/// Returns the error of a thread that does not start.
pub(super) fn no_thread(error: &io::Error) -> StoreError {
    StoreError::Failed(format!("cannot start the store's thread: {error}"))
}

/// Options to open a store in a directory.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory, which the store creates if it is missing.
    pub directory: PathBuf,
    /// When the store writes changes to the disk.
    pub fsync: Fsync,
}

impl Options {
    /// Creates options for `directory` with the defaults for the rest.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            fsync: Fsync::Interval,
        }
    }
}

/// Returns the path of the database in `directory`.
pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(FILE_NAME)
}

/// Returns an error with the operation that failed, the cause, and what to do.
pub(super) fn failed(verb: &str, path: &Path, error: &rusqlite::Error) -> StoreError {
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "; free some space and try again",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "; the file is damaged: stop the server, `remote-agent serve tasks check` says where it is damaged and \
             `remote-agent serve tasks export` prints what can be read; then restore a copy, or move the directory away"
        }
        Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            "; give the server's user access to it"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another program holds a lock on it: end that program"
        }
        _ => "",
    };
    StoreError::Failed(format!("cannot {verb} `{}`: {error}{hint}", path.display()))
}

/// Returns an error with the file operation that failed, the cause, and what to do.
pub(super) fn file_error(verb: &str, path: &Path, error: &io::Error) -> StoreError {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and try again"
        }
        io::ErrorKind::PermissionDenied => "; give the server's user access to it",
        _ => "",
    };
    StoreError::Failed(format!("cannot {verb} `{}`: {error}{hint}", path.display()))
}

/// Creates a directory and its parents, which only their owner can read. Existing directories keep their mode.
pub(super) fn create_directory(directory: &Path) -> Result<(), StoreError> {
    files::create_private_dir(directory).map_err(|error| file_error("create", directory, &error))
}

/// Opens a file for writing. Creates it if it is missing, so that only its owner can read it.
fn open_private(path: &Path) -> Result<File, StoreError> {
    let mut options = files::private_options();
    options.read(true).write(true).create(true).truncate(false);
    let opened = options.open(path);
    opened.map_err(|error| file_error("open", path, &error))
}

/// Opens the writing connection and creates the tables if they are missing.
pub(super) fn open_writer(path: &Path, fsync: Fsync) -> Result<Connection, StoreError> {
    // Create the file first, because SQLite gives its other files the same mode.
    drop(open_private(path)?);
    let opened = (|| {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        prepare(&connection, path)?;
        if connection.query_row(HAS_OLD_INDEX, [], |row| row.get(0))? {
            connection.execute_batch(NEW_INDEX)?;
        }
        let mode: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        if mode != "wal" {
            return Err(SqlError::Rejected(StoreError::Failed(format!(
                "cannot open `{}`: its file system has no shared memory, which SQLite's write-ahead log needs; \
                 keep the tasks on a local disk",
                path.display()
            ))));
        }
        let synchronous = match fsync {
            Fsync::Always => "FULL",
            Fsync::Interval => "NORMAL",
            Fsync::Never => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", MAX_IDLE_WAL_BYTES)?;
        connection.pragma_update(None, "secure_delete", "FAST")?;
        Ok(connection)
    })();
    opened.map_err(|error: SqlError| error.into_store("open", path))
}

/// Opens a reading connection.
pub(super) fn open_reader(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Creates the tables of a new file, and upgrades a file of version 1 or 2. Checks that an existing file is a task store of this
/// version.
fn prepare(connection: &Connection, path: &Path) -> Result<(), SqlError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (number("application_id")?, number("user_version")?, tables) {
        (0, 0, 0) => {
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            let schema = include_str!("schema.sql");
            connection.execute_batch(&format!(
                "BEGIN IMMEDIATE; {schema} {TOTALS} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            ))?;
            Ok(())
        }
        (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(()),
        (APPLICATION_ID, earlier @ (1 | 2), _) => {
            let record_in_row = if earlier == 1 { UPGRADE } else { "" };
            Ok(connection.execute_batch(&format!(
                "BEGIN IMMEDIATE; {record_in_row} {TOTALS} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            ))?)
        }
        (APPLICATION_ID, format, _) => Err(SqlError::Rejected(StoreError::Failed(format!(
            "cannot open `{}`: it was written by another version (format {format}, this is {SCHEMA_VERSION}); use that version, or \
             give this server a directory of its own",
            path.display()
        )))),
        _ => Err(SqlError::Rejected(StoreError::Failed(format!(
            "cannot open `{}`: it is an SQLite database of another program; give this server a directory of its own",
            path.display()
        )))),
    }
}

const LOCK_FILE_NAME: &str = "lock";

/// The process that has locked a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of the process.
    pub process: u32,
    /// When the process acquired the lock.
    pub since: DateTime<Utc>,
    /// The URL of the server, once it listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An exclusive lock on a directory. The operating system releases it when the process ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    file: LockedFile,
    holder: Holder,
}

impl DirectoryLock {
    pub(super) fn acquire(directory: &Path, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let path = directory.join(LOCK_FILE_NAME);
        let file = open_private(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(in_use(directory, read_holder(file).as_ref()));
            }
            // Some network file systems have no locks. Two servers would then overwrite each other's tasks.
            Err(TryLockError::Error(error)) => return Err(file_error("lock", &path, &error)),
        }
        let holder = Holder {
            process: std::process::id(),
            since: now,
            url: None,
        };
        let mut lock = Self {
            file: LockedFile(file),
            holder,
        };
        lock.publish_address();
        Ok(lock)
    }

    /// Writes the URL of this server to the lock file.
    pub(super) fn announce(&mut self, url: String) {
        self.holder.url = Some(url);
        self.publish_address();
    }

    /// Writes the holder to the lock file. Failures are only logged, because the lock is valid without the content.
    fn publish_address(&mut self) {
        if let Err(error) = self.write() {
            tracing::warn!(%error, "cannot record the holder of the task store in its lock file");
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.holder)?;
        let mut file = &*self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&text)
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // An empty file shows that the directory is free. The operating system releases the lock when the file is
        // closed.
        let _ = self.file.set_len(0);
    }
}

/// Returns the process that has locked the directory; `None` if the directory is free.
///
/// # Errors
/// The lock file cannot be read.
pub fn holder(directory: &Path) -> Result<Option<Option<Holder>>, StoreError> {
    let path: PathBuf = directory.join(LOCK_FILE_NAME);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error("open", &path, &error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_holder(file))),
        Err(TryLockError::Error(error)) => Err(file_error("lock", &path, &error)),
    }
}

fn read_holder(mut file: File) -> Option<Holder> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn in_use(directory: &Path, holder: Option<&Holder>) -> StoreError {
    let by = match holder {
        Some(Holder {
            process,
            since,
            url,
        }) => {
            let at = url
                .as_ref()
                .map(|url| format!(" at {url}"))
                .unwrap_or_default();
            let since = since.format("%Y-%m-%d %H:%M:%S UTC");
            format!("process {process}{at}, since {since}")
        }
        None => "another process".to_owned(),
    };
    StoreError::Failed(format!(
        "the task store `{}` is in use by {by}; stop that server, or give this one a directory of its own with `--state-dir`",
        directory.display()
    ))
}
