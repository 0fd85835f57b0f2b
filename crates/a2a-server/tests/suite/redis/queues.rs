//! Queues that servers share.

use std::time::Duration;

use a2a_server::store::{QueueTicket, TaskStore};

use crate::redis::rig::{in_time, server, short_lease_server};
use testkit::support::redis_server::RedisServer;

async fn waits(waiting: &mut QueueTicket) -> bool {
    tokio::time::timeout(Duration::from_millis(50), waiting)
        .await
        .is_err()
}

#[tokio::test]
async fn queue_is_fair_across_servers() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let first = one.enqueue("q", "t1").await.unwrap();
    let mut second = other.enqueue("q", "t2").await.unwrap();
    let mut third = one.enqueue("q", "t3").await.unwrap();
    let first = in_time(first).await.unwrap();
    assert!(waits(&mut second).await);
    assert!(waits(&mut third).await);
    drop(first);
    let second = in_time(second).await.unwrap();
    assert!(waits(&mut third).await);
    drop(second);
    in_time(third).await.unwrap();
}

#[tokio::test]
async fn turn_of_dead_server_passes() {
    let redis = RedisServer::start();
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    let _turn = in_time(dead.enqueue("q", "t1").await.unwrap())
        .await
        .unwrap();
    let waits_too = dead.enqueue("q", "t2").await.unwrap();
    let mut mine = living.enqueue("q", "t3").await.unwrap();
    assert!(waits(&mut mine).await);
    drop(dead);
    in_time(mine).await.unwrap();
    drop(waits_too);
}

#[tokio::test]
async fn closed_server_leaves_its_queues() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis).await, server(&redis).await);
    let _turn = in_time(one.enqueue("q", "t1").await.unwrap())
        .await
        .unwrap();
    let mut mine = other.enqueue("q", "t2").await.unwrap();
    assert!(waits(&mut mine).await);
    one.close().await.unwrap();
    // Does not wait for the lease of fifteen seconds.
    tokio::time::timeout(Duration::from_secs(5), mine)
        .await
        .expect("its turn comes at once")
        .unwrap();
}

#[tokio::test]
async fn empty_queue_leaves_no_key() {
    let redis = RedisServer::start();
    let one = server(&redis).await;
    drop(
        in_time(one.enqueue("q", "t1").await.unwrap())
            .await
            .unwrap(),
    );
    // The next ticket finds the slot free.
    drop(
        in_time(one.enqueue("q", "t2").await.unwrap())
            .await
            .unwrap(),
    );
    let mut client = crate::redis::rig::client(&redis).await;
    crate::redis::rig::until(|| {
        let mut client = client.clone();
        async move {
            let remaining: i64 = redis::cmd("EXISTS")
                .arg("remote-agent:queue:q")
                .query_async(&mut client)
                .await
                .unwrap();
            (remaining == 0).then_some(())
        }
    })
    .await;
    let places: Vec<String> = redis::cmd("KEYS")
        .arg("remote-agent:places:*")
        .query_async(&mut client)
        .await
        .unwrap();
    assert_eq!(places, Vec::<String>::new());
}
