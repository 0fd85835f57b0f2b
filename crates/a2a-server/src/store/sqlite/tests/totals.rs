//! The totals of clients.

use std::time::Duration;

use a2a::Version;
use a2a::v1_0::TaskState;
use rusqlite::Connection;

use super::reopen::{chunk, config};
use super::{any, open, reopen};
use crate::store::sqlite::{SqliteStore, check};
use crate::store::tests::{all, append, create, load, set_final_state, test_time};
use crate::store::{Filter, Retention, TaskStore, body};

/// Returns tasks and bytes of each client. Checks that the memory of the store and its file have the same.
async fn totals(store: &SqliteStore) -> Vec<(String, i64, i64)> {
    let directory = store.path().parent().unwrap();
    assert_eq!(check(directory), Ok(Vec::new()));
    let stored = store.read(|connection| {
        let mut select = connection.prepare("SELECT * FROM totals")?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?)
    });
    let stored = stored.await.unwrap();
    let counts = store.shared.usage.0.lock();
    let mut known: Vec<_> = counts.by_owner.iter().collect();
    known.sort_unstable_by_key(|(owner, _)| *owner);
    let known = known.into_iter();
    let known = known.map(|(owner, own)| (owner.clone(), own.tasks, own.bytes));
    assert_eq!(known.collect::<Vec<_>>(), stored);
    stored
}

#[tokio::test]
async fn totals_follow_every_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let tasks = any(&store);
    assert_eq!(totals(&store).await, []);
    let mut done = create(&tasks, "done", "ann", "c", 0).await;
    let mut long = create(&tasks, "long", "bob", "d", 0).await;
    let mut before = totals(&store).await;
    for n in 0..=body::MAX_CHANGES {
        append(&tasks, &mut long, chunk("text", n > 0), 1).await;
    }
    store
        .put_push(&config("done", "one"), Version::V1_0)
        .await
        .unwrap();
    let after = totals(&store).await;
    assert!(before[0].2 < after[0].2 && before[1].2 < after[1].2);
    before = after;
    // The load has queued the compaction, and writes run in order.
    load(&tasks, "long").await.unwrap();
    store.delete_push("done", "one").await.unwrap();
    let after = totals(&store).await;
    assert!(after[0].2 < before[0].2 && after[1].2 < before[1].2);
    set_final_state(&tasks, &mut done, TaskState::Completed, 2).await;
    let ended = totals(&store).await;
    let store = reopen(store, &directory).await;
    assert_eq!(totals(&store).await, ended);
    let retention = Retention {
        age: Duration::ZERO,
        count: 0,
    };
    assert_eq!(store.prune(&retention, test_time(10)).await, Ok(1));
    assert_eq!(totals(&store).await, ended[1..]);
    assert_eq!(store.delete("long").await, Ok(true));
    assert_eq!(totals(&store).await, []);
}

#[tokio::test]
async fn file_of_version_2_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for (id, owner) in [("a", "ann"), ("b", "bob"), ("c", "bob")] {
        let mut task = create(&any(&store), id, owner, id, 0).await;
        set_final_state(&any(&store), &mut task, TaskState::Completed, 1).await;
    }
    let expected = totals(&store).await;
    let path = store.path().to_owned();
    store.close().await.unwrap();
    let connection = Connection::open(&path).unwrap();
    let earlier = "DROP TABLE totals; DROP INDEX tasks_of_context; CREATE INDEX tasks_by_context ON tasks (context); PRAGMA user_version = 2";
    connection.execute_batch(earlier).unwrap();
    drop(connection);
    assert_eq!(check(directory.path()), Ok(Vec::new()));
    let store = open(&directory);
    assert_eq!(totals(&store).await, expected);
    let own = Filter {
        owner: Some("bob".to_owned()),
        ..all()
    };
    assert_eq!(store.list(&own).await.unwrap().total, 2);
    let index = store.read(|connection| {
        let name = "SELECT group_concat(name) FROM sqlite_schema WHERE name LIKE 'tasks%context'";
        Ok(connection.query_row(name, [], |row| row.get::<_, String>(0))?)
    });
    assert_eq!(index.await.unwrap(), "tasks_of_context");
}

#[tokio::test]
async fn wrong_totals_are_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    create(&any(&store), "t", "ann", "c", 0).await;
    let path = store.path().to_owned();
    store.close().await.unwrap();
    for change in ["UPDATE totals SET bytes = bytes + 1", "DELETE FROM totals"] {
        Connection::open(&path)
            .unwrap()
            .execute_batch(change)
            .unwrap();
        let faults = check(directory.path()).unwrap();
        assert_eq!(faults.len(), 1, "{change}");
        assert!(
            faults[0].contains("the totals of the client `ann`"),
            "{faults:?}"
        );
    }
}
