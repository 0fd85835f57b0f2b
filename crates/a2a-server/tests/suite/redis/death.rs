//! The death of a server.

use std::collections::HashMap;
use std::time::Duration;

use a2a::v1_0::TaskState;
use a2a_server::store::redis::RedisStore;
use a2a_server::store::{StoreError, Summary, TaskStore};
use futures_util::StreamExt;

use crate::redis::rig::{
    SHORT_LEASE, append, chunk, corrupt_task, create, in_time, set_state, short_lease_server, until,
};
use testkit::support::redis_server::RedisServer;

/// Waits until `store` recovers tasks, and returns them.
async fn recover_tasks(store: &RedisStore) -> Vec<String> {
    until(|| async {
        let tasks = store.recover().await.unwrap();
        let ids: Vec<String> = tasks.into_iter().map(|task| task.id).collect();
        (!ids.is_empty()).then_some(ids)
    })
    .await
}

#[tokio::test]
async fn tasks_of_dead_server_are_recovered() {
    let redis = RedisServer::start();
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    let mut task = create(&dead, "t").await;
    append(&dead, &mut task, chunk("so far")).await;
    drop(dead);
    let records = until(|| async {
        let records = living.recover().await.unwrap();
        (!records.is_empty()).then_some(records)
    })
    .await;
    assert_eq!(records, [Summary::new(&task)]);
    set_state(&living, &mut task, TaskState::Failed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_of_dead_server_is_recovered_once() {
    let redis = RedisServer::start();
    let dead = short_lease_server(&redis).await;
    for n in 0..50 {
        create(&dead, &format!("t{n}")).await;
    }
    let living = [
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    ];
    drop(dead);
    let mut times = HashMap::new();
    let mut rounds_after = 0;
    let counted = async {
        while rounds_after < 3 {
            let (one, other) = tokio::join!(living[0].recover(), living[1].recover());
            for record in one.unwrap().into_iter().chain(other.unwrap()) {
                *times.entry(record.id).or_insert(0) += 1;
            }
            rounds_after += usize::from(times.len() == 50);
            tokio::time::sleep(SHORT_LEASE / 3).await;
        }
    };
    in_time(counted).await;
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

#[tokio::test]
async fn live_server_keeps_its_tasks() {
    let redis = RedisServer::start();
    let (living, dead, other) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    create(&living, "lives").await;
    create(&dead, "dies").await;
    drop(dead);
    assert_eq!(recover_tasks(&other).await, ["dies"]);
    assert_eq!(other.recover().await, Ok(Vec::new()));
}

#[tokio::test]
async fn ended_and_interrupted_tasks_are_not_recovered() {
    let redis = RedisServer::start();
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    let mut settled = create(&dead, "settled").await;
    set_state(&dead, &mut settled, TaskState::Completed).await;
    let mut waits = create(&dead, "waits").await;
    set_state(&dead, &mut waits, TaskState::InputRequired).await;
    create(&dead, "runs").await;
    drop(dead);
    assert_eq!(recover_tasks(&living).await, ["runs"]);
    assert_eq!(living.recover().await, Ok(Vec::new()));
}

#[tokio::test]
async fn unreadable_task_delays_no_other() {
    let redis = RedisServer::start();
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    create(&dead, "broken").await;
    create(&dead, "whole").await;
    corrupt_task(&redis, "broken").await;
    drop(dead);
    assert_eq!(recover_tasks(&living).await, ["whole"]);
}

#[tokio::test]
async fn fenced_server_cannot_write() {
    let redis = RedisServer::start();
    let (lost, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    let task = create(&lost, "t").await;
    // Its heartbeat has stopped, unknown to itself.
    lost.close().await.unwrap();
    assert_eq!(recover_tasks(&living).await, ["t"]);
    assert_eq!(
        lost.append("t", task.revision, 2, &[chunk("late")]).await,
        Err(StoreError::Conflict)
    );
    assert_eq!(living.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn unread_cancel_reaches_the_recovering_server() {
    let redis = RedisServer::start();
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    create(&dead, "t").await;
    drop(dead);
    living.request_cancel("t").await.unwrap();
    assert_eq!(recover_tasks(&living).await, ["t"]);
    // The next call, because the task has to be recovered before it can be canceled.
    assert_eq!(living.recover().await, Ok(Vec::new()));
    let mut cancel_requests = living.cancel_requests();
    assert_eq!(in_time(cancel_requests.next()).await.as_deref(), Some("t"));
}

#[tokio::test]
async fn closed_server_releases_its_lease() {
    let redis = RedisServer::start();
    let lease = Duration::from_secs(2);
    let options = a2a_server::store::redis::Options {
        lease,
        ..a2a_server::store::redis::Options::new(redis.url())
    };
    let (one, other) = (
        crate::redis::rig::connect(&options).await,
        crate::redis::rig::connect(&options).await,
    );
    // Waits until Redis is old enough for a recovery.
    tokio::time::sleep(lease + Duration::from_secs(1)).await;
    create(&one, "t").await;
    one.close().await.unwrap();
    let tasks = other.recover().await.unwrap();
    assert_eq!(tasks.len(), 1);
}
