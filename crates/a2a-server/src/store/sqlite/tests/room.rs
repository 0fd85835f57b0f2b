//! The size of the database, and a full disk.

use std::time::Duration;

use a2a::v1_0::TaskState;

use super::{any, open};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::writer::Transaction;
use crate::store::tests::{append, artifact, create, load, record, set_final_state, test_time};
use crate::store::{Retention, StoreError, TaskStore};
use crate::task_record::{TaskChange, TaskRecord};

async fn task_with_history(store: &SqliteStore, id: &str, at: i64) -> TaskRecord {
    let tasks = any(store);
    let mut task = create(&tasks, id, "ann", &format!("context-of-{id}"), at).await;
    for n in 0..20 {
        let change = TaskChange::Artifact {
            artifact: artifact("a", &format!("chunk {n} of {id}").repeat(20)),
            append: n > 0,
            last_chunk: false,
        };
        append(&tasks, &mut task, change, at).await;
    }
    set_final_state(&tasks, &mut task, TaskState::Completed, at).await;
    task
}

#[tokio::test]
async fn deleted_tasks_shrink_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for n in 0..100 {
        task_with_history(&store, &format!("t{n}"), n).await;
    }
    let retention = Retention {
        age: Duration::from_secs(3_600),
        count: 5,
    };
    assert_eq!(store.prune(&retention, test_time(100)).await, Ok(95));
    let path = store.path().to_owned();
    store.close().await.unwrap();
    // A task takes about 12 kB.
    let size = path.metadata().unwrap().len();
    assert!(size < 400_000, "{size}");
    let store = open(&directory);
    // The contexts of deleted tasks are available again, and the other contexts are not.
    for (context, owner) in [("context-of-t0", "bob"), ("context-of-t99", "ann")] {
        let found = store
            .get_or_create_context(context, "bob", "s")
            .await
            .unwrap();
        assert_eq!(found.owner, owner, "{context}");
    }
}

#[tokio::test]
async fn full_disk_fails_writes_until_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let stored_task = create(&any(&store), "kept", "ann", "c", 0).await;
    let pages = |pages: i64| {
        store.write(
            0,
            move |connection| {
                Ok(
                    connection.pragma_update_and_check(None, "max_page_count", pages, |row| {
                        row.get::<_, i64>(0)
                    })?,
                )
            },
            |_| {},
        )
    };
    pages(1).await.unwrap();
    let mut large = record("large", "ann", "c", 1);
    large.session = "s".repeat(1 << 20);
    let refused = store.create(&large).await;
    let Err(StoreError::Failed(error)) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        error.contains("full") && error.contains("free some space"),
        "{error}"
    );
    let fits = |transaction: &Transaction| {
        Ok(transaction.execute("DELETE FROM contexts WHERE id = 'none'", [])?)
    };
    store.write(0, fits, |_| {}).await.unwrap();
    assert_eq!(store.ready().await, Err(StoreError::Failed(error)));
    assert_eq!(store.load("large").await, Ok(None));
    assert_eq!(load(&any(&store), "kept").await, Some(stored_task));
    pages(1 << 30).await.unwrap();
    assert_eq!(store.create(&large).await, Ok(()));
    assert_eq!(store.ready().await, Ok(()));
}

#[tokio::test]
async fn rejected_write_leaves_others_intact() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let record = record("t", "ann", "c", 0);
    let broken = store.write(
        0,
        |connection| {
            connection.execute("INSERT INTO contexts VALUES ('half', 'ann', 's')", [])?;
            Ok(connection.execute("INSERT INTO contexts VALUES (NULL, 'ann', 's')", [])?)
        },
        |_| {},
    );
    let (broken, created) = tokio::join!(broken, store.create(&record));
    assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
    assert_eq!(created, Ok(()));
    assert_eq!(
        store
            .get_or_create_context("half", "bob", "s")
            .await
            .unwrap()
            .owner,
        "bob"
    );
}
