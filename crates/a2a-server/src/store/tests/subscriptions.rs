//! Subscriptions to tasks.

use a2a::v1_0::TaskState;
use futures_util::StreamExt;

use super::{SharedStore, append, artifact, create, load, set_final_state};
use crate::store::{TaskSubscription, TaskUpdate};
use crate::task_record::{TaskChange, TaskRecord};

/// Reads a subscription to its end, and returns the record and the number of updates.
async fn read(subscription: TaskSubscription) -> (TaskRecord, usize) {
    let TaskSubscription {
        mut record,
        mut updates,
    } = subscription;
    let mut received = 0;
    while let Some(next) = updates.next().await {
        received += 1;
        match next {
            TaskUpdate::Change(revision, change) => {
                record.apply(change.as_ref().clone(), record.changed_ms);
                assert_eq!(record.revision, revision);
            }
            TaskUpdate::Snapshot(whole) => {
                assert!(whole.revision > record.revision);
                record = *whole;
            }
        }
    }
    (record, received)
}

async fn subscribe(store: &SharedStore, id: &str) -> TaskSubscription {
    store.subscribe(id).await.unwrap().unwrap()
}

fn chunk(n: usize) -> TaskChange {
    TaskChange::Artifact {
        artifact: artifact("a", &n.to_string()),
        append: n > 0,
        last_chunk: false,
    }
}

pub(crate) async fn subscriber_receives_later_changes(store: SharedStore) {
    let mut made = create(&store, "t", "ann", "c", 0).await;
    append(&store, &mut made, TaskChange::Run("before".to_owned()), 1).await;
    let mut subscription = subscribe(&store, "t").await;
    assert_eq!(subscription.record, made);
    append(&store, &mut made, chunk(0), 2).await;
    let received = subscription.updates.next().await;
    assert_eq!(received, Some(TaskUpdate::Change(2, chunk(0).into())));
    set_final_state(&store, &mut made, TaskState::Completed, 3).await;
    let received = subscription.updates.next().await;
    let end = TaskChange::Status(made.task.status.clone());
    assert_eq!(received, Some(TaskUpdate::Change(3, end.into())));
    assert_eq!(subscription.updates.next().await, None);
}

pub(crate) async fn subscription_to_terminal_task_is_empty(store: SharedStore) {
    let mut made = create(&store, "t", "ann", "c", 0).await;
    set_final_state(&store, &mut made, TaskState::Completed, 3).await;
    let (record, received) = read(subscribe(&store, "t").await).await;
    assert_eq!((record, received), (made, 0));
}

pub(crate) async fn subscription_ends_with_deletion(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let subscription = subscribe(&store, "t").await;
    store.delete("t").await.unwrap();
    assert_eq!(read(subscription).await.1, 0);
}

pub(crate) async fn subscription_to_unknown_task_is_none(store: SharedStore) {
    assert!(store.subscribe("t").await.unwrap().is_none());
}

pub(crate) async fn subscribers_receive_the_same_changes(store: SharedStore) {
    let mut made = create(&store, "t", "ann", "c", 0).await;
    let mut subscriptions = Vec::new();
    for n in 0..5 {
        subscriptions.push(subscribe(&store, "t").await);
        append(&store, &mut made, chunk(n), 1).await;
    }
    set_final_state(&store, &mut made, TaskState::Failed, 1).await;
    for (late, subscription) in subscriptions.into_iter().enumerate() {
        let (record, received) = read(subscription).await;
        assert_eq!(record.task, made.task);
        assert_eq!(received, 6 - late);
    }
}

pub(crate) async fn slow_subscriber_ends_with_the_whole_task(store: SharedStore) {
    let mut made = create(&store, "t", "ann", "c", 0).await;
    let subscription = subscribe(&store, "t").await;
    for n in 0..3_000 {
        append(&store, &mut made, chunk(n), 1).await;
    }
    set_final_state(&store, &mut made, TaskState::Completed, 2).await;
    let (record, received) = read(subscription).await;
    assert_eq!(record.task, made.task);
    assert_eq!(record.revision, made.revision);
    // The store has not buffered all changes for the slow subscriber.
    assert!(received < 3_000, "{received}");
}

pub(crate) async fn subscription_misses_no_change_after_load(store: SharedStore) {
    let mut made = create(&store, "t", "ann", "c", 0).await;
    // Subscribe once before, because the writer may finish before the next subscription.
    let mut subscriptions = vec![tokio::spawn(read(subscribe(&store, "t").await))];
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..200 {
                append(&store, &mut made, chunk(n), 1).await;
            }
            set_final_state(&store, &mut made, TaskState::Completed, 2).await;
        })
    };
    while !writer.is_finished() {
        let subscription = subscribe(&store, "t").await;
        if subscription.record.is_terminal() || subscriptions.len() > 500 {
            break;
        }
        subscriptions.push(tokio::spawn(read(subscription)));
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
    let end = load(&store, "t").await.unwrap();
    for subscription in subscriptions {
        assert_eq!(subscription.await.unwrap().0.task, end.task);
    }
}
