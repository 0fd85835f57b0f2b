//! Lost replies, silent connections, and a Redis that is killed repeatedly.

use std::time::{Duration, Instant};

use a2a::v1_0::{Part, TaskState};
use a2a_server::store::redis::Options;
use a2a_server::store::{StoreError, TaskStore};

use crate::redis::proxy::Proxy;
use crate::redis::rig::{append, chunk, connect, create, in_time, record, server, set_state};
use testkit::support::redis_server::RedisServer;

#[tokio::test]
async fn change_with_lost_reply_is_stored_once() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let store = connect(&Options::new(proxy.url())).await;
    let mut task = create(&store, "t").await;
    proxy.lose_next_reply();
    append(&store, &mut task, chunk("once")).await;
    assert!(proxy.has_lost_reply());
    assert_eq!(store.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn create_with_lost_reply_creates_once() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let store = connect(&Options::new(proxy.url())).await;
    proxy.lose_next_reply();
    assert_eq!(store.create(&record("t")).await, Ok(()));
    assert!(proxy.has_lost_reply());
    // Another call creates another task of the same id.
    assert_eq!(store.create(&record("t")).await, Err(StoreError::Conflict));
}

#[tokio::test]
async fn enqueue_with_lost_reply_takes_one_slot() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let (one, other) = (
        connect(&Options::new(proxy.url())).await,
        server(&redis).await,
    );
    proxy.lose_next_reply();
    let turn = in_time(one.enqueue("q", "t1").await.unwrap())
        .await
        .unwrap();
    assert!(proxy.has_lost_reply());
    drop(turn);
    in_time(other.enqueue("q", "t2").await.unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn silent_connection_times_out() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let store = connect(&Options::new(proxy.url())).await;
    proxy.hold_replies();
    let start = Instant::now();
    let Err(StoreError::Failed(error)) = store.create(&record("t")).await else {
        panic!("it was kept");
    };
    assert!(error.contains("does not answer"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(8));
}

/// Redis 7.0 discards a script that it wrote only in part when it was killed, and keeps its beginning in the file: at the
/// second start, it applies that in front of the next script.
#[tokio::test]
async fn change_of_partly_written_script_is_stored_once() {
    let mut redis = start_durable_redis();
    let store = server(&redis).await;
    let mut task = create(&store, "t").await;
    append(&store, &mut task, chunk("kept")).await;
    let cut = task.clone();
    append(&store, &mut task, chunk("cut")).await;
    redis.kill();
    cut_last_change(&redis);
    redis.restart();
    let mut task = cut;
    assert_eq!(store.load("t").await, Ok(Some(task.clone())));
    append(&store, &mut task, chunk("cut")).await;
    redis.kill();
    redis.restart();
    append(&store, &mut task, chunk("later")).await;
    assert_eq!(store.load("t").await, Ok(Some(task)));
}

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

/// Cuts the append-only file within the last command of the script that appended last.
fn cut_last_change(redis: &RedisServer) {
    let files = std::fs::read_dir(redis.folder().join("appendonlydir")).unwrap();
    let mut paths = files.map(|file| file.unwrap().path());
    let path = paths
        .find(|path| path.to_string_lossy().ends_with(".incr.aof"))
        .unwrap();
    let mut file = std::fs::read(&path).unwrap();
    let mut pushes = file.windows(5).enumerate().rev();
    let (push, _) = pushes.find(|(_, bytes)| bytes == b"RPUSH").unwrap();
    let mut ends = file.windows(4).enumerate().skip(push);
    let (end, _) = ends.find(|(_, bytes)| bytes == b"EXEC").unwrap();
    file.truncate(end - "\r\n*1\r\n$4\r\n".len());
    std::fs::write(&path, file).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_redis_keeps_acknowledged_tasks() {
    let mut redis = start_durable_redis();
    let mut writers = Vec::new();
    for name in ["one", "other"] {
        let store = server(&redis).await;
        writers.push(tokio::spawn(async move {
            let mut task = create(&store, name).await;
            let end = Instant::now() + Duration::from_secs(4);
            while Instant::now() < end {
                let text = task.revision.to_string();
                append(&store, &mut task, chunk(&text)).await;
            }
            set_state(&store, &mut task, TaskState::Completed).await;
            task
        }));
    }
    for round in 1..=6 {
        tokio::time::sleep(Duration::from_millis(90 * round)).await;
        redis.kill();
        redis.restart();
    }
    let reader = server(&redis).await;
    for writer in writers {
        let task = in_time(writer).await.unwrap();
        let parts = &task.task.artifacts.as_ref().unwrap()[0].parts;
        assert!(
            parts
                .iter()
                .enumerate()
                .all(|(n, part)| *part == Part::text(n.to_string()))
        );
        assert!(parts.len() > 20, "{}", parts.len());
        assert_eq!(reader.load(&task.task.id).await, Ok(Some(task)));
    }
}
