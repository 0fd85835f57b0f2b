//! The compaction of a file of version 1 in the background.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{any, open, test_time};
use crate::store::sqlite::compaction::compact_all;
use crate::store::sqlite::database::SqlError;
use crate::store::sqlite::writer::Transaction;
use crate::store::sqlite::{Options, SqliteStore, check, queries};
use crate::store::tests::{all, load};
use crate::store::{Filter, StoreError, TaskStore, body};

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

/// Returns the number of terminal tasks outside of their rows, and whether a process has yet to move them.
async fn loose(store: &SqliteStore) -> (usize, bool) {
    let state = |connection: &Connection| {
        let loose = queries::loose(connection, 0, usize::MAX)?;
        Ok((loose.len(), queries::is_upgraded(connection)?))
    };
    store.read(state).await.unwrap()
}

/// Waits until the thread of the compaction has given its permit back.
async fn ended(store: &SqliteStore) {
    let permits = u32::try_from(body::MAX_LOADS).unwrap();
    let ended = store.shared.loads.acquire_many(permits);
    drop(timeout(Duration::from_secs(60), ended).await.unwrap());
}

/// Waits until the compaction has succeeded, and returns the number of terminal tasks outside of their rows.
async fn compacted(store: &SqliteStore) -> usize {
    ended(store).await;
    let (loose, is_upgraded) = loose(store).await;
    assert!(!is_upgraded);
    loose
}

/// Opens the directory, without the thread of the compaction.
fn open_as_it_is(directory: &TempDir) -> SqliteStore {
    let options = Options::new(directory.path());
    let (store, is_upgraded) = SqliteStore::open_as_it_is(&options, test_time(0)).unwrap();
    assert!(is_upgraded);
    store
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
    let page = store.page(&everything, 0).await.unwrap();
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
    let store = open_as_it_is(&directory);
    let shared = Arc::downgrade(&store.shared);
    let left = spawn_blocking(move || compact_all(&shared)).await.unwrap();
    assert_eq!(left, Ok(1));
    assert_eq!(loose(&store).await, (1, false));
    let read = store.load(&id).await;
    assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
    assert_eq!(check(directory.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn compaction_continues_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    drop(earlier(&directory));
    // This process ends after one batch.
    let store = open_as_it_is(&directory);
    let before = loose(&store).await.0;
    let one = store.clone();
    let moved = spawn_blocking(move || one.compact_next(0)).await.unwrap();
    assert!(moved.unwrap().is_some());
    let (after, is_upgraded) = loose(&store).await;
    assert!(
        0 < after && after < before && is_upgraded,
        "{after} of {before}"
    );
    store.close().await.unwrap();
    let store = open(&directory);
    assert_eq!(compacted(&store).await, 0);
    store.close().await.unwrap();
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}

#[tokio::test]
async fn failed_compaction_is_left_to_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let connection = earlier(&directory);
    let full = "CREATE TRIGGER full BEFORE UPDATE ON tasks WHEN NEW.body IS NOT NULL BEGIN SELECT RAISE(ABORT, 'full'); END";
    connection.execute_batch(full).unwrap();
    drop(connection);
    let store = open(&directory);
    ended(&store).await;
    let (left, is_upgraded) = loose(&store).await;
    assert!(left >= COPIES && is_upgraded, "{left}");
    let freed = |transaction: &Transaction| {
        let freed = transaction.execute_batch("DROP TRIGGER full");
        freed.map_err(SqlError::from)
    };
    store.write(0, freed, |()| {}).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(compacted(&open(&directory)).await, 0);
}
