//! Tasks in an SQLite database, through every crash.
//!
//! The directory holds `tasks.db`, SQLite's write-ahead log beside it, and the lock file of the server that has it. One
//! thread writes: it commits the writes that wait together, and replies once they are committed. Readers have connections
//! of their own and wait for no writer. Bodies stay on the disk, and are parsed while somebody works with them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use a2a::TaskPushNotificationConfig;
use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use rusqlite::Connection;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::hub::Hub;
use super::queues::Queues;
use super::usage::Usage;
use super::{
    Budget, Context, Feed, Filter, Fsync, Listed, Retention, Store, StoreError, Summary, Waiting,
    body,
};
use crate::caller::Version;
use crate::record::{Change, Record};

mod database;
mod lock;
mod salvage;
mod tasks;
mod writer;

pub use lock::{Holder, holder};
pub use salvage::{check, export};

use database::SqlError;
use lock::Lock;
use tasks::{Deleted, Effect, New};
use writer::{Command, Job, LastError, Writer};

/// Connections that are kept for the next reader.
const IDLE_READERS: usize = 4;

/// Tasks that one transaction deletes, so that no other write waits long.
const DELETE_BATCH: usize = 200;

/// How a directory is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory; made where there is none.
    pub directory: PathBuf,
    /// When a change counts as kept.
    pub fsync: Fsync,
}

impl Options {
    /// For that directory, with the default for the rest.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            fsync: Fsync::default(),
        }
    }
}

/// Keeps tasks in an SQLite database. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    commands: mpsc::Sender<Command>,
    readers: Mutex<Readers>,
    hub: Hub,
    queues: Queues,
    usage: Usage,
    last_error: LastError,
    /// The newest task of an earlier process, until its open ones were asked for.
    left: Mutex<Option<i64>>,
}

/// Connections for readers.
#[derive(Default)]
struct Readers {
    idle: Vec<Connection>,
    closed: bool,
}

impl Sqlite {
    /// Opens a directory at the time `now`. It blocks, for no longer with many tasks.
    ///
    /// # Errors
    /// Another process has the directory, which is named; or it cannot be read or written.
    pub fn open(options: &Options, now: DateTime<Utc>) -> Result<Self, StoreError> {
        let directory = &options.directory;
        database::create_directory(directory)?;
        let lock = Lock::take(directory, now)?;
        database::refuse_journal(directory)?;
        let path = database::path(directory);
        let connection = database::open_writer(&path, options.fsync)?;
        let left = tasks::last_key(&connection);
        let left = left.map_err(|error| database::failed("read", &path, &error))?;
        let usage = Usage::default();
        let kept = tasks::usage(&connection);
        for (owner, bytes) in kept.map_err(|error| database::failed("read", &path, &error))? {
            usage.add(&owner, bytes);
        }
        let (commands, asked) = mpsc::channel();
        let last_error = LastError::default();
        let writer = Writer {
            connection,
            path: path.clone(),
            fsync: options.fsync,
            lock,
            last_error: Arc::clone(&last_error),
        };
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.work(&asked))
            .map_err(|error| {
                StoreError::Failed(format!("cannot start the store's thread: {error}"))
            })?;
        Ok(Self {
            shared: Arc::new(Shared {
                path,
                commands,
                readers: Mutex::default(),
                hub: Hub::default(),
                queues: Queues::default(),
                usage,
                last_error,
                left: Mutex::new(Some(left)),
            }),
        })
    }

    /// The database.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Lets those who find the directory in use know where this server can be asked.
    ///
    /// # Errors
    /// The store is closed.
    pub async fn announce(&self, url: String) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Announce(url, reply);
        self.shared.commands.send(command).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())
    }

    /// Runs `work` in the next transaction, and `after` once that is committed, in the order of commits.
    async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Connection) -> Result<T, SqlError> + Send + 'static,
        after: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Write(Box::new(Job {
            bytes,
            work: Some(work),
            outcome: None,
            after,
            reply,
        }));
        self.shared.commands.send(command).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    /// Runs `work` on a connection for readers, where it may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let connection = shared.reader()?;
            let outcome = work(&connection);
            // One that failed may fail again; the next reader opens another.
            if !matches!(outcome, Err(SqlError::Sql(_))) {
                shared.give_back(connection);
            }
            outcome.map_err(|error| error.into_store("read", &shared.path))
        };
        let stopped =
            |_| StoreError::Failed("cannot read the task store: the server stops".to_owned());
        spawn_blocking(work).await.map_err(stopped)?
    }

    /// Deletes tasks, and says how many there were.
    async fn forget(&self, ids: Vec<String>) -> Result<usize, StoreError> {
        let (hub, usage) = (self.shared.hub.clone(), self.shared.usage.clone());
        let work = move |connection: &Connection| {
            let mut all = Vec::with_capacity(ids.len());
            for id in ids {
                all.extend(tasks::delete(connection, id)?);
            }
            tasks::shrink(connection)?;
            Ok(all)
        };
        let after = move |deleted: &Vec<Deleted>| {
            for task in deleted {
                usage.add(&task.owner, -task.bytes);
                hub.forget(&task.id);
            }
        };
        Ok(self.write(0, work, after).await?.len())
    }

    async fn find(&self, id: &str) -> Result<Option<Record>, StoreError> {
        let task_id = id.to_owned();
        let found = self.read(move |connection| {
            let Some(loaded) = tasks::load(connection, &task_id)? else {
                return Ok(None);
            };
            let whole = (loaded.changes >= body::MAX_CHANGES)
                .then(|| body::encode(&loaded.record))
                .transpose()?;
            Ok(Some((loaded.record, whole)))
        });
        let Some((record, whole)) = found.await? else {
            return Ok(None);
        };
        if let Some(json) = whole {
            self.compact(&record, json);
        }
        Ok(Some(record))
    }

    /// Has the changes of a task put together. Nothing is lost where that fails: the next one to load the task tries again.
    fn compact(&self, record: &Record, json: Vec<u8>) {
        let (id, revision, at_ms) = (record.task.id.clone(), record.revision, record.changed_ms);
        let (usage, owner) = (self.shared.usage.clone(), record.owner.clone());
        let (reply, _) = oneshot::channel();
        let command = Command::Write(Box::new(Job {
            bytes: json.len(),
            work: Some(move |connection: &Connection| {
                tasks::compact(connection, &id, revision, at_ms, &json)
            }),
            outcome: None,
            after: move |more: &i64| usage.add(&owner, *more),
            reply,
        }));
        let _ = self.shared.commands.send(command);
    }

    fn last_error(&self) -> Option<StoreError> {
        let last = self.shared.last_error.lock();
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    fn reader(&self) -> Result<Connection, StoreError> {
        let mut readers = self.readers();
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

    fn give_back(&self, connection: Connection) {
        let mut readers = self.readers();
        if !readers.closed && readers.idle.len() < IDLE_READERS {
            readers.idle.push(connection);
        }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many bytes, as a difference.
fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn closed() -> StoreError {
    StoreError::Failed("the task store is closed".to_owned())
}

impl Store for Sqlite {
    fn create<'a>(&'a self, record: &'a Record) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let json = body::encode(record)?;
            let bytes = json.len();
            let new = New {
                summary: Summary::of(record),
                session: record.session.clone(),
                revision: record.revision,
                json,
            };
            let work = move |connection: &Connection| tasks::create(connection, &new);
            let (usage, owner) = (self.shared.usage.clone(), record.owner.clone());
            let after = move |(): &()| usage.add(&owner, length(bytes));
            self.write(bytes, work, after).await
        }
        .boxed()
    }

    fn append<'a>(
        &'a self,
        task_id: &'a str,
        revision: u64,
        at_ms: i64,
        change: &'a Change,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let json = body::encode(change)?;
            let (id, effect, bytes) = (task_id.to_owned(), Effect::of(change), json.len());
            let work = move |connection: &Connection| {
                let owner = tasks::append(connection, &id, revision, at_ms, &effect, &json)?;
                Ok((owner, json))
            };
            let usage = self.shared.usage.clone();
            let (hub, id) = (self.shared.hub.clone(), task_id.to_owned());
            let followed = hub.is_followed(task_id).then(|| change.clone());
            let after = move |(owner, json): &(String, Vec<u8>)| {
                usage.add(owner, length(json.len()));
                let began_meanwhile = || {
                    let change = hub.is_followed(&id).then(|| serde_json::from_slice(json));
                    change.and_then(Result::ok)
                };
                if let Some(change) = followed.or_else(began_meanwhile) {
                    hub.publish(&id, revision + 1, &change);
                }
            };
            self.write(bytes, work, after).await?;
            Ok(())
        }
        .boxed()
    }

    fn load<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Record>, StoreError>> {
        self.find(task_id).boxed()
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<Listed, StoreError>> {
        let filter = filter.clone();
        self.read(move |connection| tasks::page(connection, &filter))
            .boxed()
    }

    fn delete<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move { Ok(self.forget(vec![task_id.to_owned()]).await? > 0) }.boxed()
    }

    fn follow<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Option<Feed>, StoreError>> {
        async move {
            let listener = self.shared.hub.listen(task_id);
            let Some(record) = self.load(task_id).await? else {
                return Ok(None);
            };
            let store = self.clone();
            let reload = move |id: String| {
                let store = store.clone();
                async move { store.load(&id).await.ok().flatten() }.boxed()
            };
            Ok(Some(listener.feed(record, reload)))
        }
        .boxed()
    }

    fn claim<'a>(
        &'a self,
        context_id: &'a str,
        owner: &'a str,
        session: &'a str,
    ) -> BoxFuture<'a, Result<Context, StoreError>> {
        async move {
            let id = context_id.to_owned();
            let known = self.read(move |connection| Ok(tasks::context(connection, &id)?));
            if let Some(context) = known.await? {
                return Ok(context);
            }
            let [id, owner, session] = [context_id, owner, session].map(str::to_owned);
            let work = move |connection: &Connection| {
                tasks::claim(connection, &id, &owner, &session)?;
                let context = tasks::context(connection, &id)?;
                context.ok_or(SqlError::Refused(StoreError::Conflict))
            };
            self.write(0, work, |_| {}).await
        }
        .boxed()
    }

    fn enter<'a>(
        &'a self,
        queue: &'a str,
        _task_id: &'a str,
    ) -> BoxFuture<'a, Result<Waiting, StoreError>> {
        future::ready(Ok(self.shared.queues.enter(queue))).boxed()
    }

    fn recover(&self) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>> {
        async move {
            let left = self.shared.left.lock();
            let left = left.unwrap_or_else(PoisonError::into_inner).take();
            match left {
                Some(last) => {
                    self.read(move |connection| tasks::open(connection, last))
                        .await
                }
                None => Ok(Vec::new()),
            }
        }
        .boxed()
    }

    fn put_push<'a>(
        &'a self,
        config: &'a TaskPushNotificationConfig,
        version: Version,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let json = serde_json::to_string(config).map_err(|error| {
                StoreError::Failed(format!("cannot write the webhook: {error}"))
            })?;
            let task_id = config.task_id.clone();
            let config_id = config.id.clone().unwrap_or_default();
            let work = move |connection: &Connection| {
                tasks::put_push(connection, &task_id, &config_id, version, &json)
            };
            self.write(0, work, |()| {}).await
        }
        .boxed()
    }

    fn pushes<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Vec<(TaskPushNotificationConfig, Version)>, StoreError>> {
        let id = task_id.to_owned();
        self.read(move |connection| tasks::pushes(connection, &id))
            .boxed()
    }

    fn delete_push<'a>(
        &'a self,
        task_id: &'a str,
        config_id: &'a str,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let [task_id, config_id] = [task_id, config_id].map(str::to_owned);
        let work =
            move |connection: &Connection| tasks::delete_push(connection, &task_id, &config_id);
        self.write(0, work, |_| {}).boxed()
    }

    fn retire<'a>(
        &'a self,
        retention: &'a Retention,
        now: DateTime<Utc>,
    ) -> BoxFuture<'a, Result<usize, StoreError>> {
        let (before_ms, count) = (retention.before_ms(now), retention.count);
        async move {
            let mut forgotten = 0;
            loop {
                let ids = self.read(move |connection| {
                    tasks::outlived(connection, before_ms, count, DELETE_BATCH)
                });
                match self.forget(ids.await?).await? {
                    0 => return Ok(forgotten),
                    more => forgotten += more,
                }
            }
        }
        .boxed()
    }

    fn unanswered(
        &self,
        before_ms: i64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.read(move |connection| tasks::unanswered(connection, before_ms, limit))
            .boxed()
    }

    fn make_room<'a>(
        &'a self,
        owner: &'a str,
        bytes: u64,
        budget: &'a Budget,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        async move {
            let lacks = self.shared.usage.lacks(owner, bytes, budget);
            if lacks == 0 {
                return Ok(true);
            }
            let whose = owner.to_owned();
            let oldest = self.read(move |connection| tasks::oldest(connection, &whose, lacks));
            let oldest = oldest.await?;
            let room = !oldest.is_empty();
            for some in oldest.chunks(DELETE_BATCH) {
                self.forget(some.to_vec()).await?;
            }
            Ok(room)
        }
        .boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if self.last_error().is_none() {
                return Ok(());
            }
            // There may be room again.
            let probe = |connection: &Connection| Ok(writer::probe(connection)?);
            self.write(0, probe, |()| {}).await
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            *self.shared.readers() = Readers {
                idle: Vec::new(),
                closed: true,
            };
            let (reply, answer) = oneshot::channel();
            match self.shared.commands.send(Command::Close(reply)) {
                Ok(()) => answer.await.unwrap_or(Ok(())),
                // It is closed already.
                Err(_) => Ok(()),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
