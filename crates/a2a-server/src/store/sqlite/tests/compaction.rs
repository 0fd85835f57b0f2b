//! The compaction of a file of version 1 in the background.

use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use super::{any, open};
use crate::store::sqlite::{SqliteStore, check};
use crate::store::tests::{all, load};
use crate::store::{Filter, StoreError, TaskStore};

/// More tasks than two batches have.
const COPIES: usize = 100;

/// Copies a file of version 1, with more copies of a terminal task.
fn earlier(directory: &TempDir) -> Connection {
    let earlier = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/serve/earlier_state");
    let file = directory.path().join("tasks.db");
    std::fs::copy(earlier.join("tasks.db"), &file).unwrap();
    let connection = Connection::open(&file).unwrap();
    let find = "SELECT key, id FROM tasks WHERE phase = 2 ORDER BY key LIMIT 1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let (key, id): (i64, String) = connection.query_row(find, [], row).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    for n in 0..COPIES {
        let mut copy = id.clone();
        copy.replace_range(..4, &format!("{n:04}"));
        copy_task(&connection, key, (&id, &copy));
    }
    connection.execute_batch("COMMIT").unwrap();
    connection
}

fn copy_task(connection: &Connection, key: i64, (id, copy): (&str, &str)) {
    let columns = "owner, context, agent, state, phase, since_us, created_ms, changed_ms, revision, bytes, asked, says";
    let insert =
        format!("INSERT INTO tasks (id, {columns}) SELECT ?2, {columns} FROM tasks WHERE key = ?1");
    connection.execute(&insert, (key, copy)).unwrap();
    let copied = connection.last_insert_rowid();
    let select = "SELECT revision, at_ms, CAST(body AS TEXT) FROM log WHERE task = ?1";
    let mut select = connection.prepare_cached(select).unwrap();
    let rows = select.query_map([key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let rows: Vec<(i64, i64, String)> = rows.unwrap().map(Result::unwrap).collect();
    for (revision, at_ms, json) in rows {
        let json = json.replace(id, copy).into_bytes();
        let row = (copied, revision, at_ms, crc32fast::hash(&json), json);
        let insert = "INSERT INTO log VALUES (?1, ?2, ?3, ?4, ?5)";
        connection.execute(insert, row).unwrap();
    }
}

/// Waits until the compaction has ended, and returns the number of terminal tasks outside of their rows.
async fn compacted(store: &SqliteStore) -> usize {
    loop {
        let state = |connection: &Connection| {
            let loose = super::super::queries::loose(connection, 0, usize::MAX)?;
            let is_upgraded = super::super::queries::is_upgraded(connection)?;
            Ok((loose.len(), is_upgraded))
        };
        match store.read(state).await.unwrap() {
            (loose, false) => return loose,
            (_, true) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn all_terminal_tasks_of_version_1_move_into_their_rows() {
    let directory = tempfile::tempdir().unwrap();
    drop(earlier(&directory));
    let store = open(&directory);
    let everything = Filter {
        page_size: 1000,
        ..all()
    };
    let mut before = Vec::new();
    for task in store.list(&everything).await.unwrap().tasks {
        before.push(load(&any(&store), &task.id).await.unwrap());
    }
    assert!(before.len() > COPIES);
    assert_eq!(compacted(&store).await, 0);
    let page = store.page(&everything).await.unwrap();
    let bodies = store.bodies(None, &page.tasks).await.unwrap();
    for (record, json) in before.iter().zip(bodies) {
        assert_eq!(
            load(&any(&store), &record.task.id).await.as_ref(),
            Some(record)
        );
        assert_eq!(json.is_some(), record.is_terminal());
    }
    store.close().await.unwrap();
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}

#[tokio::test]
async fn damaged_task_of_version_1_stays_and_the_others_move() {
    let directory = tempfile::tempdir().unwrap();
    let connection = earlier(&directory);
    let damage = "UPDATE log SET sum = sum + 1 WHERE task = (SELECT max(key) - 50 FROM tasks)";
    assert!(connection.execute(damage, []).unwrap() > 0);
    let find = "SELECT id FROM tasks WHERE key = (SELECT max(key) - 50 FROM tasks)";
    let id: String = connection.query_row(find, [], |row| row.get(0)).unwrap();
    drop(connection);
    let store = open(&directory);
    assert_eq!(compacted(&store).await, 1);
    let read = store.load(&id).await;
    assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
    assert_eq!(check(directory.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn compaction_continues_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    drop(earlier(&directory));
    // This process ends before the last batch, or at any time before.
    open(&directory).close().await.unwrap();
    let store = open(&directory);
    assert_eq!(compacted(&store).await, 0);
    store.close().await.unwrap();
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}
