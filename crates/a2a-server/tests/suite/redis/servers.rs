//! Effects of one server at another.

use std::collections::HashSet;

use a2a::v1_0::TaskState;
use a2a_server::store::redis::Options;
use a2a_server::store::{StoreError, Summary, TaskStore, TaskUpdate};
use a2a_server::task_record::TaskChange;
use futures_util::StreamExt;

use crate::redis::foreign_data::{everything, start};
use crate::redis::rig::{append, chunk, connect, corrupt_task, create, in_time, server, set_state};
use testkit::support::redis_server::RedisServer;

#[tokio::test]
async fn task_is_visible_to_other_server() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let mut task = create(&one, "t").await;
    append(&one, &mut task, chunk("first")).await;
    assert_eq!(other.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn other_server_subscribes_to_task() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let mut task = create(&one, "t").await;
    append(&one, &mut task, chunk("first")).await;
    let subscription = other.subscribe("t").await.unwrap().unwrap();
    assert_eq!(subscription.record, task);
    append(&one, &mut task, chunk("second")).await;
    set_state(&one, &mut task, TaskState::Completed).await;
    let received: Vec<TaskUpdate> = in_time(subscription.updates.collect()).await;
    assert_eq!(
        received,
        [
            TaskUpdate::Change(2, chunk("second").into()),
            TaskUpdate::Change(3, TaskChange::Status(task.task.status.clone()).into()),
        ]
    );
}

#[tokio::test]
async fn cancel_request_reaches_running_server() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    create(&one, "t1").await;
    create(&other, "t2").await;
    other.request_cancel("t1").await.unwrap();
    one.request_cancel("t2").await.unwrap();
    assert_eq!(
        in_time(one.cancel_requests().next()).await.as_deref(),
        Some("t1")
    );
    assert_eq!(
        in_time(other.cancel_requests().next()).await.as_deref(),
        Some("t2")
    );
}

#[tokio::test]
async fn cancel_request_follows_recovered_task() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let mut task = create(&one, "t").await;
    set_state(&one, &mut task, TaskState::InputRequired).await;
    set_state(&other, &mut task, TaskState::Working).await;
    one.request_cancel("t").await.unwrap();
    assert_eq!(
        in_time(other.cancel_requests().next()).await.as_deref(),
        Some("t")
    );
}

#[tokio::test]
async fn cancel_of_unknown_task_is_not_found() {
    let redis = RedisServer::start();
    let one = server(&redis).await;
    assert_eq!(one.request_cancel("t").await, Err(StoreError::NotFound));
}

#[tokio::test]
async fn deletion_elsewhere_ends_subscriptions() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    create(&one, "t").await;
    let mut subscription = other.subscribe("t").await.unwrap().unwrap();
    assert_eq!(one.delete("t").await, Ok(true));
    assert_eq!(in_time(subscription.updates.next()).await, None);
    assert_eq!(other.load("t").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_two_servers_keep_their_order() {
    let redis = RedisServer::start();
    let watcher = server(&redis).await;
    let task = create(&watcher, "t").await;
    let mut subscription = watcher.subscribe("t").await.unwrap().unwrap();
    let mut writers = Vec::new();
    for name in ["one", "other"] {
        let store = server(&redis).await;
        let mut known = task.clone();
        writers.push(tokio::spawn(async move {
            for n in 0..500 {
                let change = chunk(&format!("{name} {n}"));
                loop {
                    match store
                        .append("t", known.revision, 1, std::slice::from_ref(&change))
                        .await
                    {
                        Ok(()) => break,
                        Err(StoreError::Conflict) => {
                            known = store.load("t").await.unwrap().unwrap();
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                known.apply(change, 1);
            }
        }));
    }
    let mut received = subscription.record;
    while received.revision < 1000 {
        match in_time(subscription.updates.next()).await.unwrap() {
            TaskUpdate::Change(revision, change) => {
                assert_eq!(revision, received.revision + 1);
                received.apply(change.as_ref().clone(), 1);
            }
            TaskUpdate::Snapshot(whole) => {
                assert!(whole.revision > received.revision);
                received = *whole;
            }
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let stored = watcher.load("t").await.unwrap().unwrap();
    assert_eq!(stored, received);
    let parts = &stored.task.artifacts.unwrap()[0].parts;
    assert_eq!(parts.len(), 1000);
    let different: HashSet<&str> = parts.iter().filter_map(|part| part.as_text()).collect();
    assert_eq!(different.len(), 1000);
}

#[tokio::test]
async fn databases_and_prefixes_are_separate() {
    let redis = RedisServer::start();
    let one = server(&redis).await;
    let elsewhere = connect(&Options::new(format!("{}1", redis.url()))).await;
    let beside = connect(&Options::new(format!("{}?prefix=beside:", redis.url()))).await;
    let mut task = create(&one, "t").await;
    for other in [&elsewhere, &beside] {
        assert_eq!(other.load("t").await, Ok(None));
        // The same id is free there, and is another task.
        create(other, "t").await;
        let mut subscription = other.subscribe("t").await.unwrap().unwrap();
        append(&one, &mut task, chunk("not yours")).await;
        other.delete("t").await.unwrap();
        assert_eq!(in_time(subscription.updates.next()).await, None);
    }
    assert_eq!(one.list(&everything()).await.unwrap().total, 1);
    assert_eq!(elsewhere.list(&everything()).await.unwrap().total, 0);
}

#[tokio::test]
async fn context_without_a_task_is_kept_for_a_day() {
    let (_redis, store, mut other) = start().await;
    for context in ["context-of-t", "empty"] {
        let created = store.get_or_create_context(context, "ann", "session");
        created.await.unwrap();
    }
    create(&store, "t").await;
    for (context, expected) in [("context-of-t", -1..=-1), ("empty", 80_000..=86_400)] {
        let key = format!("remote-agent:opened:{context}");
        let mut lifetime = redis::cmd("TTL");
        let lifetime = lifetime.arg(key).query_async(&mut other);
        let seconds: i64 = lifetime.await.unwrap();
        assert!(expected.contains(&seconds), "{context}: {seconds} s");
    }
}

#[tokio::test]
async fn unreadable_task_can_be_listed_and_deleted() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    create(&store, "broken").await;
    let whole = create(&store, "whole").await;
    corrupt_task(&redis, "broken").await;
    assert_eq!(store.list(&everything()).await.unwrap().total, 2);
    assert!(store.load("broken").await.is_err());
    assert_eq!(store.delete("broken").await, Ok(true));
    assert_eq!(
        store.list(&everything()).await.unwrap().tasks,
        [Summary::new(&whole)]
    );
}
