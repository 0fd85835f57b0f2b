//! The report and the export of damaged files.

use a2a::v1_0::TaskState;

use super::{any, open, refused, try_open};
use crate::store::sqlite::{check, export};
use crate::store::tests::{all, append, artifact, create, load, set_final_state};
use crate::store::{StoreError, TaskStore};
use crate::task_record::{TaskChange, TaskRecord};

/// Creates a closed database with tasks of every state, and returns the tasks.
async fn made(directory: &tempfile::TempDir) -> Vec<TaskRecord> {
    let store = open(directory);
    let tasks = any(&store);
    let mut made = Vec::new();
    for n in 0..40 {
        let mut task = create(&tasks, &format!("t{n}"), "ann", "c", n).await;
        for (step, text) in ["one", "two"].into_iter().enumerate() {
            let change = TaskChange::Artifact {
                artifact: artifact("a", &text.repeat(300)),
                append: step > 0,
                last_chunk: false,
            };
            append(&tasks, &mut task, change, n).await;
        }
        if n % 2 == 0 {
            set_final_state(&tasks, &mut task, TaskState::Completed, n).await;
        }
        made.push(task);
    }
    store.close().await.unwrap();
    made
}

fn file(directory: &tempfile::TempDir) -> std::path::PathBuf {
    directory.path().join("tasks.db")
}

#[tokio::test]
async fn check_of_intact_file_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    assert_eq!(check(directory.path()), Ok(Vec::new()));
    let mut found = Vec::new();
    let unread = export(directory.path(), |record| found.push(record)).unwrap();
    assert_eq!(unread, []);
    assert_eq!(found, made);
}

#[tokio::test]
async fn check_works_while_server_runs() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    create(&any(&store), "t", "ann", "c", 0).await;
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}

#[tokio::test]
async fn changed_byte_damages_its_task_only() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let mut bytes = std::fs::read(file(&directory)).unwrap();
    let excerpt = b"message-of-t3\"";
    let at = bytes
        .windows(excerpt.len())
        .position(|piece| piece == excerpt);
    bytes[at.unwrap()] ^= 0x01;
    std::fs::write(file(&directory), bytes).unwrap();
    let store = open(&directory);
    let Err(StoreError::Damaged(error)) = store.load("t3").await else {
        panic!("it was read");
    };
    assert!(
        error.starts_with("cannot read the task `t3`: its revision 0 is damaged"),
        "{error}"
    );
    assert!(error.contains("delete it, or restore"), "{error}");
    for task in made.iter().filter(|task| task.task.id != "t3") {
        assert_eq!(load(&any(&store), &task.task.id).await.as_ref(), Some(task));
    }
    assert_eq!(check(directory.path()).unwrap().len(), 1);
    assert_eq!(store.delete("t3").await, Ok(true));
    assert_eq!(check(directory.path()), Ok(Vec::new()));
}

#[tokio::test]
async fn wrong_checksum_damages_its_task_only() {
    for sum in ["-1", "NULL", "sum + 1", "1 << 40"] {
        let directory = tempfile::tempdir().unwrap();
        let made = made(&directory).await;
        let connection = rusqlite::Connection::open(file(&directory)).unwrap();
        let damage = format!("UPDATE tasks SET sum = {sum} WHERE id = 't2'");
        assert_eq!(connection.execute(&damage, []), Ok(1));
        drop(connection);
        let faults = check(directory.path()).unwrap();
        assert_eq!(faults.len(), 1, "{sum}: {faults:?}");
        let store = open(&directory);
        let page = store.page(&all(), 0).await.unwrap();
        let bodies = store.bodies(None, &page.tasks).await.unwrap();
        assert_eq!(bodies.iter().flatten().count(), made.len() / 2 - 1, "{sum}");
        let read = store.load("t2").await;
        assert!(
            matches!(read, Err(StoreError::Damaged(_))),
            "{sum}: {read:?}"
        );
    }
}

/// Deletes the rows of `t3` that `which` selects from the log. Checks that the store reports them, and returns the
/// error.
async fn without(which: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let connection = rusqlite::Connection::open(file(&directory)).unwrap();
    let t3 = "task = (SELECT key FROM tasks WHERE id = 't3')";
    let taken = connection.execute(&format!("DELETE FROM log WHERE {t3} AND {which}"), []);
    assert!(taken.unwrap() > 0);
    drop(connection);
    let faults = check(directory.path()).unwrap();
    assert_eq!(faults.len(), 1, "{faults:?}");
    let mut found = 0;
    let unread = export(directory.path(), |_| found += 1).unwrap();
    assert_eq!((found, unread.len()), (made.len() - 1, 1));
    let store = open(&directory);
    let Err(StoreError::Damaged(error)) = store.load("t3").await else {
        panic!("it was read");
    };
    error
}

#[tokio::test]
async fn task_without_record_is_damaged() {
    let error = without("1").await;
    assert!(error.contains("its record is missing"), "{error}");
}

#[tokio::test]
async fn task_without_last_change_is_damaged() {
    let error = without("revision = 2").await;
    assert!(
        error.contains("it is at revision 2, and its record ends at 1"),
        "{error}"
    );
}

#[tokio::test]
async fn damaged_page_leaves_other_tasks_exportable() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let whole = std::fs::read(file(&directory)).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 20, "{pages}");
    for page in 1..pages {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(file(&directory), bytes).unwrap();
        let faults = check(directory.path()).unwrap();
        assert!(!faults.is_empty(), "page {page}");
        let mut found = Vec::new();
        export(directory.path(), |record| found.push(record)).unwrap();
        for record in &found {
            assert!(made.contains(record), "page {page}: {}", record.task.id);
        }
        // The damaged page is the root of the log's tree, so no task can be listed.
        let log = faults.iter().any(|line| line.contains("list the tasks of"));
        assert!(
            log || found.len() >= made.len() - 8,
            "page {page}: {} found",
            found.len()
        );
    }
}

/// No task is unknown to clients because of it.
#[tokio::test]
async fn damaged_page_is_a_fault_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let made = made(&directory).await;
    let whole = std::fs::read(file(&directory)).unwrap();
    let mut failed = 0;
    for page in 1..whole.len() / 4096 {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        std::fs::write(file(&directory), bytes).unwrap();
        let Ok(store) = try_open(directory.path()) else {
            continue;
        };
        for task in &made {
            let Err(error) = store.load(&task.task.id).await else {
                continue;
            };
            if error.to_string().contains("the file is damaged") {
                assert!(matches!(error, StoreError::Failed(_)), "{error:?}");
                failed += 1;
            }
        }
        store.close().await.ok();
    }
    assert!(failed > 0);
}

#[tokio::test]
async fn file_without_header_is_reported_with_hint() {
    let directory = tempfile::tempdir().unwrap();
    made(&directory).await;
    let mut bytes = std::fs::read(file(&directory)).unwrap();
    bytes[..100].fill(0);
    std::fs::write(file(&directory), bytes).unwrap();
    let error = refused(directory.path());
    assert!(
        error.contains("tasks.db") && error.contains("the file is damaged"),
        "{error}"
    );
    assert!(error.contains("serve tasks export"), "{error}");
}
