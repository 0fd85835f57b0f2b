//! Opens a directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Options;
use super::disk::Disk;
use super::files;
use super::index::Index;
use super::lock::Lock;
use super::replay::{Damage, replay};
use super::writer::begin;
use crate::store::StoreError;

/// A directory that this process has.
pub(super) struct Opened {
    pub(super) lock: Lock,
    pub(super) index: Index,
    pub(super) damages: Vec<Damage>,
    pub(super) unfolded: Vec<String>,
    pub(super) head: Arc<File>,
    pub(super) number: u64,
    pub(super) sizes: BTreeMap<u64, u64>,
    pub(super) disk: Arc<Disk>,
}

pub(super) fn open(options: &Options, now: DateTime<Utc>) -> Result<Opened, StoreError> {
    let directory = &options.directory;
    files::create_directory(directory).map_err(|e| files::failed("create", directory, &e))?;
    let lock = Lock::take(directory, now)?;
    let replayed = replay(directory)?;
    let mut index = replayed.index;
    let mut sizes: BTreeMap<u64, u64> = replayed.sizes.into_iter().collect();
    // What a dying process left unfinished stays where it is: nothing is ever written over.
    let last = sizes
        .last_key_value()
        .map(|(number, size)| (*number, *size));
    let (number, head) = match last {
        Some((number, size)) if replayed.ended && size > 0 && size < options.file_size => {
            let path = files::path(directory, number);
            let head =
                files::open_to_append(&path).map_err(|e| files::failed("open", &path, &e))?;
            (number, head)
        }
        other => {
            let number = other.map_or(0, |(number, _)| number) + 1;
            let (head, size) = begin(&files::path(directory, number))?;
            files::sync_directory(directory).map_err(|e| files::failed("sync", directory, &e))?;
            sizes.insert(number, size);
            (number, head)
        }
    };
    let head = Arc::new(head);
    index.files.insert(number, Arc::clone(&head));
    let disk = Disk::new(Arc::clone(&head), files::path(directory, number));
    Ok(Opened {
        lock,
        index,
        damages: replayed.damages,
        unfolded: replayed.unfolded,
        head,
        number,
        sizes,
        disk: Arc::new(disk),
    })
}
