//! Contexts, queues, and push notification configurations.

use std::time::Duration;

use a2a::v1_0::{TaskPushNotificationConfig, TaskState};

use super::{SharedStore, create, set_final_state};
use crate::store::{Budget, Context, QueueTicket, StoreError};
use a2a::Version;

pub(crate) async fn context_belongs_to_first_client(store: SharedStore) {
    let anns = Context {
        owner: "ann".to_owned(),
        session: "s1".to_owned(),
    };
    assert_eq!(
        store.get_or_create_context("c", "ann", "s1").await,
        Ok(anns.clone())
    );
    assert_eq!(
        store.get_or_create_context("c", "bob", "s2").await,
        Ok(anns.clone())
    );
    // The context also keeps its session.
    assert_eq!(
        store.get_or_create_context("c", "ann", "s3").await,
        Ok(anns)
    );
    assert_eq!(
        store
            .get_or_create_context("d", "bob", "s2")
            .await
            .unwrap()
            .owner,
        "bob"
    );
}

pub(crate) async fn context_is_deleted_with_its_last_task(store: SharedStore) {
    store.get_or_create_context("c", "ann", "s").await.unwrap();
    create(&store, "t1", "ann", "c", 0).await;
    create(&store, "t2", "ann", "c", 0).await;
    store.delete("t1").await.unwrap();
    assert_eq!(
        store
            .get_or_create_context("c", "bob", "s")
            .await
            .unwrap()
            .owner,
        "ann"
    );
}

/// Returns whether a ticket is pending after all other tasks had time to run.
async fn waits(future: &mut QueueTicket) -> bool {
    tokio::time::timeout(Duration::from_millis(30), future)
        .await
        .is_err()
}

async fn enqueue(store: &SharedStore, queue: &str, task: &str) -> QueueTicket {
    store.enqueue(queue, task).await.unwrap()
}

pub(crate) async fn queue_is_first_in_first_out(store: SharedStore) {
    let first = enqueue(&store, "q", "t1").await.await.unwrap();
    let mut second = enqueue(&store, "q", "t2").await;
    let mut third = enqueue(&store, "q", "t3").await;
    assert!(waits(&mut second).await);
    assert!(waits(&mut third).await);
    drop(first);
    let second = second.await.unwrap();
    assert!(waits(&mut third).await);
    drop(second);
    third.await.unwrap();
}

pub(crate) async fn enqueue_takes_position_before_waiting(store: SharedStore) {
    let first = enqueue(&store, "q", "t1").await;
    let mut second = enqueue(&store, "q", "t2").await;
    assert!(waits(&mut second).await);
    drop(first.await.unwrap());
    second.await.unwrap();
}

pub(crate) async fn queues_are_independent(store: SharedStore) {
    let _one = enqueue(&store, "q", "t1").await.await.unwrap();
    let _other = enqueue(&store, "p", "t2").await.await.unwrap();
}

pub(crate) async fn dropped_ticket_leaves_the_queue(store: SharedStore) {
    let first = enqueue(&store, "q", "t1").await.await.unwrap();
    let mut second = enqueue(&store, "q", "t2").await;
    let mut last = enqueue(&store, "q", "t3").await;
    assert!(waits(&mut second).await);
    assert!(waits(&mut last).await);
    drop(second);
    assert!(waits(&mut last).await);
    drop(first);
    last.await.unwrap();
}

fn config(task: &str, id: &str, url: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: url.to_owned(),
        id: Some(id.to_owned()),
        task_id: task.to_owned(),
        token: Some("token".to_owned()),
        authentication: None,
        tenant: None,
    }
}

pub(crate) async fn push_configuration_is_stored(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let made = config("t", "one", "https://example.com/hook");
    store.put_push(&made, Version::V0_3).await.unwrap();
    assert_eq!(store.pushes("t").await, Ok(vec![(made, Version::V0_3)]));
    assert_eq!(store.pushes("other").await, Ok(Vec::new()));
}

pub(crate) async fn push_configurations_keep_order(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let names = ["z", "a", "m", "b", "y", "c", "x", "d", "w", "e", "v"];
    for name in names {
        let made = config("t", name, "https://example.com/hook");
        store.put_push(&made, Version::V1_0).await.unwrap();
    }
    let configs = store.pushes("t").await.unwrap();
    let configs: Vec<_> = configs
        .into_iter()
        .filter_map(|(made, _)| made.id)
        .collect();
    assert_eq!(configs, names);
}

pub(crate) async fn push_configuration_with_same_id_is_replaced(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let (old, new) = (
        config("t", "one", "https://a.example/"),
        config("t", "one", "https://b.example/"),
    );
    store.put_push(&old, Version::V0_3).await.unwrap();
    store.put_push(&new, Version::V1_0).await.unwrap();
    assert_eq!(store.pushes("t").await, Ok(vec![(new, Version::V1_0)]));
}

pub(crate) async fn deleted_push_configuration_is_gone(store: SharedStore) {
    let mut task = create(&store, "t", "ann", "c", 0).await;
    let (one, two) = (
        config("t", "one", "https://a.example/"),
        config("t", "two", "https://a.example/"),
    );
    store.put_push(&one, Version::V1_0).await.unwrap();
    store.put_push(&two, Version::V1_0).await.unwrap();
    // A client may delete configurations of a terminal task.
    set_final_state(&store, &mut task, TaskState::Completed, 1).await;
    assert_eq!(store.delete_push("t", "one").await, Ok(true));
    assert_eq!(store.delete_push("t", "one").await, Ok(false));
    assert_eq!(store.delete_push("other", "two").await, Ok(false));
    assert_eq!(store.pushes("t").await, Ok(vec![(two, Version::V1_0)]));
}

pub(crate) async fn deleted_task_deletes_its_configurations(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let made = config("t", "one", "https://a.example/");
    store.put_push(&made, Version::V1_0).await.unwrap();
    store.delete("t").await.unwrap();
    assert_eq!(store.pushes("t").await, Ok(Vec::new()));
}

pub(crate) async fn push_configuration_needs_its_task(store: SharedStore) {
    let made = config("t", "one", "https://a.example/");
    assert_eq!(
        store.put_push(&made, Version::V1_0).await,
        Err(StoreError::NotFound)
    );
}

pub(crate) async fn push_configurations_count_in_the_budget(store: SharedStore) {
    create(&store, "t", "ann", "c", 0).await;
    let budget = Budget {
        per_client: 30_000,
        total: 1_000_000,
    };
    let fits = async |bytes| store.make_room("ann", bytes, &budget, false).await;
    assert_eq!(fits(20_000).await, Ok(true));
    let large = format!("https://a.example/{}", "x".repeat(6_000));
    let small = "https://a.example/";
    for id in ["one", "two"] {
        store
            .put_push(&config("t", id, &large), Version::V1_0)
            .await
            .unwrap();
    }
    assert_eq!(fits(20_000).await, Ok(false), "two configurations");
    store
        .put_push(&config("t", "one", small), Version::V1_0)
        .await
        .unwrap();
    assert_eq!(fits(20_000).await, Ok(true), "a smaller replacement");
    assert_eq!(fits(26_000).await, Ok(false), "the other configuration");
    store.delete_push("t", "two").await.unwrap();
    assert_eq!(fits(26_000).await, Ok(true), "a deleted configuration");
    store.delete("t").await.unwrap();
    assert_eq!(fits(30_000).await, Ok(true), "a deleted task");
}

pub(crate) async fn working_store_is_ready(store: SharedStore) {
    assert_eq!(store.ready().await, Ok(()));
}
