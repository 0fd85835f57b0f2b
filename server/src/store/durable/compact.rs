//! Takes out what nobody needs: the oldest file goes, and what is needed of it is written again at the end.
//!
//! From the oldest on, because a line that says that a task is gone may only go when nothing older is left of it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use super::files::{self, Place};
use super::group::Group;
use super::index::{Body, Index};
use super::line::{self, Head};
use super::replay::task_of_damaged;
use super::writer::Writer;
use crate::store::StoreError;

/// Bytes that are written again in one go.
const PIECE: usize = 1 << 20;

impl Writer {
    /// Takes out the oldest file where more than half of all is not needed. One at a time, so that nobody waits long.
    pub(super) fn compact(&mut self) -> Result<(), StoreError> {
        let total: u64 = self.sizes.values().sum();
        let needed = self
            .index
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .needed;
        if total <= 2 * needed + self.slack {
            return Ok(());
        }
        self.take_out_oldest()
    }

    /// Takes out the oldest file.
    pub(super) fn take_out_oldest(&mut self) -> Result<(), StoreError> {
        let Some((&number, _)) = self.sizes.first_key_value() else {
            return Ok(());
        };
        if number == self.number {
            self.rotate()?;
        }
        let path = files::path(&self.directory, number);
        let text = fs::read(&path).map_err(|error| files::failed("read", &path, &error))?;
        let mut rewrite = Rewrite {
            index: Arc::clone(&self.index),
            number,
            seen: HashSet::new(),
            damaged: false,
        };
        let mut group = Group::default();
        let mut start = 0;
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            rewrite.line(piece, start, &mut group)?;
            start += piece.len() as u64;
            if group.lines.len() > PIECE {
                self.written_again(std::mem::take(&mut group))?;
            }
        }
        self.written_again(group)?;
        // On the disk before the other copy goes, however much may be lost with the power otherwise.
        self.disk
            .sync(&self.head, &files::path(&self.directory, self.number))?;
        take_away(&path, rewrite.damaged)
            .map_err(|error| files::failed("remove", &path, &error))?;
        self.sizes.remove(&number);
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.files.remove(&number);
        Ok(())
    }

    fn written_again(&mut self, group: Group) -> Result<(), StoreError> {
        if self.keep(group) {
            return Ok(());
        }
        Err(self
            .disk
            .troubled()
            .unwrap_or_else(|| StoreError::Failed("the task store cannot write".to_owned())))
    }
}

/// What is damaged in a file stays for whoever can mend it; no journal looks at it any more.
fn take_away(path: &Path, damaged: bool) -> std::io::Result<()> {
    if damaged {
        fs::rename(path, path.with_extension("damaged"))
    } else {
        fs::remove_file(path)
    }
}

struct Rewrite {
    index: Arc<RwLock<Index>>,
    number: u64,
    /// Tasks that are written again already.
    seen: HashSet<String>,
    damaged: bool,
}

impl Rewrite {
    fn line(&mut self, piece: &[u8], start: u64, group: &mut Group) -> Result<(), StoreError> {
        let text = piece.strip_suffix(b"\n").unwrap_or(piece);
        let place = Place {
            file: self.number,
            start,
            length: u32::try_from(text.len()).unwrap_or(u32::MAX),
        };
        match line::head(text) {
            Some(Head::New(record) | Head::Whole { record }) => {
                self.task(&record.task.id, place, text, group)
            }
            Some(Head::Change { id, .. } | Head::Unpush { id } | Head::Damaged { id, .. }) => {
                self.task(&id, place, text, group)
            }
            Some(Head::Push(push)) => self.task(&push.config.task_id, place, text, group),
            Some(Head::Context { id, .. }) => {
                // One that came to nothing. The tasks of every other say whose it is.
                let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
                index.forget_unused(&id);
                Ok(())
            }
            Some(Head::Gone(_) | Head::Journal { .. } | Head::Nothing) => Ok(()),
            None => {
                self.damaged |= piece.ends_with(b"\n");
                match task_of_damaged(text) {
                    Some(id) => self.task(&id, place, text, group),
                    None => Ok(()),
                }
            }
        }
    }

    fn task(
        &mut self,
        id: &str,
        place: Place,
        text: &[u8],
        group: &mut Group,
    ) -> Result<(), StoreError> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        match index.get(id).map(|task| &task.body) {
            Some(Body::Settled(at)) => {
                if *at == place {
                    group.copy(id, text);
                }
            }
            Some(Body::Live(live)) => {
                if self.seen.insert(id.to_owned()) {
                    group.fold(live)?;
                }
            }
            None => {
                if let Some(why) = index.damaged.get(id) {
                    self.damaged = true;
                    if self.seen.insert(id.to_owned()) {
                        group.damaged(id, why)?;
                    }
                }
            }
        }
        Ok(())
    }
}
