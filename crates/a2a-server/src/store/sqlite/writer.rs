//! The writer thread. It commits the waiting writes in one transaction.

use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use base::files::Fsync;
use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::closed;
use super::database::{self, DirectoryLock, SqlError};
use crate::store::StoreError;

/// The maximum number of writes in one transaction.
const MAX_GROUP: usize = 512;

/// The maximum size of one transaction in bytes, without its last write.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// The maximum delay until a change is on the disk with [`Fsync::Interval`].
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A command to the writer thread.
pub(super) enum Command {
    /// Runs a write.
    Write(Box<dyn Write>),
    /// Writes the URL of this server to the lock file.
    Announce(String, oneshot::Sender<()>),
    /// Ends the thread.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// A write that waits for its transaction.
pub(super) trait Write: Send {
    /// Returns the approximate size of the write.
    fn bytes(&self) -> usize;
    /// Runs inside the transaction, again after a rollback. An error rolls back only this write.
    fn run(&mut self, transaction: &Transaction) -> Result<(), rusqlite::Error>;
    /// Replies to the caller after the commit, or after its failure.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// What the tasks of clients take up more, as tasks and bytes by owner.
type Totals = HashMap<String, (i64, i64)>;

/// The connection of the writer, and what its transaction adds to the totals of clients: one statement a client stores the sum.
pub(super) struct Transaction {
    connection: Connection,
    totals: RefCell<Totals>,
}

impl Transaction {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            totals: RefCell::default(),
        }
    }

    /// Adds tasks and bytes to the totals of a client.
    pub(super) fn add_to_totals(&self, owner: &str, tasks: i64, bytes: i64) {
        let mut totals = self.totals.borrow_mut();
        if let Some(sums) = totals.get_mut(owner) {
            *sums = (sums.0 + tasks, sums.1 + bytes);
        } else {
            totals.insert(owner.to_owned(), (tasks, bytes));
        }
    }

    /// Stores the totals of the clients whose tasks have changed.
    fn store_totals(&self) -> Result<(), rusqlite::Error> {
        let mut store = self.prepare_cached(
            "INSERT INTO totals (owner, tasks, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (owner) DO UPDATE SET tasks = tasks + excluded.tasks, bytes = bytes + excluded.bytes",
        )?;
        let mut delete =
            self.prepare_cached("DELETE FROM totals WHERE owner = ?1 AND tasks = 0")?;
        for (owner, (tasks, bytes)) in self.totals.take() {
            if (tasks, bytes) != (0, 0) {
                store.execute(params![owner, tasks, bytes])?;
            }
            if tasks < 0 {
                delete.execute([owner])?;
            }
        }
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// A write of two functions: `work` runs in the transaction, and `after` once it is committed, in the order of commits.
struct WriteJob<T, W, A> {
    bytes: usize,
    work: W,
    outcome: Option<Result<T, StoreError>>,
    after: A,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W, A> Write for WriteJob<T, W, A>
where
    T: Send,
    W: Fn(&Transaction) -> Result<T, SqlError> + Send,
    A: FnOnce(&T) + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, transaction: &Transaction) -> Result<(), rusqlite::Error> {
        self.outcome = Some(match (self.work)(transaction) {
            Ok(value) => Ok(value),
            Err(SqlError::Rejected(error)) => Err(error),
            Err(SqlError::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let outcome = match (committed, self.outcome) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => Err(StoreError::Failed("the write did not run".to_owned())),
        };
        if let Ok(value) = &outcome {
            (self.after)(value);
        }
        let _ = self.reply.send(outcome);
    }
}

/// The outcome of a write, once it is committed.
pub(super) type Written<T> = oneshot::Receiver<Result<T, StoreError>>;

/// Sends a write to the writer.
pub(super) fn send<T: Send + 'static>(
    commands: &Sender<Command>,
    bytes: usize,
    work: impl Fn(&Transaction) -> Result<T, SqlError> + Send + 'static,
    after: impl FnOnce(&T) + Send + 'static,
) -> Result<Written<T>, StoreError> {
    let (reply, written) = oneshot::channel();
    let command = Command::Write(Box::new(WriteJob {
        bytes,
        work,
        outcome: None,
        after,
        reply,
    }));
    commands.send(command).map_err(|_| closed())?;
    Ok(written)
}

/// The error of the last transaction, of a write in it, or of the last sync; `None` if all of them succeeded.
pub(super) type LastError = Arc<Mutex<Option<StoreError>>>;

pub(super) struct Writer {
    pub(super) transaction: Transaction,
    pub(super) path: PathBuf,
    pub(super) fsync: Fsync,
    pub(super) lock: DirectoryLock,
    pub(super) last_error: LastError,
    /// With [`Fsync::Interval`], the time of the oldest write that is not on the disk yet.
    pub(super) unsynced: Option<Instant>,
    /// The error of the last sync.
    pub(super) sync_error: Option<StoreError>,
    /// The bytes of the last failed writes, at most [`PROBE_BYTES`]. A smaller write may fit where they do not, so it ends no error.
    pub(super) failed_bytes: Cell<usize>,
}

/// The size of the write that shows that a full disk has room again, in bytes.
pub(super) const PROBE_BYTES: usize = 64 << 10;

impl Writer {
    /// Runs until it receives [`Command::Close`] or the store is dropped.
    pub(super) fn work(mut self, commands: &Receiver<Command>) {
        let mut carried: Option<Command> = None;
        let closing = loop {
            let wait = self
                .unsynced
                .map(|since| SYNC_INTERVAL.saturating_sub(since.elapsed()));
            let next = match (carried.take(), wait) {
                (Some(command), _) => Ok(command),
                (None, Some(wait)) => commands.recv_timeout(wait),
                (None, None) => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match next {
                Ok(Command::Write(write)) => {
                    let mut group = vec![write];
                    let mut bytes = group.iter().map(|write| write.bytes()).sum::<usize>();
                    while group.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
                        match commands.try_recv() {
                            Ok(Command::Write(write)) => {
                                bytes += write.bytes();
                                group.push(write);
                            }
                            Ok(other) => {
                                carried = Some(other);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.commit(group);
                    if self.fsync == Fsync::Interval {
                        self.unsynced.get_or_insert_with(Instant::now);
                    }
                }
                Ok(Command::Announce(url, reply)) => {
                    self.lock.announce(url);
                    let _ = reply.send(());
                }
                Ok(Command::Close(reply)) => break Some(reply),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self
                .unsynced
                .is_some_and(|since| since.elapsed() >= SYNC_INTERVAL)
            {
                self.sync();
            }
        };
        let closed = self.close();
        if let Some(reply) = closing {
            let _ = reply.send(closed);
        }
    }

    /// Runs writes in one transaction, and replies to each.
    fn commit(&self, mut group: Vec<Box<dyn Write>>) {
        let bytes = group.iter().map(|write| write.bytes()).sum::<usize>();
        let mut outcomes = vec![Ok(()); group.len()];
        let mut lost = self.statement("BEGIN IMMEDIATE").err();
        let mut broken = None;
        let run = |write: &mut Box<dyn Write>| write.run(&self.transaction).is_ok();
        let runs = lost.is_none() && group.iter_mut().all(run);
        if lost.is_none() && !(runs && self.transaction.store_totals().is_ok()) {
            // Run each write again in its own savepoint. Savepoints copy pages, so writes have none until one fails.
            lost = self.restart().err();
            for (write, outcome) in group.iter_mut().zip(&mut outcomes) {
                let ran_out = match lost {
                    None => self.run(&mut **write),
                    Some(_) => Ok(Ok(())),
                };
                *outcome = ran_out.unwrap_or_else(|error| {
                    lost = Some(error);
                    Ok(())
                });
                if let Err(error) = outcome {
                    tracing::error!(%error, "a write of the task store failed");
                    broken.get_or_insert_with(|| error.clone());
                    // Some errors, such as a full disk, roll back the whole transaction.
                    if self.transaction.is_autocommit() {
                        lost = Some(error.clone());
                    }
                }
            }
        }
        if lost.is_none() {
            lost = self.statement("COMMIT").err();
        }
        if !self.transaction.is_autocommit() {
            let _ = self.statement("ROLLBACK");
        }
        if let Some(error) = &lost {
            tracing::error!(%error, "the task store rejects writes");
        }
        match lost.clone().or(broken) {
            Some(error) => {
                self.failed_bytes.set(bytes.min(PROBE_BYTES));
                self.report(Some(error));
            }
            None if bytes >= self.failed_bytes.get() => {
                self.failed_bytes.set(0);
                self.report(self.sync_error.clone());
            }
            None => {}
        }
        for (write, outcome) in group.into_iter().zip(outcomes) {
            write.finish(match (&lost, outcome) {
                (Some(error), _) => Err(error.clone()),
                (None, outcome) => outcome,
            });
        }
    }

    /// Rolls back the transaction and begins a new one.
    fn restart(&self) -> Result<(), StoreError> {
        self.transaction.totals.take();
        if !self.transaction.is_autocommit() {
            self.statement("ROLLBACK")?;
        }
        self.statement("BEGIN IMMEDIATE")
    }

    /// Runs a write in a savepoint, so that its failure does not affect the other writes.
    ///
    /// # Errors
    /// The savepoint failed, so the content of the transaction is undefined.
    fn run(&self, write: &mut dyn Write) -> Result<Result<(), StoreError>, StoreError> {
        self.statement("SAVEPOINT write")?;
        let ran = write.run(&self.transaction);
        let outcome = ran.and_then(|()| self.transaction.store_totals());
        self.transaction.totals.take();
        if outcome.is_err() && !self.transaction.is_autocommit() {
            self.statement("ROLLBACK TO write")?;
        }
        if !self.transaction.is_autocommit() {
            self.statement("RELEASE write")?;
        }
        Ok(outcome.map_err(|error| self.failed(&error)))
    }

    fn report(&self, error: Option<StoreError>) {
        *self.last_error.lock() = error;
    }

    fn prepared(&self, sql: &str) -> Result<(), rusqlite::Error> {
        self.transaction.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn statement(&self, sql: &str) -> Result<(), StoreError> {
        self.prepared(sql).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        database::failed("write", &self.path, error)
    }

    /// Syncs the write-ahead log to the disk with one synchronous transaction. A checkpoint is not sufficient: it skips
    /// the log while an old reader, such as a backup, uses it. A failed sync is retried after the interval.
    fn sync(&mut self) {
        let synced = self
            .synchronous("FULL")
            .and_then(|()| probe(&self.transaction));
        let synced = synced.and(self.synchronous("NORMAL"));
        self.unsynced = synced.is_err().then(Instant::now);
        let was = self.sync_error.take();
        match synced {
            Err(error) => {
                let error = database::failed("sync", &self.path, &error);
                tracing::error!(%error, "cannot sync the task store; a loss of power would lose acknowledged changes");
                self.sync_error = Some(error.clone());
                self.report(Some(error));
            }
            // A larger write may still not fit.
            Ok(()) if was.is_some() && self.failed_bytes.get() == 0 => self.report(None),
            Ok(()) => {}
        }
    }

    fn synchronous(&self, mode: &str) -> Result<(), rusqlite::Error> {
        self.transaction.pragma_update(None, "synchronous", mode)
    }

    fn close(self) -> Result<(), StoreError> {
        let closed = self.synchronous("FULL").and_then(|()| {
            let moved = "PRAGMA wal_checkpoint(TRUNCATE)";
            self.transaction.query_row(moved, [], |_| Ok(()))
        });
        let closed = closed.map_err(|error| database::failed("sync", &self.path, &error));
        drop(self.transaction);
        drop(self.lock);
        closed
    }
}

/// Writes a value that the database already has, to test whether writes succeed.
pub(super) fn probe(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "user_version", database::SCHEMA_VERSION)
}

#[cfg(test)]
mod tests;
