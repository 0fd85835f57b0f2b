//! Reopening a store.

use std::path::Path;

use a2a::v1_0::{TaskPushNotificationConfig, TaskState};

use super::{any, open, refused, reopen};
use crate::store::sqlite::check;
use crate::store::sqlite::compaction::LooseTask;
use crate::store::tests::{
    all, append, artifact, create, ids, load, set_final_state, status, test_time,
};
use crate::store::{Filter, Summary, TaskStore, body};
use crate::task_record::TaskChange;
use a2a::Version;

pub(super) fn chunk(text: &str, append: bool) -> TaskChange {
    TaskChange::Artifact {
        artifact: artifact("a", text),
        append,
        last_chunk: false,
    }
}

pub(super) fn config(task: &str, id: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: "https://example.com/hook".to_owned(),
        id: Some(id.to_owned()),
        task_id: task.to_owned(),
        token: Some("token".to_owned()),
        authentication: None,
        tenant: None,
    }
}

#[tokio::test]
async fn reopened_store_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let tasks = any(&store);
    let mut running = create(&tasks, "running", "ann", "c", 0).await;
    for n in 0..100 {
        append(&tasks, &mut running, chunk(&n.to_string(), n > 0), n).await;
    }
    let mut done = create(&tasks, "done", "bob", "d", 200).await;
    append(&tasks, &mut done, chunk("all", false), 210).await;
    set_final_state(&tasks, &mut done, TaskState::Completed, 220).await;
    create(&tasks, "deleted", "bob", "d", 300).await;
    store.delete("deleted").await.unwrap();
    store.get_or_create_context("e", "cid", "s").await.unwrap();
    store.close().await.unwrap();
    for _ in 0..3 {
        let store = any(&open(&directory));
        assert_eq!(load(&store, "running").await.as_ref(), Some(&running));
        assert_eq!(load(&store, "done").await.as_ref(), Some(&done));
        assert_eq!(ids(&store, &all()).await, ["done", "running"]);
        assert_eq!(
            store
                .get_or_create_context("c", "eve", "x")
                .await
                .unwrap()
                .owner,
            "ann"
        );
        assert_eq!(
            store
                .get_or_create_context("d", "eve", "x")
                .await
                .unwrap()
                .owner,
            "bob"
        );
        let own = store.get_or_create_context("e", "eve", "x").await.unwrap();
        assert_eq!((own.owner.as_str(), own.session.as_str()), ("cid", "s"));
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn task_continues_after_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut task = create(&any(&store), "t", "ann", "c", 0).await;
    append(&any(&store), &mut task, chunk("one", false), 1).await;
    let store = reopen(store, &directory).await;
    append(&any(&store), &mut task, chunk("two", true), 2).await;
    let store = reopen(store, &directory).await;
    set_final_state(&any(&store), &mut task, TaskState::Completed, 3).await;
    let store = reopen(store, &directory).await;
    assert_eq!(load(&any(&store), "t").await, Some(task));
}

#[tokio::test]
async fn lists_survive_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut done = create(&any(&store), "done", "ann", "c", 0).await;
    set_final_state(&any(&store), &mut done, TaskState::Failed, 50).await;
    create(&any(&store), "new", "ann", "d", 20).await;
    let store = any(&reopen(store, &directory).await);
    let state = |state| Filter {
        state: Some(state),
        ..all()
    };
    let after = |at| Filter {
        changed_after: Some(test_time(at)),
        ..all()
    };
    assert_eq!(ids(&store, &all()).await, ["done", "new"]);
    assert_eq!(ids(&store, &state(TaskState::Failed)).await, ["done"]);
    assert_eq!(ids(&store, &after(30)).await, ["done"]);
    assert_eq!(ids(&store, &after(60)).await, [""; 0]);
}

#[tokio::test]
async fn recover_returns_unfinished_tasks_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut waits = create(&any(&store), "waits", "ann", "c", 0).await;
    let waiting = TaskChange::Status(status(TaskState::InputRequired, 1));
    append(&any(&store), &mut waits, waiting, 1).await;
    let mut done = create(&any(&store), "done", "ann", "c", 0).await;
    set_final_state(&any(&store), &mut done, TaskState::Completed, 3).await;
    assert_eq!(store.recover().await, Ok(Vec::new()));
    let store = reopen(store, &directory).await;
    create(&any(&store), "own", "ann", "c", 5).await;
    assert_eq!(store.recover().await, Ok(vec![Summary::new(&waits)]));
    assert_eq!(store.recover().await, Ok(Vec::new()));
}

#[tokio::test]
async fn push_configurations_survive_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut done = create(&any(&store), "done", "ann", "c", 0).await;
    create(&any(&store), "running", "ann", "c", 0).await;
    for task in ["done", "running"] {
        for id in ["one", "two", "three"] {
            store
                .put_push(&config(task, id), Version::V0_3)
                .await
                .unwrap();
        }
        store.delete_push(task, "two").await.unwrap();
    }
    set_final_state(&any(&store), &mut done, TaskState::Completed, 3).await;
    store.delete_push("done", "one").await.unwrap();
    store
        .put_push(&config("done", "four"), Version::V1_0)
        .await
        .unwrap();
    let store = reopen(store, &directory).await;
    let stored_task = |task, ids: [(&str, Version); 2]| {
        Ok(ids
            .map(|(id, version)| (config(task, id), version))
            .to_vec())
    };
    let (old, new) = (Version::V0_3, Version::V1_0);
    assert_eq!(
        store.pushes("running").await,
        stored_task("running", [("one", old), ("three", old)])
    );
    assert_eq!(
        store.pushes("done").await,
        stored_task("done", [("three", old), ("four", new)])
    );
}

#[tokio::test]
async fn load_compacts_many_changes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut task = create(&any(&store), "t", "ann", "c", 0).await;
    for n in 0..200 {
        append(&any(&store), &mut task, chunk(&n.to_string(), n > 0), n).await;
    }
    assert_eq!(load(&any(&store), "t").await.as_ref(), Some(&task));
    // The load has queued the compaction, and writes run in order.
    append(&any(&store), &mut task, chunk("last", true), 300).await;
    let rows = store.read(|connection| {
        Ok(connection.query_row("SELECT count(*) FROM log", [], |row| row.get::<_, i64>(0))?)
    });
    assert_eq!(rows.await, Ok(2));
    let store = reopen(store, &directory).await;
    assert_eq!(load(&any(&store), "t").await, Some(task));
}

/// A compaction may run after later changes, which it keeps, whatever they are.
#[tokio::test]
async fn late_compaction_keeps_later_changes() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for state in [
        TaskState::Working,
        TaskState::InputRequired,
        TaskState::Completed,
        TaskState::Failed,
    ] {
        let id = format!("{state:?}");
        let mut task = create(&any(&store), &id, "ann", "c", 0).await;
        append(&any(&store), &mut task, chunk("early", false), 1).await;
        let early = task.clone();
        append(&any(&store), &mut task, chunk("later", true), 2).await;
        let last = TaskChange::Status(status(state, 3));
        append(&any(&store), &mut task, last, 3).await;
        drop(store.compact(vec![LooseTask::new(&early).unwrap()]));
        assert_eq!(load(&any(&store), &id).await.as_ref(), Some(&task));
        // The load has queued the compaction of a terminal task.
        assert_eq!(load(&any(&store), &id).await, Some(task));
    }
    store.close().await.unwrap();
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}

/// A file of version 1, as a server of that version left it: the answers are the same before and after the tasks move
/// into their rows.
#[tokio::test]
async fn file_of_version_1_is_upgraded() {
    let directory = tempfile::tempdir().unwrap();
    let earlier = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/serve/earlier_state");
    let file = directory.path().join("tasks.db");
    std::fs::copy(earlier.join("tasks.db"), file).unwrap();
    assert_eq!(check(directory.path()), Ok(Vec::new()));
    let expected = std::fs::read_to_string(earlier.join("tasks.json")).unwrap();
    let expected: Vec<serde_json::Value> = serde_json::from_str(&expected).unwrap();
    let mut store = open(&directory);
    let mut records = Vec::new();
    for task in store.list(&all()).await.unwrap().tasks {
        records.push(load(&any(&store), &task.id).await.unwrap());
    }
    for _ in 0..2 {
        // Closing runs the queued compactions.
        store = reopen(store, &directory).await;
        let page = store.page(&all(), 0).await.unwrap();
        assert_eq!(page.total, expected.len());
        let bodies = store.bodies(None, &page.tasks).await.unwrap();
        for ((record, json), expected) in records.iter().zip(bodies).zip(&expected) {
            let id = &record.task.id;
            assert_eq!(serde_json::to_value(&record.task).unwrap(), *expected);
            assert_eq!(load(&any(&store), id).await.as_ref(), Some(record));
            assert_eq!(json.is_some(), record.is_terminal(), "{id}");
            if let Some(json) = json {
                let sent = body::task_v1(&json, usize::MAX, true).unwrap();
                assert_eq!(sent, serde_json::to_vec(&record.task).unwrap());
            }
        }
    }
    store.close().await.unwrap();
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}

/// SQLite moves its log into the file by itself only if no other program has the file open.
#[tokio::test]
async fn close_moves_all_changes_into_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    create(&any(&store), "t", "ann", "c", 0).await;
    let backup = rusqlite::Connection::open(store.path()).unwrap();
    let count = "SELECT count(*) FROM tasks";
    let tasks = backup.query_row(count, [], |row| row.get::<_, i64>(0));
    assert_eq!(tasks, Ok(1));
    let log = directory.path().join("tasks.db-wal");
    assert_ne!(log.metadata().unwrap().len(), 0);
    store.close().await.unwrap();
    assert_eq!(log.metadata().unwrap().len(), 0);
}

#[tokio::test]
async fn file_of_other_version_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let path = store.path().to_owned();
    store.close().await.unwrap();
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_update(None, "user_version", 4).unwrap();
    drop(connection);
    let error = refused(directory.path());
    assert!(error.contains("format 4, this is 3"), "{error}");
}

#[test]
fn foreign_database_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(directory.path().join("tasks.db")).unwrap();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(connection);
    let error = refused(directory.path());
    assert!(error.contains("of another program"), "{error}");
}
