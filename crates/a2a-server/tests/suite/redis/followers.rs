//! Following costs one connection a server, and nothing once nobody does.

use a2a::v1_0::TaskState;
use a2a_server::store::{TaskStore, TaskUpdate};
use futures_util::StreamExt;

use crate::redis::rig::{append, chunk, client, create, server, set_state, soon, until};
use testkit::support::redis_server::RedisServer;

#[tokio::test]
async fn a_hundred_followers_share_one_connection() {
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
    // One to ask, one to listen, and the one that looks.
    assert_eq!(clients.lines().count(), 3, "{clients}");
}

#[tokio::test]
async fn who_leaves_is_not_told_any_more() {
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
    // A third one comes and goes; by then the first has been seen to leave.
    drop(store.subscribe("t").await.unwrap());
    assert_eq!(listeners().await, 1);
    drop(other);
    until(|| async { (listeners().await == 0).then_some(()) }).await;
}

#[tokio::test]
async fn a_follower_that_falls_behind_is_given_the_whole() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let mut task = create(&one, "t").await;
    let mut subscription = other.subscribe("t").await.unwrap().unwrap();
    for n in 0..500 {
        append(&one, &mut task, chunk(&n.to_string())).await;
    }
    set_state(&one, &mut task, TaskState::Completed).await;
    let mut last = None;
    let mut heard = 0;
    while let Some(updates) = soon(subscription.updates.next()).await {
        heard += 1;
        if let TaskUpdate::Snapshot(whole) = updates {
            last = Some(*whole);
        }
    }
    assert_eq!(last, Some(task));
    assert!(heard < 500, "{heard}");
}

#[tokio::test]
async fn a_task_of_many_changes_is_put_together_by_who_loads_it() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    let mut task = create(&store, "t").await;
    for n in 0..100 {
        append(&store, &mut task, chunk(&n.to_string())).await;
    }
    assert_eq!(store.load("t").await, Ok(Some(task.clone())));
    let left: usize = redis::cmd("LLEN")
        .arg("remote-agent:log:t")
        .query_async(&mut client(&redis).await)
        .await
        .unwrap();
    assert_eq!(left, 0);
    append(&store, &mut task, chunk("more")).await;
    assert_eq!(store.load("t").await, Ok(Some(task)));
}
