//! Redis goes away and comes back.

use std::time::Duration;

use a2a::v1_0::TaskState;
use a2a_server::store::redis::{Options, RedisStore};
use a2a_server::store::{StoreError, TaskStore, TaskUpdate};
use futures_util::StreamExt;

use crate::redis::rig::{
    append, chunk, connect, create, in_time, record, server, set_state, until,
};
use testkit::support::redis_server::RedisServer;

/// Starts a Redis that syncs every write.
fn start_durable_redis() -> RedisServer {
    RedisServer::start_with(&[
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ])
}

async fn is_ready(store: &RedisStore) {
    until(|| async { store.ready().await.ok() }).await;
}

#[tokio::test]
async fn writes_fail_while_redis_is_away() {
    let mut redis = start_durable_redis();
    let store = server(&redis).await;
    create(&store, "before").await;
    redis.kill();
    for refused in [
        store.create(&record("t")).await.err(),
        store.load("before").await.err(),
        store.get_or_create_context("c", "ann", "s").await.err(),
        store.subscribe("before").await.err(),
        store.enqueue("q", "t").await.err(),
        store.ready().await.err(),
    ] {
        let Some(StoreError::Failed(error)) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.contains("does not answer"), "{error}");
        assert!(error.contains(&redis.port().to_string()), "{error}");
    }
    redis.restart();
    is_ready(&store).await;
    assert_eq!(store.load("before").await, Ok(Some(record("before"))));
    assert_eq!(store.load("t").await, Ok(None));
}

#[tokio::test]
async fn run_survives_redis_restart() {
    let mut redis = start_durable_redis();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let mut task = create(&one, "t").await;
    append(&one, &mut task, chunk("before")).await;
    let mut subscription = other.subscribe("t").await.unwrap().unwrap();
    redis.kill();
    let writer = tokio::spawn(async move {
        // Waits for Redis, and is stored then.
        append(&one, &mut task, chunk("meanwhile")).await;
        set_state(&one, &mut task, TaskState::Completed).await;
        (one, task)
    });
    redis.restart();
    let (_one, task) = in_time(writer).await.unwrap();
    let mut received = subscription.record;
    while let Some(updates) = in_time(subscription.updates.next()).await {
        match updates {
            TaskUpdate::Change(_, change) => {
                received.apply(change.as_ref().clone(), received.changed_ms + 1)
            }
            TaskUpdate::Snapshot(whole) => received = *whole,
        }
    }
    assert_eq!(received, task);
    assert_eq!(other.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn queue_survives_redis_restart() {
    let mut redis = start_durable_redis();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let turn = in_time(one.enqueue("q", "t1").await.unwrap())
        .await
        .unwrap();
    let mine = tokio::spawn(other.enqueue("q", "t2").await.unwrap());
    redis.kill();
    drop(turn);
    redis.restart();
    in_time(mine).await.unwrap().unwrap();
}

#[tokio::test]
async fn cancel_survives_redis_restart() {
    let mut redis = start_durable_redis();
    let (one, other) = (server(&redis).await, server(&redis).await);
    create(&one, "t").await;
    redis.kill();
    redis.restart();
    until(|| async { other.request_cancel("t").await.ok() }).await;
    assert_eq!(
        in_time(one.cancel_requests().next()).await.as_deref(),
        Some("t")
    );
}

#[tokio::test]
async fn redis_restart_kills_no_lease() {
    let mut redis = start_durable_redis();
    let options = Options {
        lease: Duration::from_secs(3),
        ..Options::new(redis.url())
    };
    let (one, other) = (connect(&options).await, connect(&options).await);
    let mut task = create(&one, "t").await;
    redis.kill();
    // Leases expire meanwhile.
    tokio::time::sleep(options.lease).await;
    redis.restart();
    is_ready(&other).await;
    for _ in 0..10 {
        assert_eq!(other.recover().await, Ok(Vec::new()));
        tokio::time::sleep(options.lease / 5).await;
    }
    set_state(&one, &mut task, TaskState::Completed).await;
}

#[tokio::test]
async fn connect_fails_without_redis() {
    let mut redis = start_durable_redis();
    redis.kill();
    let error = crate::redis::rig::refused(&Options::new(redis.url())).await;
    assert!(error.contains("does not answer"), "{error}");
}
