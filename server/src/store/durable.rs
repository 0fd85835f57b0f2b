//! Tasks in a directory, through every crash.
//!
//! The directory holds a journal: numbered files of lines, each with a checksum. Whatever happens is a line at the end of the
//! last file, and is acknowledged when the operating system has it, or the disk ([`Fsync`]). One thread writes, and all that
//! waits for it goes into one write. When a task is settled it is written whole, in one line, and leaves the memory but for
//! what lists go by; files of which more than half is not needed any more are taken out from the oldest on.
//!
//! A database would have done, had one kept to this: a damaged line takes no other with it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread;

use chrono::{DateTime, Utc};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::hub::Hub;
use super::queues::Queues;
use super::{Fsync, StoreError};
use crate::record::Record;

mod command;
mod compact;
mod disk;
mod files;
mod group;
mod index;
mod line;
mod lock;
mod open;
mod read;
mod replay;
mod store;
mod writer;

pub use lock::{Holder, holder};
pub use replay::Damage;

use command::{Answer, Ask, Command};
use disk::Disk;
use index::Index;
use line::Kept;
use read::Found;

/// How a directory is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory; made where there is none.
    pub directory: PathBuf,
    /// When a change counts as kept.
    pub fsync: Fsync,
    /// After so many bytes a new file is begun.
    pub file_size: u64,
}

impl Options {
    /// For that directory, with what suits most.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            fsync: Fsync::default(),
            file_size: 8 << 20,
        }
    }
}

/// Keeps tasks in a directory. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Durable {
    shared: Arc<Shared>,
}

struct Shared {
    index: Arc<RwLock<Index>>,
    hub: Hub,
    queues: Queues,
    disk: Arc<Disk>,
    commands: mpsc::Sender<Command>,
    /// Tasks that an earlier process has left unsettled and nobody has asked for yet.
    left: Mutex<Vec<String>>,
    damages: Vec<Damage>,
    directory: PathBuf,
}

impl Durable {
    /// Opens a directory at the time `now`. Reads the whole journal, so it blocks.
    ///
    /// # Errors
    /// Another process has the directory, which is named; or it cannot be read or written.
    pub fn open(options: &Options, now: DateTime<Utc>) -> Result<Self, StoreError> {
        Self::start(open::open(options, now)?, options)
    }

    fn start(opened: open::Opened, options: &Options) -> Result<Self, StoreError> {
        let (commands, asked) = mpsc::channel();
        let left = opened.index.unsettled();
        let index = Arc::new(RwLock::new(opened.index));
        let hub = Hub::default();
        let disk = opened.disk;
        let writer = writer::Writer {
            directory: options.directory.clone(),
            index: Arc::clone(&index),
            hub: hub.clone(),
            disk: Arc::clone(&disk),
            fsync: options.fsync,
            lock: opened.lock,
            head: opened.head,
            number: opened.number,
            sizes: opened.sizes,
            file_size: options.file_size,
            slack: 2 * options.file_size,
        };
        let unfolded = opened.unfolded;
        let (writes, written) = mpsc::channel::<()>();
        start("store-writer", move || {
            let _writes = writes;
            writer.work(&unfolded, &asked);
        })?;
        if options.fsync == Fsync::Interval {
            let disk = Arc::clone(&disk);
            start("store-sync", move || disk.keep_synced(&written))?;
        }
        Ok(Self {
            shared: Arc::new(Shared {
                index,
                hub,
                queues: Queues::default(),
                disk,
                commands,
                left: Mutex::new(left),
                damages: opened.damages,
                directory: options.directory.clone(),
            }),
        })
    }

    /// The lines that could not be read when it was opened.
    pub fn damages(&self) -> &[Damage] {
        &self.shared.damages
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// Tells those who find the directory in use where this server can be asked.
    ///
    /// # Errors
    /// The store is closed.
    pub async fn announce(&self, url: String) -> Result<(), StoreError> {
        self.ask(Ask::Announce(url)).await.map(|_| ())
    }

    fn index<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        look(
            &self
                .shared
                .index
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command { ask, reply };
        self.shared.commands.send(command).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn count(&self, ask: Ask) -> Result<usize, StoreError> {
        match self.ask(ask).await? {
            Answer::Count(count) => Ok(count),
            Answer::Done | Answer::Context(_) => Ok(0),
        }
    }

    /// A task and its configurations, from memory or from its line.
    async fn find(&self, id: &str) -> Result<Option<(Record, Vec<Kept>)>, StoreError> {
        let found = self.index(|index| read::seek(index, id));
        match found? {
            None => Ok(None),
            Some(Found::Here(record, pushes)) => Ok(Some((*record, pushes))),
            Some(Found::There(id, file, place)) => blocking(move || read::read(&id, &file, place))
                .await?
                .map(Some),
        }
    }
}

fn closed() -> StoreError {
    StoreError::Failed("the task store is closed".to_owned())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    let failed = |_| StoreError::Failed("the task store was not read: the server stops".to_owned());
    spawn_blocking(work).await.map_err(failed)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(|_| ()).map_err(|error| {
        StoreError::Failed(format!("the task store cannot start a thread: {error}"))
    })
}

#[cfg(test)]
mod tests;
