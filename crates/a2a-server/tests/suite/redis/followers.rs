//! Subscriptions share one connection for each server, and leave nothing behind.

use a2a::v1_0::TaskState;
use a2a_server::store::{TaskStore, TaskUpdate};
use futures_util::StreamExt;

use crate::redis::rig::{append, chunk, client, create, in_time, server, set_state, until};
use testkit::support::redis_server::RedisServer;

#[tokio::test]
async fn hundred_subscribers_share_one_connection() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    let mut subscriptions = Vec::new();
    for n in 0..100 {
        let id = format!("t{n}");
        create(&store, &id).await;
        subscriptions.push(store.subscribe(&id).await.unwrap().unwrap());
    }
    let clients: String = redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut client(&redis).await)
        .await
        .unwrap();
    // One for commands, one for subscriptions, and the observer.
    assert_eq!(clients.lines().count(), 3, "{clients}");
}

#[tokio::test]
async fn dropped_subscription_unsubscribes() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    create(&store, "t").await;
    let (one, other) = (
        store.subscribe("t").await.unwrap().unwrap(),
        store.subscribe("t").await.unwrap().unwrap(),
    );
    let client = client(&redis).await;
    let listeners = || {
        let mut client = client.clone();
        async move {
            let (_, count): (String, usize) = redis::cmd("PUBSUB")
                .arg("NUMSUB")
                .arg("remote-agent:@0:task:t")
                .query_async(&mut client)
                .await
                .unwrap();
            count
        }
    };
    assert_eq!(listeners().await, 1);
    drop(one);
    // A third one comes and goes; by then the listener has unsubscribed the first.
    drop(store.subscribe("t").await.unwrap());
    assert_eq!(listeners().await, 1);
    drop(other);
    until(|| async { (listeners().await == 0).then_some(()) }).await;
}

#[tokio::test]
async fn slow_subscriber_receives_snapshot() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let mut task = create(&one, "t").await;
    let mut subscription = other.subscribe("t").await.unwrap().unwrap();
    for n in 0..500 {
        append(&one, &mut task, chunk(&n.to_string())).await;
    }
    set_state(&one, &mut task, TaskState::Completed).await;
    let mut last = None;
    let mut received = 0;
    while let Some(updates) = in_time(subscription.updates.next()).await {
        received += 1;
        if let TaskUpdate::Snapshot(whole) = updates {
            last = Some(*whole);
        }
    }
    assert_eq!(last, Some(task));
    assert!(received < 500, "{received}");
}

#[tokio::test]
async fn load_compacts_task_with_many_changes() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    let mut task = create(&store, "t").await;
    for n in 0..100 {
        append(&store, &mut task, chunk(&n.to_string())).await;
    }
    assert_eq!(store.load("t").await, Ok(Some(task.clone())));
    let remaining: usize = redis::cmd("LLEN")
        .arg("remote-agent:log:t")
        .query_async(&mut client(&redis).await)
        .await
        .unwrap();
    assert_eq!(remaining, 0);
    append(&store, &mut task, chunk("more")).await;
    assert_eq!(store.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn changes_of_earlier_version_are_read() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    let mut task = create(&store, "t").await;
    for text in ["one", "two", "three"] {
        append(&store, &mut task, chunk(text)).await;
    }
    let mut client = client(&redis).await;
    for n in 0..2 {
        let entry: String = redis::cmd("LINDEX")
            .arg("remote-agent:log:t")
            .arg(n)
            .query_async(&mut client)
            .await
            .unwrap();
        let (_revision, entry) = entry.split_once(' ').unwrap();
        redis::cmd("LSET")
            .arg("remote-agent:log:t")
            .arg(n)
            .arg(entry)
            .exec_async(&mut client)
            .await
            .unwrap();
    }
    assert_eq!(store.load("t").await, Ok(Some(task)));
}
