//! A task store in an SQLite database, whose tasks survive crashes.
//!
//! The directory contains `tasks.db`, SQLite's write-ahead log, and a lock file. A single thread writes: it commits the
//! waiting writes in one transaction and then replies to each. Readers have their own connections and do not wait for
//! the writer. Bodies stay on the disk, and the store parses a task only when the server uses it.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use base::files::Fsync;
use base::keyed_semaphore::KeyedSemaphore;
use chrono::{DateTime, Utc};
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::task_events::TaskEvents;
use super::usage::Usage;
use super::{StoreError, body};
use crate::task_record::TaskRecord;

mod database;
mod queries;
mod store;
mod tasks;
mod writer;

pub use database::{Holder, check, export, holder};

use database::{DirectoryLock, SqlError};
use tasks::DeletedTask;
use writer::{Command, LastError, WriteJob, Writer};

/// The maximum number of idle connections for readers.
const IDLE_READERS: usize = 4;

/// The number of tasks that one transaction deletes. A larger one would delay other writes.
const DELETE_BATCH: usize = 200;

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

/// A store in SQLite. Clones share it.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    commands: mpsc::Sender<Command>,
    readers: Mutex<Readers>,
    events: TaskEvents,
    queues: KeyedSemaphore<String>,
    usage: Usage,
    last_error: LastError,
    /// The ids of the tasks with push notification configurations.
    with_pushes: Arc<Mutex<HashSet<String>>>,
    /// The key of the newest task of an earlier process; `None` once `recover` has returned the unfinished tasks.
    last_existing_key: Mutex<Option<i64>>,
    /// The permits for loading tasks.
    loads: Semaphore,
}

/// The idle connections for readers.
#[derive(Default)]
struct Readers {
    idle: Vec<Connection>,
    closed: bool,
}

impl SqliteStore {
    /// Opens a directory at the time `now`. Blocks the thread; the duration does not grow with the number of tasks.
    ///
    /// # Errors
    /// Another process has locked the directory, or the store cannot read or write it.
    pub fn open(options: &Options, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let directory = &options.directory;
        database::create_directory(directory)?;
        let lock = DirectoryLock::acquire(directory, now)?;
        let path = database::path(directory);
        let connection = database::open_writer(&path, options.fsync)?;
        let last_existing_key = queries::last_key(&connection);
        let last_existing_key =
            last_existing_key.map_err(|error| database::failed("read", &path, &error))?;
        let with_pushes = queries::with_pushes(&connection);
        let with_pushes = with_pushes.map_err(|error| database::failed("read", &path, &error))?;
        let usage = Usage::default();
        let usage_rows = queries::usage(&connection);
        for (owner, bytes) in usage_rows.map_err(|error| database::failed("read", &path, &error))? {
            usage.add(&owner, bytes);
        }
        let (commands, command_receiver) = mpsc::channel();
        let last_error = LastError::default();
        let writer = Writer {
            connection,
            path: path.clone(),
            fsync: options.fsync,
            lock,
            last_error: Arc::clone(&last_error),
            unsynced: None,
            sync_error: None,
        };
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.work(&command_receiver))
            .map_err(|error| {
                StoreError::Failed(format!("cannot start the store's thread: {error}"))
            })?;
        Ok(Self {
            shared: Arc::new(Shared {
                path,
                commands,
                readers: Mutex::default(),
                events: TaskEvents::default(),
                queues: KeyedSemaphore::default(),
                usage,
                last_error,
                with_pushes: Arc::new(Mutex::new(with_pushes)),
                last_existing_key: Mutex::new(Some(last_existing_key)),
                loads: Semaphore::new(body::MAX_LOADS),
            }),
        })
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Writes the URL of this server to the lock file, for other processes that try to open the directory.
    ///
    /// # Errors
    /// The store was closed.
    pub async fn announce(&self, url: String) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Announce(url, reply);
        self.shared.commands.send(command).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }

    /// Runs `work` in the next transaction, and `after` once it is committed, in the order of commits.
    async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl Fn(&Connection) -> Result<T, SqlError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Write(Box::new(WriteJob {
            bytes,
            work,
            outcome: None,
            after,
            reply,
        }));
        self.shared.commands.send(command).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Runs `work` with a reader's connection on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let connection = shared.reader()?;
            let outcome = work(&connection);
            // A failed connection may fail again, so drop it. The next reader opens a new one.
            if !matches!(outcome, Err(SqlError::Sql(_))) {
                shared.return_reader(connection);
            }
            outcome.map_err(|error| error.into_store("read", &shared.path))
        };
        let stopped =
            |_| StoreError::Failed("cannot read the task store: the server stops".to_owned());
        spawn_blocking(work).await.map_err(stopped)?
    }

    /// Deletes tasks and returns how many of them existed.
    async fn forget(&self, ids: Vec<String>) -> Result<usize, StoreError> {
        let (events, usage) = (self.shared.events.clone(), self.shared.usage.clone());
        let with_pushes = Arc::clone(&self.shared.with_pushes);
        let work = move |connection: &Connection| {
            let mut all = Vec::with_capacity(ids.len());
            for id in &ids {
                all.extend(tasks::delete(connection, id)?);
            }
            tasks::shrink(connection)?;
            Ok(all)
        };
        let after = move |deleted: &Vec<DeletedTask>| {
            for task in deleted {
                usage.add(&task.owner, -task.bytes);
                events.forget(&task.id);
                with_pushes.lock().remove(&task.id);
            }
        };
        Ok(self.write(0, work, after).await?.len())
    }

    /// Loads a task. Parses the body on the calling thread, because allocators retain memory for each thread.
    async fn find(&self, id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let _permit = self.shared.loads.acquire().await;
        let task_id = id.to_owned();
        let log = self.read(move |connection| queries::log(connection, &task_id));
        let Some(loaded) = queries::assemble(id, log.await?)? else {
            return Ok(None);
        };
        if loaded.changes >= body::MAX_CHANGES {
            let whole = body::encode(&loaded.record)?;
            self.compact(&loaded.record, whole);
        }
        Ok(Some(loaded.record))
    }

    /// Compacts the changes of a task. A failure loses no data: the next load tries again.
    fn compact(&self, record: &TaskRecord, json: Vec<u8>) {
        let (id, revision, at_ms) = (record.task.id.clone(), record.revision, record.changed_ms);
        let (usage, owner) = (self.shared.usage.clone(), record.owner.clone());
        let (reply, _) = oneshot::channel();
        let command = Command::Write(Box::new(WriteJob {
            bytes: json.len(),
            work: move |connection: &Connection| {
                tasks::compact(connection, &id, revision, at_ms, &json)
            },
            outcome: None,
            after: move |more: &i64| usage.add(&owner, *more),
            reply,
        }));
        let _ = self.shared.commands.send(command);
    }

    fn last_error(&self) -> Option<StoreError> {
        self.shared.last_error.lock().clone()
    }
}

impl Shared {
    fn reader(&self) -> Result<Connection, StoreError> {
        let mut readers = self.readers.lock();
        if readers.closed {
            return Err(closed());
        }
        if let Some(connection) = readers.idle.pop() {
            return Ok(connection);
        }
        drop(readers);
        let opened = database::open_reader(&self.path);
        opened.map_err(|error| database::failed("read", &self.path, &error))
    }

    fn return_reader(&self, connection: Connection) {
        let mut readers = self.readers.lock();
        if !readers.closed && readers.idle.len() < IDLE_READERS {
            readers.idle.push(connection);
        }
    }
}

fn closed() -> StoreError {
    StoreError::Failed("the task store is closed".to_owned())
}

#[cfg(test)]
mod tests;
