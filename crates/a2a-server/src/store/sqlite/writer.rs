//! The thread that writes. It commits the writes that wait together in one transaction.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::{self, SqlError};
use super::lock::DirectoryLock;
use crate::store::{Fsync, StoreError};

/// The most writes in one transaction.
const MAX_GROUP: usize = 512;

/// The most bytes in one transaction, but for its last write.
const MAX_GROUP_BYTES: usize = 4 << 20;

/// How long the disk may lag behind with [`Fsync::Interval`].
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// What the thread is asked for.
pub(super) enum Command {
    /// A write.
    Write(Box<dyn Write>),
    /// Writes into the lock file where this server can be asked.
    Announce(String, oneshot::Sender<()>),
    /// Ends the thread.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// A write that waits for its transaction.
pub(super) trait Write: Send {
    /// About how many bytes it writes.
    fn bytes(&self) -> usize;
    /// Runs inside the transaction. An error undoes this write alone.
    fn run(&mut self, connection: &Connection) -> Result<(), rusqlite::Error>;
    /// Replies, once the transaction is committed or has failed.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

/// A write as a function: `work` runs in the transaction, `after` once it is committed, in the order of commits.
pub(super) struct Job<T, W, A> {
    pub(super) bytes: usize,
    pub(super) work: Option<W>,
    pub(super) outcome: Option<Result<T, StoreError>>,
    pub(super) after: A,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, W, A> Write for Job<T, W, A>
where
    T: Send,
    W: FnOnce(&Connection) -> Result<T, SqlError> + Send,
    A: FnOnce(&T) + Send,
{
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        let Some(work) = self.work.take() else {
            return Ok(());
        };
        self.outcome = Some(match work(connection) {
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
            (Ok(()), None) => Err(StoreError::Failed("the write was not run".to_owned())),
        };
        if let Ok(value) = &outcome {
            (self.after)(value);
        }
        let _ = self.reply.send(outcome);
    }
}

/// Why the last transaction, one of its writes or the last sync failed; `None` where none did.
pub(super) type LastError = Arc<Mutex<Option<StoreError>>>;

/// The thread's state.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) fsync: Fsync,
    pub(super) lock: DirectoryLock,
    pub(super) last_error: LastError,
    /// Since when the disk has not had everything, where it is to have it within an interval.
    pub(super) unsynced: Option<Instant>,
    /// Why the disk does not have it yet.
    pub(super) sync_error: Option<StoreError>,
}

impl Writer {
    /// Works until it is asked to close, or the store is dropped.
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
    fn commit(&self, group: Vec<Box<dyn Write>>) {
        let mut ran = Vec::with_capacity(group.len());
        let mut lost = self.statement("BEGIN IMMEDIATE").err();
        let mut broken = None;
        for mut write in group {
            let ran_out = match lost {
                None => self.run(&mut *write),
                Some(_) => Ok(Ok(())),
            };
            let outcome = ran_out.unwrap_or_else(|error| {
                lost = Some(error);
                Ok(())
            });
            if let Err(error) = &outcome {
                tracing::error!(%error, "a write of the task store failed");
                broken.get_or_insert_with(|| error.clone());
                // Some errors, a full disk among them, end the whole transaction.
                if self.connection.is_autocommit() {
                    lost = Some(error.clone());
                }
            }
            ran.push((write, outcome));
        }
        if lost.is_none() {
            lost = self.statement("COMMIT").err();
        }
        if !self.connection.is_autocommit() {
            let _ = self.statement("ROLLBACK");
        }
        if let Some(error) = &lost {
            tracing::error!(%error, "the task store does not take writes");
        }
        let failed = lost.clone().or(broken);
        self.report(failed.or_else(|| self.sync_error.clone()));
        for (write, outcome) in ran {
            write.finish(match (&lost, outcome) {
                (Some(error), _) => Err(error.clone()),
                (None, outcome) => outcome,
            });
        }
    }

    /// Runs a write in a savepoint, so that one that fails takes no other with it.
    ///
    /// # Errors
    /// The savepoint failed: what the transaction holds is not known any more.
    fn run(&self, write: &mut dyn Write) -> Result<Result<(), StoreError>, StoreError> {
        self.statement("SAVEPOINT write")?;
        let outcome = write.run(&self.connection);
        if outcome.is_err() && !self.connection.is_autocommit() {
            self.statement("ROLLBACK TO write")?;
        }
        if !self.connection.is_autocommit() {
            self.statement("RELEASE write")?;
        }
        Ok(outcome.map_err(|error| self.failed(&error)))
    }

    fn report(&self, error: Option<StoreError>) {
        let last = self.last_error.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn prepared(&self, sql: &str) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn statement(&self, sql: &str) -> Result<(), StoreError> {
        self.prepared(sql).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        database::failed("write", &self.path, error)
    }

    /// Brings the write-ahead log to the disk, by one transaction that waits for it. A checkpoint would not do: it leaves the
    /// log alone while an old reader, such as a backup, holds it. Where it fails it is tried again after an interval.
    fn sync(&mut self) {
        let synced = self
            .synchronous("FULL")
            .and_then(|()| probe(&self.connection));
        let synced = synced.and(self.synchronous("NORMAL"));
        self.unsynced = synced.is_err().then(Instant::now);
        let was = self.sync_error.take();
        match synced {
            Err(error) => {
                let error = database::failed("sync", &self.path, &error);
                tracing::error!(%error, "the task store may lose what it acknowledged with the power");
                self.sync_error = Some(error.clone());
                self.report(Some(error));
            }
            Ok(()) if was.is_some() => self.report(None),
            Ok(()) => {}
        }
    }

    fn synchronous(&self, mode: &str) -> Result<(), rusqlite::Error> {
        self.connection.pragma_update(None, "synchronous", mode)
    }

    fn close(self) -> Result<(), StoreError> {
        let closed = self.synchronous("FULL").and_then(|()| {
            let moved = "PRAGMA wal_checkpoint(TRUNCATE)";
            self.connection.query_row(moved, [], |_| Ok(()))
        });
        let closed = closed.map_err(|error| database::failed("sync", &self.path, &error));
        drop(self.connection);
        drop(self.lock);
        closed
    }
}

/// Writes what is written already.
pub(super) fn probe(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "user_version", database::SCHEMA_VERSION)
}

#[cfg(test)]
mod tests;
