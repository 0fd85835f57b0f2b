//! Tasks and their changes.

use std::collections::HashMap;

use a2a::v1_0::{Part, TaskState};
use futures_util::StreamExt as _;
use serde_json::json;

use super::{
    SharedStore, append, artifact, create, load, message, ms, record, refused, set_final_state,
    status,
};
use crate::store::{StoreError, Summary, TaskUpdate};
use crate::task_record::TaskChange;

pub(crate) async fn created_task_is_loaded(store: SharedStore) {
    let made = create(&store, "t", "ann", "c", 0).await;
    assert_eq!(load(&store, "t").await, Some(made));
}

pub(crate) async fn unknown_task_is_none(store: SharedStore) {
    assert_eq!(load(&store, "t").await, None);
}

pub(crate) async fn duplicate_id_is_a_conflict(store: SharedStore) {
    let first = create(&store, "t", "ann", "c", 0).await;
    let second = store.create(&record("t", "bob", "d", 1)).await;
    assert_eq!(second, Err(StoreError::Conflict));
    assert_eq!(load(&store, "t").await, Some(first));
}

pub(crate) async fn every_kind_of_change_is_stored(store: SharedStore) {
    let mut expected = create(&store, "t", "ann", "c", 0).await;
    let mut failed = status(TaskState::Failed, 60);
    failed.message = Some(message(
        "m-last",
        "it broke: \"quotes\", \n lines, and \u{1F980}",
    ));
    let changes = [
        TaskChange::Status(status(TaskState::Working, 10)),
        TaskChange::Run("run-1".to_owned()),
        TaskChange::Artifact {
            artifact: artifact("a", "text"),
            append: false,
            last_chunk: true,
        },
        TaskChange::Message(message("m-2", "more")),
        TaskChange::Metadata(HashMap::from([("usage".to_owned(), json!({"input": 3}))])),
        TaskChange::Status(failed),
    ];
    for (change, at) in changes.into_iter().zip([10, 20, 30, 40, 50, 60]) {
        append(&store, &mut expected, change, at).await;
        assert_eq!(load(&store, "t").await.as_ref(), Some(&expected));
    }
    assert_eq!(expected.revision, 6);
}

pub(crate) async fn chunks_of_an_artifact_are_joined(store: SharedStore) {
    let mut expected = create(&store, "t", "ann", "c", 0).await;
    for n in 0..300 {
        let change = TaskChange::Artifact {
            artifact: artifact("a", &format!("chunk {n}")),
            append: n > 0,
            last_chunk: n == 299,
        };
        append(&store, &mut expected, change, n).await;
    }
    let stored = load(&store, "t").await.unwrap();
    let artifacts = stored.task.artifacts.unwrap();
    assert_eq!(artifacts.len(), 1);
    let texts: Vec<&str> = artifacts[0]
        .parts
        .iter()
        .filter_map(Part::as_text)
        .collect();
    let expected: Vec<String> = (0..300).map(|n| format!("chunk {n}")).collect();
    assert_eq!(texts, expected);
}

pub(crate) async fn change_of_unknown_task_is_not_found(store: SharedStore) {
    assert_eq!(refused(&store, "t", 0).await, StoreError::NotFound);
}

pub(crate) async fn change_at_other_revision_is_a_conflict(store: SharedStore) {
    let mut expected = create(&store, "t", "ann", "c", 0).await;
    append(&store, &mut expected, TaskChange::Run("r".to_owned()), 1).await;
    assert_eq!(refused(&store, "t", 0).await, StoreError::Conflict);
    assert_eq!(refused(&store, "t", 2).await, StoreError::Conflict);
    assert_eq!(load(&store, "t").await, Some(expected));
}

pub(crate) async fn one_of_two_concurrent_changes_is_a_conflict(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let (one, other) = (
        [TaskChange::Run("one".to_owned())],
        [TaskChange::Run("other".to_owned())],
    );
    let (first, second) = tokio::join!(
        store.append("t", 0, ms(1), &one),
        store.append("t", 0, ms(1), &other),
    );
    let won = match (first, second) {
        (Ok(()), Err(StoreError::Conflict)) => "one",
        (Err(StoreError::Conflict), Ok(())) => "other",
        both => panic!("{both:?}"),
    };
    let stored = load(&store, "t").await.unwrap();
    assert_eq!(stored.run.as_deref(), Some(won));
    assert_eq!(stored.revision, 1);
}

pub(crate) async fn changes_of_one_write_are_all_stored(store: SharedStore) {
    let mut expected = create(&store, "t", "ann", "c", 0).await;
    let mut subscription = store.subscribe("t").await.unwrap().unwrap();
    let mut ended = status(TaskState::Completed, 5);
    ended.message = Some(message("m-last", "done"));
    let changes = [
        TaskChange::Message(message("m-2", "more")),
        TaskChange::Status(status(TaskState::Working, 5)),
        TaskChange::Run("run-1".to_owned()),
        TaskChange::Status(ended),
    ];
    store.append("t", 0, ms(5), &changes).await.unwrap();
    for change in &changes {
        expected.apply(change.clone(), ms(5));
        let received = subscription.updates.next().await;
        let sent = TaskUpdate::Change(expected.revision, change.clone().into());
        assert_eq!(received, Some(sent));
    }
    assert_eq!(subscription.updates.next().await, None);
    assert_eq!(load(&store, "t").await.as_ref(), Some(&expected));
    let listed = store.list(&super::all()).await.unwrap();
    assert_eq!(listed.tasks, [Summary::new(&expected)]);
}

pub(crate) async fn changes_of_a_rejected_write_are_not_stored(store: SharedStore) {
    let mut expected = create(&store, "t", "ann", "c", 0).await;
    append(&store, &mut expected, TaskChange::Run("r".to_owned()), 1).await;
    let late = ["one", "two"].map(|run| TaskChange::Run(run.to_owned()));
    let rejected = store.append("t", 0, ms(2), &late).await;
    assert_eq!(rejected, Err(StoreError::Conflict));
    assert_eq!(load(&store, "t").await, Some(expected));
}

pub(crate) async fn terminal_task_rejects_changes(store: SharedStore) {
    for (id, state) in [
        ("t1", TaskState::Completed),
        ("t2", TaskState::Failed),
        ("t3", TaskState::Canceled),
        ("t4", TaskState::Rejected),
    ] {
        let mut expected = create(&store, id, "ann", "c", 0).await;
        set_final_state(&store, &mut expected, state, 1).await;
        assert_eq!(refused(&store, id, 1).await, StoreError::Terminal);
        // A writer that has missed the end receives `Terminal`, not `Conflict`.
        assert_eq!(refused(&store, id, 0).await, StoreError::Terminal);
        assert_eq!(load(&store, id).await, Some(expected));
    }
}

pub(crate) async fn interrupted_task_accepts_changes(store: SharedStore) {
    let mut expected = create(&store, "t", "ann", "c", 0).await;
    for state in [
        TaskState::InputRequired,
        TaskState::AuthRequired,
        TaskState::Working,
    ] {
        append(
            &store,
            &mut expected,
            TaskChange::Status(status(state, 5)),
            5,
        )
        .await;
    }
    set_final_state(&store, &mut expected, TaskState::Completed, 6).await;
    assert_eq!(load(&store, "t").await, Some(expected));
}

pub(crate) async fn deleted_task_is_gone(store: SharedStore) {
    create(&store, "kept", "ann", "c", 0).await;
    create(&store, "running", "ann", "c", 0).await;
    let mut ended = create(&store, "ended", "ann", "c", 0).await;
    set_final_state(&store, &mut ended, TaskState::Completed, 1).await;
    for id in ["running", "ended"] {
        assert_eq!(store.delete(id).await, Ok(true));
        assert_eq!(load(&store, id).await, None);
        assert_eq!(refused(&store, id, 0).await, StoreError::NotFound);
    }
    assert_eq!(super::ids(&store, &super::all()).await, ["kept"]);
}

pub(crate) async fn delete_of_unknown_task_is_false(store: SharedStore) {
    assert_eq!(store.delete("t").await, Ok(false));
}

pub(crate) async fn concurrent_tasks_are_all_stored(store: SharedStore) {
    let work = (0..50).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut expected = create(&store, &format!("t{n}"), "ann", "c", n).await;
            for step in 0..10 {
                let change = TaskChange::Artifact {
                    artifact: artifact("a", &format!("{n}.{step}")),
                    append: step > 0,
                    last_chunk: step == 9,
                };
                append(&store, &mut expected, change, n + step).await;
            }
            set_final_state(&store, &mut expected, TaskState::Completed, n + 10).await;
            expected
        })
    });
    for done in futures_util::future::join_all(work).await {
        let expected = done.unwrap();
        assert_eq!(
            load(&store, &expected.task.id).await.as_ref(),
            Some(&expected)
        );
    }
    assert_eq!(store.list(&super::all()).await.unwrap().total, 50);
}
