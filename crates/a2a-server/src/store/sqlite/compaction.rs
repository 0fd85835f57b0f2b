//! Moves the records of tasks together: that of a task with a long log when it is loaded, and those of all terminal tasks of a
//! file of version 1 in the background, once.

use std::sync::{Arc, Weak};
use std::thread;

use super::database::{self, SqlError};
use super::writer::{self, Transaction, Written};
use super::{Shared, SqliteStore, closed, queries, tasks};
use crate::store::{StoreError, body};
use crate::task_record::TaskRecord;

/// The number of tasks that one transaction compacts in the background. A larger one would delay other writes.
const BATCH: usize = 32;

/// The size from which a batch is complete, in bytes of JSON.
const BATCH_BYTES: usize = 1 << 20;

/// A task whose record replaces its changes.
pub(super) struct LooseTask {
    id: String,
    owner: String,
    revision: u64,
    at_ms: i64,
    json: Vec<u8>,
}

impl LooseTask {
    pub(super) fn new(record: &TaskRecord) -> Result<Self, StoreError> {
        Ok(Self {
            id: record.task.id.clone(),
            owner: record.owner.clone(),
            revision: record.revision,
            at_ms: record.changed_ms,
            json: body::encode(record)?,
        })
    }
}

impl SqliteStore {
    /// Compacts the changes of tasks.
    pub(super) fn compact(&self, loose: Vec<LooseTask>) -> Result<Written<Vec<i64>>, StoreError> {
        let bytes = loose.iter().map(|task| task.json.len()).sum();
        let loose = Arc::new(loose);
        let (usage, compacted) = (self.shared.usage.clone(), Arc::clone(&loose));
        let work = move |transaction: &Transaction| {
            let compact = |task: &LooseTask| {
                tasks::compact(transaction, &task.id, task.revision, task.at_ms, &task.json)
            };
            loose.iter().map(compact).collect()
        };
        let after = move |more: &Vec<i64>| {
            for (task, more) in compacted.iter().zip(more) {
                usage.add(&task.owner, *more, 0);
            }
        };
        writer::send(&self.shared.commands, bytes, work, after)
    }

    /// Starts a thread that compacts all terminal tasks of a file of version 1. If the store is closed before the end, or the
    /// thread fails, the next process continues. Meanwhile the thread has one of the permits for loading tasks.
    ///
    /// # Errors
    /// The thread does not start.
    pub(super) fn compact_all(&self) -> Result<(), StoreError> {
        let taken = self.shared.loads.forget_permits(1);
        let shared = Arc::downgrade(&self.shared);
        let work = move || {
            let compacted = compact_all(&shared);
            let shared = shared.upgrade();
            if let Some(shared) = &shared {
                shared.loads.add_permits(taken);
            }
            let is_closed = shared.is_none_or(|shared| shared.readers.lock().closed);
            match compacted {
                Ok(0) => tracing::info!("the task store has the format of this version"),
                Ok(left) => tracing::warn!(
                    left,
                    "the task store has the format of this version, except for tasks that cannot be read"
                ),
                Err(error) if is_closed => {
                    tracing::debug!(%error, "the next process moves more tasks to the format of this version");
                }
                Err(error) => {
                    tracing::warn!(%error, "the task store keeps tasks in the earlier format until the next start");
                }
            }
        };
        let thread = thread::Builder::new().name("store-compaction".to_owned());
        let spawned = thread.spawn(work).map(drop);
        spawned.map_err(|error| database::no_thread(&error))
    }

    /// Compacts the next terminal tasks after the key `after`. Returns the key of the last one, and how many of them stay
    /// because they cannot be read; `None` if there is no further one.
    pub(super) fn compact_next(&self, after: i64) -> Result<Option<(i64, usize)>, StoreError> {
        let shared = &self.shared;
        let connection = shared.reader()?;
        let keys = queries::loose(&connection, after, BATCH);
        let keys = keys.map_err(|error| database::failed("read", &shared.path, &error))?;
        let (mut last, mut left, mut bytes, mut loose) = (None, 0, 0, Vec::new());
        for key in keys {
            let task = queries::load_key(&connection, key)
                .map_err(|error| error.into_store("read a task of", &shared.path))
                .and_then(|loaded| {
                    loaded
                        .map(|loaded| LooseTask::new(&loaded.record))
                        .transpose()
                });
            match task {
                Ok(Some(task)) => {
                    bytes += task.json.len();
                    loose.push(task);
                }
                // The task was deleted in the meantime.
                Ok(None) => {}
                // Every use of the task reports the damage.
                Err(error) => {
                    tracing::error!(%error, "a damaged task keeps its earlier format");
                    left += 1;
                }
            }
            last = Some((key, left));
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        shared.return_reader(connection);
        if !loose.is_empty() {
            self.compact(loose)?
                .blocking_recv()
                .map_err(|_| closed())??;
        }
        Ok(last)
    }
}

/// Compacts all terminal tasks, and returns how many stay because they cannot be read.
pub(super) fn compact_all(shared: &Weak<Shared>) -> Result<usize, StoreError> {
    // The thread does not keep the store open.
    let store = || {
        let shared = shared.upgrade().ok_or_else(closed)?;
        Ok::<_, StoreError>(SqliteStore { shared })
    };
    let (mut after, mut all_left) = (0, 0);
    while let Some((last, left)) = store()?.compact_next(after)? {
        after = last;
        all_left += left;
    }
    let work = |transaction: &Transaction| {
        let dropped = transaction.execute_batch("DROP INDEX IF EXISTS tasks_settled");
        dropped.map_err(SqlError::from)
    };
    let written = writer::send(&store()?.shared.commands, 0, work, |()| {})?;
    written.blocking_recv().map_err(|_| closed())??;
    Ok(all_left)
}
