//! Reads tasks, from memory or from their lines.

use std::fs::File;
use std::sync::{Arc, PoisonError, RwLock};

use super::files::Place;
use super::index::{self, Body, Index};
use super::line::Kept;
use super::replay;
use crate::record::Record;
use crate::store::{Cursor, Filter, Listed, StoreError};

/// Where a task was found.
pub(super) enum Found {
    Here(Box<Record>, Vec<Kept>),
    There(String, Arc<File>, Place),
}

/// Looks for a task.
pub(super) fn seek(index: &Index, id: &str) -> Result<Option<Found>, StoreError> {
    Ok(match index.get(id).map(|task| &task.body) {
        Some(Body::Live(live)) => Some(Found::Here(
            Box::new(live.record.clone()),
            live.pushes.clone(),
        )),
        Some(Body::Settled(place)) => {
            let file = index.files.get(&place.file);
            let file = file.ok_or_else(|| index::unreadable(id, "its file is gone"))?;
            Some(Found::There(id.to_owned(), Arc::clone(file), *place))
        }
        None => match index.unreadable(id) {
            Some(error) => return Err(error),
            None => None,
        },
    })
}

/// Reads a settled task.
pub(super) fn read(id: &str, file: &File, place: Place) -> Result<(Record, Vec<Kept>), StoreError> {
    replay::read_whole(file, place).map_err(|why| index::unreadable(id, &why))
}

/// Reads a page. A task whose line was damaged since the store was opened is left out: a list is not worth failing for it.
pub(super) fn page(index: &RwLock<Index>, filter: &Filter) -> Listed {
    let (found, more, total) = {
        let index = index.read().unwrap_or_else(PoisonError::into_inner);
        let (ids, more, total) = index.page(filter);
        let ranks = ids.into_iter().map(|(changed_ms, id)| {
            let found = seek(&index, &id);
            (changed_ms, id, found)
        });
        (ranks.collect::<Vec<_>>(), more, total)
    };
    let last = found.last().map(|(changed_ms, id, _)| Cursor {
        changed_ms: *changed_ms,
        task_id: id.as_ref().to_owned(),
    });
    let mut records = Vec::with_capacity(found.len());
    for (_, _, found) in found {
        let record = match found {
            Ok(Some(Found::Here(record, _))) => Ok(Some(*record)),
            Ok(Some(Found::There(id, file, place))) => {
                read(&id, &file, place).map(|(record, _)| Some(record))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match record {
            Ok(record) => records.extend(record),
            Err(error) => tracing::error!(%error, "a task is left out of a list"),
        }
    }
    Listed {
        records,
        next: last.filter(|_| more),
        total,
    }
}
