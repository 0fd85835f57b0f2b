#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use a2a::v1_0::TaskState;
use tempfile::TempDir;

use super::{Options, SqliteStore};
use crate::store::tests::{all, create, set_final_state, store_conformance_tests, test_time};
use crate::store::{StoreError, TaskStore};

mod compaction;
mod damage;
mod lock;
mod reopen;
mod room;
mod totals;

fn open(directory: &TempDir) -> SqliteStore {
    try_open(directory.path()).unwrap()
}

fn try_open(directory: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&Options::new(directory), test_time(0))
}

/// Returns why a directory cannot be opened.
fn refused(directory: &Path) -> String {
    match try_open(directory) {
        Err(StoreError::Failed(error)) => error,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was opened"),
    }
}

/// Returns the store as an [`Any`](crate::store::tests::Any).
fn any(store: &SqliteStore) -> Arc<dyn TaskStore> {
    Arc::new(store.clone())
}

/// Closes a store and opens it again.
async fn reopen(store: SqliteStore, directory: &TempDir) -> SqliteStore {
    store.close().await.unwrap();
    open(directory)
}

store_conformance_tests!(async {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn TaskStore> = Arc::new(open(&directory));
    (store, directory)
});

#[tokio::test]
async fn deleted_task_leaves_no_record_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut task = create(&any(&store), "t", "ann", "c", 0).await;
    set_final_state(&any(&store), &mut task, TaskState::Completed, 1).await;
    store.page(&all(), usize::MAX).await.unwrap();
    assert!(store.shared.finished.has("t"));
    assert_eq!(store.delete("t").await, Ok(true));
    assert!(!store.shared.finished.has("t"));
}
