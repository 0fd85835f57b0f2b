#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::{Durable, Options};
use crate::store::conformance::{moment, store_laws};
use crate::store::{Store, StoreError};

mod damage;
mod lock;
mod reopen;
mod room;

/// A store with files so small that there are many.
fn open(directory: &TempDir) -> Durable {
    try_open(directory.path()).unwrap()
}

fn try_open(directory: &Path) -> Result<Durable, StoreError> {
    let mut options = Options::new(directory);
    options.file_size = 4_096;
    Durable::open(&options, moment(0))
}

/// The same as an [`Any`](crate::store::conformance::Any).
fn any(store: &Durable) -> Arc<dyn Store> {
    Arc::new(store.clone())
}

/// Closes a store and opens it again.
async fn reopen(store: Durable, directory: &TempDir) -> Durable {
    store.close().await.unwrap();
    open(directory)
}

/// The files of the journal, in order.
fn journals(directory: &TempDir) -> Vec<PathBuf> {
    let numbers = super::files::numbers(directory.path()).unwrap();
    let paths = numbers.into_iter();
    paths
        .map(|number| super::files::path(directory.path(), number))
        .collect()
}

store_laws!(async {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(open(&directory));
    (store, directory)
});
