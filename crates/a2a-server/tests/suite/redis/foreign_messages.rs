//! Messages and names that no server of this kind writes.

use a2a::v1_0::TaskState;
use a2a_server::store::{Filter, TaskStore, TaskUpdate};
use futures_util::StreamExt;

use crate::redis::foreign_data::{everything, run, start};
use crate::redis::rig::{append, chunk, connect, corrupt_task, create, in_time, record, set_state};
use testkit::support::redis_server::RedisServer;

#[tokio::test]
async fn unreadable_message_costs_a_subscriber_nothing() {
    let (_redis, store, mut other) = start().await;
    let mut task = create(&store, "t").await;
    let mut subscription = store.subscribe("t").await.unwrap().unwrap();
    for payload in [
        b"".as_slice(),
        b"\xff",
        b"1 {",
        b"1 {\"laterKind\":{}}",
        b"-1 {\"run\":\"x\"}",
        b"99999999999999999999999 {}",
    ] {
        run(&mut other, "PUBLISH ~@0:task:t", Some(payload)).await;
    }
    append(&store, &mut task, chunk("more")).await;
    set_state(&store, &mut task, TaskState::Completed).await;
    let mut received = subscription.record;
    while let Some(update) = in_time(subscription.updates.next()).await {
        match update {
            TaskUpdate::Change(_, change) => {
                let at = received.changed_ms + 1;
                received.apply(change.as_ref().clone(), at);
            }
            TaskUpdate::Snapshot(whole) => received = *whole,
        }
    }
    assert_eq!(received, task);
}

#[tokio::test]
async fn unreadable_task_ends_its_subscription() {
    let (redis, store, mut other) = start().await;
    create(&store, "t").await;
    let mut subscription = store.subscribe("t").await.unwrap().unwrap();
    corrupt_task(&redis, "t").await;
    // A gap in the revisions makes the subscriber load the task.
    run(&mut other, "PUBLISH ~@0:task:t", Some(b"7 {\"run\":\"x\"}")).await;
    assert_eq!(in_time(subscription.updates.next()).await, None);
}

#[tokio::test]
async fn ids_of_any_bytes_stay_apart() {
    let (_redis, store, _other) = start().await;
    let long = "x".repeat(1 << 12);
    let ids = [
        "*",
        "t*",
        "{t}",
        "t:owner:ann",
        "a b",
        "a\0b",
        "a\r\nb",
        "",
        "'); redis.call('FLUSHALL')",
        "all",
        &long,
    ];
    for id in ids {
        let mut one = record(id);
        one.task.context_id = id.to_owned();
        one.owner = id.to_owned();
        store.create(&one).await.unwrap();
        let context = store.get_or_create_context(id, "eve", "s").await.unwrap();
        assert_eq!(context.owner, id);
    }
    for id in ids {
        let loaded = store.load(id).await.unwrap().unwrap();
        assert_eq!(loaded.task.id, id);
        for filter in [
            Filter {
                owner: Some(id.to_owned()),
                ..everything()
            },
            Filter {
                context_id: Some(id.to_owned()),
                ..everything()
            },
            Filter {
                owner: Some(id.to_owned()),
                state: Some(TaskState::Submitted),
                ..everything()
            },
        ] {
            if filter.owner.as_deref() == Some("") {
                continue;
            }
            let found = store.list(&filter).await.unwrap();
            assert_eq!(found.total, 1, "{id:.40}");
        }
    }
}

#[tokio::test]
async fn prefix_of_any_printable_text_is_apart() {
    let redis = RedisServer::start();
    for prefix in ["*", "[a]?", "a b:", "{x}"] {
        let query: String = url::form_urlencoded::byte_serialize(prefix.as_bytes()).collect();
        let options =
            a2a_server::store::redis::Options::new(format!("{}?prefix={query}", redis.url()));
        let store = connect(&options).await;
        let mut task = create(&store, "t").await;
        let mut subscription = store.subscribe("t").await.unwrap().unwrap();
        append(&store, &mut task, chunk("x")).await;
        assert!(in_time(subscription.updates.next()).await.is_some());
        assert_eq!(store.delete("t").await, Ok(true));
    }
}
