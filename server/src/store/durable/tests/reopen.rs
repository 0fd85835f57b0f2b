//! What is there after a restart.

use std::io::Write as _;

use a2a::{TaskPushNotificationConfig, TaskState};

use super::{any, journals, open, reopen, try_open};
use crate::caller::Version;
use crate::record::Change;
use crate::store::conformance::{all, append, artifact, create, ids, load, moment, settle, status};
use crate::store::{Filter, Store, StoreError};

fn chunk(text: &str, append: bool) -> Change {
    Change::Artifact {
        artifact: artifact("a", text),
        append,
        last_chunk: false,
    }
}

fn config(task: &str, id: &str) -> TaskPushNotificationConfig {
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
async fn everything_is_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let tasks = any(&store);
    let mut running = create(&tasks, "running", "ann", "c", 0).await;
    for n in 0..100 {
        append(&tasks, &mut running, chunk(&n.to_string(), n > 0), n).await;
    }
    let mut done = create(&tasks, "done", "bob", "d", 200).await;
    append(&tasks, &mut done, chunk("all", false), 210).await;
    settle(&tasks, &mut done, TaskState::Completed, 220).await;
    create(&tasks, "deleted", "bob", "d", 300).await;
    store.delete("deleted").await.unwrap();
    store.claim("e", "cid", "s").await.unwrap();
    store.close().await.unwrap();
    for _ in 0..3 {
        let store = any(&open(&directory));
        assert_eq!(load(&store, "running").await.as_ref(), Some(&running));
        assert_eq!(load(&store, "done").await.as_ref(), Some(&done));
        assert_eq!(ids(&store, &all()).await, ["done", "running"]);
        assert_eq!(store.claim("c", "eve", "x").await.unwrap().owner, "ann");
        assert_eq!(store.claim("d", "eve", "x").await.unwrap().owner, "bob");
        let own = store.claim("e", "eve", "x").await.unwrap();
        assert_eq!((own.owner.as_str(), own.session.as_str()), ("cid", "s"));
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_task_goes_on_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut task = create(&any(&store), "t", "ann", "c", 0).await;
    append(&any(&store), &mut task, chunk("one", false), 1).await;
    let store = reopen(store, &directory).await;
    append(&any(&store), &mut task, chunk("two", true), 2).await;
    let store = reopen(store, &directory).await;
    settle(&any(&store), &mut task, TaskState::Completed, 3).await;
    let store = reopen(store, &directory).await;
    assert_eq!(load(&any(&store), "t").await, Some(task));
}

#[tokio::test]
async fn lists_find_what_they_found_before() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut done = create(&any(&store), "done", "ann", "c", 0).await;
    settle(&any(&store), &mut done, TaskState::Failed, 50).await;
    create(&any(&store), "new", "ann", "d", 20).await;
    let store = any(&reopen(store, &directory).await);
    let state = |state| Filter {
        state: Some(state),
        ..all()
    };
    let after = |at| Filter {
        changed_after: Some(moment(at)),
        ..all()
    };
    assert_eq!(ids(&store, &all()).await, ["done", "new"]);
    assert_eq!(ids(&store, &state(TaskState::Failed)).await, ["done"]);
    assert_eq!(ids(&store, &after(30)).await, ["done"]);
    assert_eq!(ids(&store, &after(60)).await, [""; 0]);
}

#[tokio::test]
async fn only_what_another_process_left_is_recovered_and_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut waits = create(&any(&store), "waits", "ann", "c", 0).await;
    let waiting = Change::Status(status(TaskState::InputRequired, 1));
    append(&any(&store), &mut waits, waiting, 1).await;
    let mut done = create(&any(&store), "done", "ann", "c", 0).await;
    settle(&any(&store), &mut done, TaskState::Completed, 3).await;
    assert_eq!(store.recover().await, Ok(Vec::new()));
    let store = reopen(store, &directory).await;
    create(&any(&store), "own", "ann", "c", 5).await;
    assert_eq!(store.recover().await, Ok(vec![waits]));
    assert_eq!(store.recover().await, Ok(Vec::new()));
}

#[tokio::test]
async fn configurations_are_there_again() {
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
    settle(&any(&store), &mut done, TaskState::Completed, 3).await;
    store.delete_push("done", "one").await.unwrap();
    store
        .put_push(&config("done", "four"), Version::V1)
        .await
        .unwrap();
    let store = reopen(store, &directory).await;
    let kept = |task, ids: [(&str, Version); 2]| {
        Ok(ids
            .map(|(id, version)| (config(task, id), version))
            .to_vec())
    };
    let (old, new) = (Version::V0_3, Version::V1);
    assert_eq!(
        store.pushes("running").await,
        kept("running", [("one", old), ("three", old)])
    );
    assert_eq!(
        store.pushes("done").await,
        kept("done", [("three", old), ("four", new)])
    );
}

#[tokio::test]
async fn what_was_not_written_whole_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let made = create(&any(&store), "t", "ann", "c", 0).await;
    store.close().await.unwrap();
    let last = journals(&directory).pop().unwrap();
    let whole = std::fs::read(&last).unwrap();
    let line = whole
        .split_inclusive(|byte| *byte == b'\n')
        .next_back()
        .unwrap();
    for cut in [1, 8, 9, 40, line.len() - 1] {
        std::fs::write(&last, &whole).unwrap();
        let again = String::from_utf8_lossy(line).replace("\"t\"", "\"u\"");
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&last)
            .unwrap();
        file.write_all(&again.as_bytes()[..cut]).unwrap();
        drop(file);
        let store = try_open(directory.path()).unwrap();
        assert_eq!(store.damages(), []);
        assert_eq!(ids(&any(&store), &all()).await, ["t"]);
        // And nothing is written into the middle of it.
        let next = create(&any(&store), "next", "ann", "c", 1).await;
        let store = reopen(store, &directory).await;
        assert_eq!(store.damages(), []);
        assert_eq!(load(&any(&store), "t").await.as_ref(), Some(&made));
        assert_eq!(load(&any(&store), "next").await, Some(next));
        store.close().await.unwrap();
        for other in journals(&directory)
            .into_iter()
            .filter(|file| *file != last)
        {
            std::fs::remove_file(other).unwrap();
        }
    }
}

#[tokio::test]
async fn a_task_whose_end_was_not_folded_is_settled() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let mut done = create(&any(&store), "t", "ann", "c", 0).await;
    settle(&any(&store), &mut done, TaskState::Completed, 3).await;
    store.close().await.unwrap();
    let last = journals(&directory).pop().unwrap();
    let text = std::fs::read_to_string(&last).unwrap();
    let cut: Vec<&str> = text
        .split_inclusive('\n')
        .filter(|line| !line.contains("{\"whole\""))
        .collect();
    assert_eq!(cut.len() + 1, text.lines().count());
    std::fs::write(&last, cut.concat()).unwrap();
    let store = open(&directory);
    assert_eq!(store.recover().await, Ok(Vec::new()));
    assert_eq!(load(&any(&store), "t").await, Some(done));
    let late = store.append("t", 1, 0, &Change::Run("r".to_owned())).await;
    assert_eq!(late, Err(StoreError::Settled));
}

#[tokio::test]
async fn a_journal_of_another_version_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    store.close().await.unwrap();
    let first = journals(&directory).remove(0);
    let json = br#"{"journal":{"format":2}}"#;
    let line = [
        format!("{:08x} ", crc32fast::hash(json)).as_bytes(),
        json,
        b"\n",
    ]
    .concat();
    std::fs::write(&first, line).unwrap();
    match try_open(directory.path()) {
        Err(StoreError::Failed(why)) => assert!(why.contains("format 2, this is 1"), "{why}"),
        _ => panic!("it was read"),
    }
}
