//! A server dies.

use std::collections::HashMap;
use std::time::Duration;

use a2a::v1_0::TaskState;
use a2a_server::store::redis::RedisStore;
use a2a_server::store::{StoreError, Summary, TaskStore};
use futures_util::StreamExt;

use crate::redis::rig::{SHORT, append, chunk, create, mortal, set_state, soon, spoil, until};
use testkit::support::redis_server::RedisServer;

/// The tasks that `store` takes when it takes any.
async fn taken(store: &RedisStore) -> Vec<String> {
    until(|| async {
        let taken = store.recover().await.unwrap();
        let ids: Vec<String> = taken.into_iter().map(|task| task.id).collect();
        (!ids.is_empty()).then_some(ids)
    })
    .await
}

#[tokio::test]
async fn the_tasks_of_a_dead_server_are_taken_as_they_stand() {
    let redis = RedisServer::start();
    let (dead, living) = (mortal(&redis).await, mortal(&redis).await);
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
async fn each_task_of_a_dead_server_is_taken_once() {
    let redis = RedisServer::start();
    let dead = mortal(&redis).await;
    for n in 0..50 {
        create(&dead, &format!("t{n}")).await;
    }
    let living = [mortal(&redis).await, mortal(&redis).await];
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
            tokio::time::sleep(SHORT / 3).await;
        }
    };
    soon(counted).await;
    assert!(times.values().all(|times| *times == 1), "{times:?}");
}

#[tokio::test]
async fn a_living_server_keeps_its_tasks() {
    let redis = RedisServer::start();
    let (living, dead, other) = (
        mortal(&redis).await,
        mortal(&redis).await,
        mortal(&redis).await,
    );
    create(&living, "lives").await;
    create(&dead, "dies").await;
    drop(dead);
    assert_eq!(taken(&other).await, ["dies"]);
    assert_eq!(other.recover().await, Ok(Vec::new()));
}

#[tokio::test]
async fn what_is_settled_or_waits_for_its_client_is_not_taken() {
    let redis = RedisServer::start();
    let (dead, living) = (mortal(&redis).await, mortal(&redis).await);
    let mut settled = create(&dead, "settled").await;
    set_state(&dead, &mut settled, TaskState::Completed).await;
    let mut waits = create(&dead, "waits").await;
    set_state(&dead, &mut waits, TaskState::InputRequired).await;
    create(&dead, "runs").await;
    drop(dead);
    assert_eq!(taken(&living).await, ["runs"]);
    assert_eq!(living.recover().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_task_that_cannot_be_read_keeps_no_other_one_up() {
    let redis = RedisServer::start();
    let (dead, living) = (mortal(&redis).await, mortal(&redis).await);
    create(&dead, "broken").await;
    create(&dead, "whole").await;
    spoil(&redis, "broken").await;
    drop(dead);
    assert_eq!(taken(&living).await, ["whole"]);
}

#[tokio::test]
async fn who_was_thought_dead_cannot_go_on() {
    let redis = RedisServer::start();
    let (lost, living) = (mortal(&redis).await, mortal(&redis).await);
    let task = create(&lost, "t").await;
    // It is not heard of any more, and does not know.
    lost.close().await.unwrap();
    assert_eq!(taken(&living).await, ["t"]);
    assert_eq!(
        lost.append("t", task.revision, 2, &chunk("late")).await,
        Err(StoreError::Conflict)
    );
    assert_eq!(living.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn a_cancel_that_a_dead_server_did_not_hear_is_heard_by_who_takes_the_task() {
    let redis = RedisServer::start();
    let (dead, living) = (mortal(&redis).await, mortal(&redis).await);
    create(&dead, "t").await;
    drop(dead);
    living.request_cancel("t").await.unwrap();
    assert_eq!(taken(&living).await, ["t"]);
    // The next time it is asked, for the task has to be taken up before it can be canceled.
    assert_eq!(living.recover().await, Ok(Vec::new()));
    let mut asked = living.cancel_requests();
    assert_eq!(soon(asked.next()).await.as_deref(), Some("t"));
}

#[tokio::test]
async fn a_server_that_says_farewell_is_not_waited_for() {
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
    // Until Redis is old enough for anything to be taken at all.
    tokio::time::sleep(lease + Duration::from_secs(1)).await;
    create(&one, "t").await;
    one.close().await.unwrap();
    let taken = other.recover().await.unwrap();
    assert_eq!(taken.len(), 1);
}
