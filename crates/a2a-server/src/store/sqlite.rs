//! A task store in an SQLite database, whose tasks survive crashes.
//!
//! The directory contains `tasks.db`, SQLite's write-ahead log, and a lock file. A single thread writes: it commits the
//! waiting writes in one transaction and then replies to each. Readers have their own connections and do not wait for
//! the writer. Bodies stay on the disk, and the store parses a task only when the server uses it.

mod compaction;
mod database;
mod queries;
mod salvage;
mod tasks;
mod writer;

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use a2a::v1_0::TaskPushNotificationConfig;
use async_trait::async_trait;
use base::keyed_semaphore::KeyedSemaphore;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;

use self::compaction::LooseTask;
use self::database::{DirectoryLock, SqlError, closed};
pub use self::database::{Holder, Options, holder};
use self::queries::Log;
pub use self::salvage::{check, export};
use self::tasks::{DeletedTask, FinishedTask, NewTask};
use self::writer::{Command, LastError, PROBE_BYTES, Transaction, Writer};
use super::finished_records::FinishedRecords;
use super::task_events::{EventListener, TaskEvents};
use crate::store::{
    Budget, Context, Filter, ListedTask, Loaded, Page, QueueTicket, Retention, StoreError, Summary,
    SummaryChange, SummaryPage, TaskStore, TaskSubscription, Usage, body, enqueue, length,
    revision_before,
};
use crate::task_record::{TaskChange, TaskRecord};
use a2a::Version;

/// The maximum number of concurrent reads, each with a connection. More would open connections for one read each, and take
/// turns on the processors.
const MAX_READERS: usize = 4;

/// The number of tasks that one transaction deletes. A larger one would delay other writes.
const DELETE_BATCH: usize = 50;

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
    finished: Arc<FinishedRecords>,
    /// The permits for loading tasks.
    loads: Semaphore,
    /// The permits for reads.
    reads: Arc<Semaphore>,
}

/// The idle connections for readers.
#[derive(Default)]
struct Readers {
    idle: Vec<Connection>,
    closed: bool,
}

impl SqliteStore {
    /// Opens a directory at the time `now`. Blocks the thread; the duration does not grow with the number of tasks, except for
    /// the first opening of a file of an earlier version, which counts them.
    ///
    /// # Errors
    /// Another process has locked the directory, or the store cannot read or write it.
    pub fn open(options: &Options, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let (store, is_upgraded) = Self::open_as_it_is(options, now)?;
        if is_upgraded {
            store.compact_all()?;
        }
        Ok(store)
    }

    /// Opens a directory, and returns whether the database may have tasks in the format of version 1.
    fn open_as_it_is(options: &Options, now: DateTime<Utc>) -> Result<(Self, bool), StoreError> {
        let directory = &options.directory;
        database::create_directory(directory)?;
        let lock = DirectoryLock::acquire(directory, now)?;
        let path = database::path(directory);
        let connection = database::open_writer(&path, options.fsync)?;
        let failed = |error| database::failed("read", &path, &error);
        let last_existing_key = queries::last_key(&connection).map_err(failed)?;
        let with_pushes = queries::with_pushes(&connection).map_err(failed)?;
        let is_upgraded = queries::is_upgraded(&connection).map_err(failed)?;
        let usage = queries::usage(&connection).map_err(failed)?;
        let (commands, command_receiver) = mpsc::channel();
        let last_error = LastError::default();
        let writer = Writer {
            transaction: Transaction::new(connection),
            path: path.clone(),
            fsync: options.fsync,
            lock,
            last_error: Arc::clone(&last_error),
            unsynced: None,
            sync_error: None,
            failed_bytes: Cell::new(0),
        };
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.work(&command_receiver))
            .map_err(|error| database::no_thread(&error))?;
        let store = Self {
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
                finished: Arc::default(),
                loads: Semaphore::new(body::MAX_LOADS),
                reads: Arc::new(Semaphore::new(MAX_READERS)),
            }),
        };
        Ok((store, is_upgraded))
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
        work: impl Fn(&Transaction) -> Result<T, SqlError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        let written = writer::send(&self.shared.commands, bytes, work, after)?;
        written.await.map_err(|_| closed())?
    }

    /// Runs `work` with a reader's connection on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let permit = Arc::clone(&shared.reads).acquire_owned().await;
        let work = move || {
            let _permit = permit;
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

    /// Returns the number of tasks that match a filter, if the totals have it.
    fn total(&self, filter: &Filter) -> Option<usize> {
        let all = filter.context_id.is_none() && filter.state.is_none();
        let known = all && filter.changed_after.is_none();
        known.then(|| self.shared.usage.tasks(filter.owner.as_deref()))
    }

    /// Deletes tasks and returns how many of them existed.
    async fn forget(&self, ids: Vec<String>) -> Result<usize, StoreError> {
        let (events, usage) = (self.shared.events.clone(), self.shared.usage.clone());
        let with_pushes = Arc::clone(&self.shared.with_pushes);
        let finished = Arc::clone(&self.shared.finished);
        let work = move |transaction: &Transaction| {
            let mut all: Vec<DeletedTask> = Vec::with_capacity(ids.len());
            for id in &ids {
                all.extend(tasks::delete(transaction, id)?);
            }
            // A task that a message replaces leaves its pages to the next one.
            if all.iter().all(|task| task.is_terminal) {
                tasks::shrink(transaction)?;
            }
            Ok(all)
        };
        let after = move |deleted: &Vec<DeletedTask>| {
            for task in deleted {
                usage.add(&task.owner, -task.bytes, -1);
                events.forget(&task.id);
                with_pushes.lock().remove(&task.id);
                finished.remove(&task.id);
            }
        };
        Ok(self.write(0, work, after).await?.len())
    }

    /// Reads the log of a task.
    async fn log(&self, id: &str) -> Result<Log, StoreError> {
        let id = id.to_owned();
        self.read(move |connection| queries::log(connection, &id))
            .await
    }

    /// Decodes a task on the calling thread, because allocators retain memory for each thread.
    fn decode(&self, id: &str, log: Log) -> Result<Option<TaskRecord>, StoreError> {
        let Some(loaded) = queries::assemble(id, log)? else {
            return Ok(None);
        };
        if loaded.is_loose() {
            // A failure loses no data: the next load tries again.
            let _ = self.compact(vec![LooseTask::new(&loaded.record)?]);
        }
        Ok(Some(loaded.record))
    }

    fn subscription(&self, listener: EventListener, record: TaskRecord) -> TaskSubscription {
        let store = self.clone();
        let reload = move |id: String| {
            let store = store.clone();
            async move { store.load(&id).await.ok().flatten() }.boxed()
        };
        listener.subscription(record, reload)
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
        if !readers.closed && readers.idle.len() < MAX_READERS {
            readers.idle.push(connection);
        }
    }
}

#[async_trait]
impl TaskStore for SqliteStore {
    async fn create(&self, record: &TaskRecord) -> Result<(), StoreError> {
        let json = body::encode(record)?;
        let bytes = json.len();
        let new = NewTask {
            summary: Summary::new(record),
            session: record.session.clone(),
            revision: record.revision,
            json,
        };
        let work = move |transaction: &Transaction| tasks::create(transaction, &new);
        let (usage, owner) = (self.shared.usage.clone(), record.owner.clone());
        let after = move |(): &()| usage.add(&owner, length(bytes), 1);
        self.write(bytes, work, after).await
    }

    async fn append(
        &self,
        task_id: &str,
        revision: u64,
        at_ms: i64,
        changes: &[TaskChange],
    ) -> Result<(), StoreError> {
        let encoded = changes.iter().map(body::encode);
        let encoded = encoded.collect::<Result<Vec<_>, _>>()?;
        let encoded = Arc::new(encoded);
        let bytes = encoded.iter().map(Vec::len).sum();
        let (id, effect) = (task_id.to_owned(), SummaryChange::all(changes));
        let encoded_changes = Arc::clone(&encoded);
        let work = move |transaction: &Transaction| {
            tasks::append(transaction, &id, revision, at_ms, &effect, &encoded_changes)
        };
        let usage = self.shared.usage.clone();
        let (events, id) = (self.shared.events.clone(), task_id.to_owned());
        let followed = events.has_listeners(task_id).then(|| changes.to_vec());
        let after = move |owner: &String| {
            usage.add(owner, length(bytes), 0);
            let began_meanwhile = || {
                let changes = encoded.iter().map(|json| serde_json::from_slice(json).ok());
                let changes = events.has_listeners(&id).then(|| changes.collect());
                changes.flatten()
            };
            let changes: Option<Vec<TaskChange>> = followed.or_else(began_meanwhile);
            for (revision, change) in (revision + 1..).zip(changes.iter().flatten()) {
                events.publish(&id, revision, change);
            }
        };
        self.write(bytes, work, after).await?;
        Ok(())
    }

    async fn finish(&self, record: &TaskRecord, changes: &[TaskChange]) -> Result<(), StoreError> {
        let finished = FinishedTask {
            summary: Summary::new(record),
            revision: record.revision,
            json: body::encode(record)?,
        };
        let (id, from) = (record.task.id.clone(), revision_before(record, changes));
        let bytes = finished.json.len();
        let work = move |transaction: &Transaction| tasks::finish(transaction, from, &finished);
        let (usage, owner) = (self.shared.usage.clone(), record.owner.clone());
        let events = self.shared.events.clone();
        let followed = events.has_listeners(&id).then(|| changes.to_vec());
        let after = move |more: &i64| {
            usage.add(&owner, *more, 0);
            match followed {
                Some(changes) => {
                    for (revision, change) in (from + 1..).zip(&changes) {
                        events.publish(&id, revision, change);
                    }
                }
                // Subscribers may have come meanwhile.
                None => events.resync(&id),
            }
        };
        self.write(bytes, work, after).await.map(drop)
    }

    async fn load(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let _permit = self.shared.loads.acquire().await;
        self.decode(task_id, self.log(task_id).await?)
    }

    async fn load_stored(&self, task_id: &str) -> Result<Option<Loaded>, StoreError> {
        let _permit = self.shared.loads.acquire().await;
        match self.log(task_id).await?.into_whole() {
            Ok(json) => Ok(Some(Loaded::Json(json.into()))),
            Err(log) => {
                let record = self.decode(task_id, log)?;
                Ok(record.map(Box::new).map(Loaded::Record))
            }
        }
    }

    async fn list(&self, filter: &Filter) -> Result<SummaryPage, StoreError> {
        let (total, filter) = (self.total(filter), filter.clone());
        self.read(move |connection| queries::page(connection, &filter, total))
            .await
    }

    async fn page(
        &self,
        filter: &Filter,
        json_bytes: usize,
    ) -> Result<Page<ListedTask>, StoreError> {
        let (total, filter) = (self.total(filter), filter.clone());
        let known = Arc::clone(&self.shared.finished);
        self.read(move |connection| queries::listed(connection, &filter, total, &known, json_bytes))
            .await
    }

    async fn bodies(
        &self,
        _owner: Option<&str>,
        tasks: &[ListedTask],
    ) -> Result<Vec<Option<Bytes>>, StoreError> {
        let ids = tasks.iter().map(|listed| listed.place.task_id.clone());
        let ids: Vec<String> = ids.collect();
        self.read(move |connection| queries::bodies(connection, &ids))
            .await
    }

    async fn delete(&self, task_id: &str) -> Result<bool, StoreError> {
        Ok(self.forget(vec![task_id.to_owned()]).await? > 0)
    }

    async fn subscribe(&self, task_id: &str) -> Result<Option<TaskSubscription>, StoreError> {
        let listener = self.shared.events.subscribe(task_id);
        let record = self.load(task_id).await?;
        Ok(record.map(|record| self.subscription(listener, record)))
    }

    async fn subscribe_created(
        &self,
        record: &TaskRecord,
    ) -> Result<Option<TaskSubscription>, StoreError> {
        let listener = self.shared.events.subscribe(&record.task.id);
        Ok(Some(self.subscription(listener, record.clone())))
    }

    async fn get_or_create_context(
        &self,
        context_id: &str,
        owner: &str,
        session: &str,
    ) -> Result<Context, StoreError> {
        let [id, owner, session] = [context_id, owner, session].map(str::to_owned);
        let work = move |transaction: &Transaction| {
            if let Some(context) = queries::context(transaction, &id)? {
                return Ok(context);
            }
            tasks::get_or_create_context(transaction, &id, &owner, &session)?;
            let context = queries::context(transaction, &id)?;
            context.ok_or(SqlError::Rejected(StoreError::Conflict))
        };
        self.write(0, work, |_| {}).await
    }

    async fn enqueue(&self, queue: &str, _task_id: &str) -> Result<QueueTicket, StoreError> {
        Ok(enqueue(&self.shared.queues, queue))
    }

    async fn recover(&self) -> Result<Vec<Summary>, StoreError> {
        let last_key = self.shared.last_existing_key.lock().take();
        match last_key {
            Some(last_key) => {
                self.read(move |connection| queries::open(connection, last_key))
                    .await
            }
            None => Ok(Vec::new()),
        }
    }

    async fn put_push(
        &self,
        config: &TaskPushNotificationConfig,
        version: Version,
    ) -> Result<(), StoreError> {
        let json = serde_json::to_string(config).map_err(|error| {
            StoreError::Failed(format!("cannot write the push configuration: {error}"))
        })?;
        let task_id = config.task_id.clone();
        let config_id = config.id.clone().unwrap_or_default();
        let work = move |transaction: &Transaction| {
            tasks::put_push(transaction, &task_id, &config_id, version, &json)
        };
        let with_pushes = Arc::clone(&self.shared.with_pushes);
        let id = config.task_id.clone();
        let usage = self.shared.usage.clone();
        let after = move |(owner, more): &(String, i64)| {
            usage.add(owner, *more, 0);
            with_pushes.lock().insert(id);
        };
        self.write(0, work, after).await.map(drop)
    }

    fn may_have_pushes(&self, task_id: &str) -> bool {
        self.shared.with_pushes.lock().contains(task_id)
    }

    async fn pushes(
        &self,
        task_id: &str,
    ) -> Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError> {
        let id = task_id.to_owned();
        self.read(move |connection| queries::pushes(connection, &id))
            .await
    }

    async fn delete_push(&self, task_id: &str, config_id: &str) -> Result<bool, StoreError> {
        let [task_id, config_id] = [task_id, config_id].map(str::to_owned);
        let work =
            move |transaction: &Transaction| tasks::delete_push(transaction, &task_id, &config_id);
        let usage = self.shared.usage.clone();
        let after = move |deleted: &Option<(String, i64)>| {
            if let Some((owner, more)) = deleted {
                usage.add(owner, *more, 0);
            }
        };
        Ok(self.write(0, work, after).await?.is_some())
    }

    async fn prune(&self, retention: &Retention, now: DateTime<Utc>) -> Result<usize, StoreError> {
        let (before_ms, count) = (retention.before_ms(now), retention.count);
        let mut forgotten = 0;
        loop {
            let crowded = self.shared.usage.owners_above(count);
            let ids = self.read(move |connection| {
                queries::expired(connection, before_ms, count, &crowded, DELETE_BATCH)
            });
            match self.forget(ids.await?).await? {
                0 => return Ok(forgotten),
                more => forgotten += more,
            }
        }
    }

    async fn unanswered(
        &self,
        before_ms: i64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.read(move |connection| queries::unanswered(connection, before_ms, skip, limit))
            .await
    }

    async fn make_room(
        &self,
        owner: &str,
        bytes: u64,
        budget: &Budget,
        forget: bool,
    ) -> Result<bool, StoreError> {
        let Some(shortfall) = self.shared.usage.shortfall(owner, bytes, budget) else {
            return Ok(false);
        };
        if shortfall == 0 {
            return Ok(true);
        }
        let whose = owner.to_owned();
        let oldest = self.read(move |connection| queries::oldest(connection, &whose, shortfall));
        let oldest = oldest.await?;
        let room = !oldest.is_empty();
        for some in oldest.chunks(DELETE_BATCH).filter(|_| forget) {
            self.forget(some.to_vec()).await?;
        }
        Ok(room)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        if self.last_error().is_none() {
            return Ok(());
        }
        // Probe whether the disk has room for a small task again: one page may fit where no task does. No client can name this context.
        for sql in [
            "INSERT OR REPLACE INTO contexts VALUES ('', '', hex(zeroblob(32768)))",
            "DELETE FROM contexts WHERE id = ''",
        ] {
            let probe = |transaction: &Transaction| Ok(transaction.execute(sql, [])?);
            self.write(PROBE_BYTES, probe, |_| {}).await?;
        }
        // The error of a failed sync remains until a sync succeeds.
        self.last_error().map_or(Ok(()), Err)
    }

    async fn close(&self) -> Result<(), StoreError> {
        *self.shared.readers.lock() = Readers {
            idle: Vec::new(),
            closed: true,
        };
        let (reply, answer) = oneshot::channel();
        match self.shared.commands.send(Command::Close(reply)) {
            Ok(()) => answer.await.unwrap_or(Ok(())),
            // The writer is closed already.
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
