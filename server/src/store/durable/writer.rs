//! The one thread that writes a journal. What waits for it goes into one write, and one wait for the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError, RwLock};

use super::command::{Ask, Command, Reply};
use super::disk::Disk;
use super::files;
use super::group::Group;
use super::index::Index;
use super::line::{FORMAT, Write};
use super::lock::Lock;
use crate::store::hub::Hub;
use crate::store::{Fsync, StoreError};

/// Requests in one write.
const TOGETHER: usize = 512;

/// Bytes in one write, more or less.
const AT_ONCE: usize = 4 << 20;

/// Writes a journal. A file that is longer than `file_size` is followed by the next one.
pub(super) struct Writer {
    pub(super) directory: PathBuf,
    pub(super) index: Arc<RwLock<Index>>,
    pub(super) hub: Hub,
    pub(super) disk: Arc<Disk>,
    pub(super) fsync: Fsync,
    pub(super) lock: Lock,
    /// What is written to.
    pub(super) head: Arc<File>,
    pub(super) number: u64,
    /// The sizes of all files, the head's too.
    pub(super) sizes: BTreeMap<u64, u64>,
    pub(super) file_size: u64,
    /// Bytes that nobody needs and that are not worth the work of taking them out.
    pub(super) slack: u64,
}

impl Writer {
    /// Works until it is told to close, or nobody is left who could ask.
    pub(super) fn work(mut self, unfolded: &[String], commands: &Receiver<Command>) {
        self.fold(unfolded);
        let mut carried: Option<Command> = None;
        let closing = loop {
            let Some(first) = carried.take().or_else(|| commands.recv().ok()) else {
                break None;
            };
            let first = match first.ask {
                Ask::Close => break Some(first.reply),
                Ask::Announce(url) => {
                    self.lock.announce(url);
                    let _ = first.reply.send(Ok(super::command::Answer::Done));
                    continue;
                }
                _ => first,
            };
            let mut group = Group::default();
            {
                let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
                group.take(first, &index);
                while group.len() < TOGETHER && group.lines.len() < AT_ONCE {
                    let Ok(next) = commands.try_recv() else {
                        break;
                    };
                    let alone = matches!(next.ask, Ask::Close | Ask::Announce(_));
                    if alone || group.concerns(&next.ask) {
                        carried = Some(next);
                        break;
                    }
                    group.take(next, &index);
                }
            }
            self.keep(group);
            self.tidy();
        };
        self.close(closing);
    }

    /// Writes tasks whole that are settled and were not written whole.
    fn fold(&mut self, unfolded: &[String]) {
        let mut group = Group::default();
        {
            let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
            for id in unfolded {
                if let Some(live) = index.live(id)
                    && let Err(error) = group.fold(live)
                {
                    tracing::warn!(%error, "a settled task cannot be written whole");
                }
            }
        }
        self.keep(group);
    }

    /// Writes a group, applies it, and tells everybody.
    pub(super) fn keep(&mut self, group: Group) -> bool {
        if group.is_empty() {
            return true;
        }
        let start = self.size();
        match self.write(&group.lines) {
            Ok(()) => {
                let told = {
                    let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
                    group.apply(&mut index, self.number, start)
                };
                told.tell(&self.hub);
                true
            }
            Err(error) => {
                tracing::error!(%error, "the task store cannot keep anything");
                group.fail(&error);
                false
            }
        }
    }

    fn write(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        self.disk.usable()?;
        let path = files::path(&self.directory, self.number);
        let size = self.size();
        let written = (&*self.head).write_all(lines);
        if let Err(error) = written {
            let error = files::failed("write", &path, &error);
            // What half a write has left would be read as a damaged line.
            match self.head.set_len(size) {
                Ok(()) => self.disk.trouble(error.clone()),
                Err(_) => self.disk.give_up(error.clone()),
            }
            return Err(error);
        }
        self.sizes.insert(self.number, size + lines.len() as u64);
        match self.fsync {
            Fsync::Always => self.disk.sync(&self.head, &path)?,
            Fsync::Interval => self.disk.soil(),
            Fsync::Never => {}
        }
        self.disk.fine();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.sizes.get(&self.number).copied().unwrap_or(0)
    }

    /// Begins the next file, where this one is full, and takes out what nobody needs.
    fn tidy(&mut self) {
        let tidied = if self.size() > self.file_size {
            self.rotate().and_then(|()| self.compact())
        } else {
            self.compact()
        };
        if let Err(error) = tidied {
            // Everything is kept; it only takes more room.
            tracing::warn!(%error, "the task store cannot be tidied");
        }
    }

    /// Begins the next file.
    pub(super) fn rotate(&mut self) -> Result<(), StoreError> {
        let number = self.number + 1;
        let path = files::path(&self.directory, number);
        if self.fsync != Fsync::Never {
            self.disk
                .sync(&self.head, &files::path(&self.directory, self.number))?;
        }
        let (head, size) = begin(&path)?;
        files::sync_directory(&self.directory)
            .map_err(|error| files::failed("sync", &self.directory, &error))?;
        self.head = Arc::new(head);
        self.number = number;
        self.sizes.insert(number, size);
        self.disk.turn_to(Arc::clone(&self.head), path);
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.files.insert(number, Arc::clone(&self.head));
        Ok(())
    }

    fn close(self, reply: Option<Reply>) {
        let synced = self
            .disk
            .sync(&self.head, &files::path(&self.directory, self.number));
        drop(self.lock);
        if let Some(reply) = reply {
            let _ = reply.send(synced.map(|()| super::command::Answer::Done));
        }
    }
}

/// Opens a file that is new, and writes its first line.
pub(super) fn begin(path: &std::path::Path) -> Result<(File, u64), StoreError> {
    let mut head =
        files::open_to_append(path).map_err(|error| files::failed("create", path, &error))?;
    let line = Write::Journal { format: FORMAT }.line()?;
    let began = head.write_all(&line).and_then(|()| head.metadata());
    let size = began
        .map_err(|error| files::failed("write", path, &error))?
        .len();
    Ok((head, size))
}
