//! Connections to the database, and the conversion of SQLite's errors.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::files::{self, Fsync};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::store::StoreError;

/// The name of the database file in the directory of a store.
const FILE_NAME: &str = "tasks.db";

/// The `PRAGMA application_id` that identifies the file as a task store.
const APPLICATION_ID: i32 = 0x6f63_7461;

/// The version of the schema (`PRAGMA user_version`).
pub(super) const SCHEMA_VERSION: i32 = 1;

/// How long a connection waits for the lock of another process, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of pages in the write-ahead log from which a commit triggers a checkpoint: 32 MiB.
const CHECKPOINT_PAGES: i32 = 8192;

/// The size to which SQLite truncates the write-ahead log after a checkpoint, in bytes.
const MAX_IDLE_WAL_BYTES: i64 = 64 << 20;

/// An error inside of a write or a read: the store rejects the operation, or SQLite failed.
#[derive(Debug)]
pub(super) enum SqlError {
    Rejected(StoreError),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for SqlError {
    fn from(error: StoreError) -> Self {
        Self::Rejected(error)
    }
}

impl SqlError {
    /// Converts the error for the database at `path`.
    pub(super) fn into_store(self, verb: &str, path: &Path) -> StoreError {
        match self {
            Self::Rejected(error) => error,
            Self::Sql(error) => match failed(verb, path, &error) {
                StoreError::Failed(cause)
                    if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) =>
                {
                    StoreError::Damaged(cause)
                }
                error => error,
            },
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
pub(super) fn open_private(path: &Path) -> Result<File, StoreError> {
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

/// Creates the tables of a new file. Checks that an existing file is a task store of this version.
fn prepare(connection: &Connection, path: &Path) -> Result<(), SqlError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (number("application_id")?, number("user_version")?, tables) {
        (0, 0, 0) => {
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
            let schema = include_str!("schema.sql");
            connection.execute_batch(&format!(
                "BEGIN IMMEDIATE; {schema} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            ))?;
            Ok(())
        }
        (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(()),
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
