//! The cost of the store in Redis, next to the cost of Redis itself in the same run: changes a second, and the time
//! from a change at one server to a subscriber at another.
//!
//! `cargo bench -p openclaw-remote-agent-a2a-server --bench redis`. Takes a minute; fetches `redis-server` of Debian's
//! packages.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a::Version;
use a2a::v1_0::{Artifact, Part, Task, TaskState, TaskStatus};
use a2a_server::store::redis::{Options, RedisStore};
use a2a_server::store::{TaskStore, TaskUpdate};
use a2a_server::task_record::{TaskChange, TaskRecord};
use common::environment::SystemEnvironment;
use futures_util::StreamExt;
use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

use testkit::support::redis_server::RedisServer;

/// Sequential changes.
const IN_A_ROW: u64 = 5_000;
/// Concurrent tasks, and the changes of each.
const TASKS: u64 = 64;
const EACH: u64 = 500;
/// The bytes of a change: a few words of a model.
const BYTES: usize = 64;

#[tokio::main]
async fn main() {
    for (name, arguments) in [
        (
            "nothing on the disk",
            ["--appendonly", "no", "--appendfsync", "no"],
        ),
        (
            "appendfsync everysec",
            ["--appendonly", "yes", "--appendfsync", "everysec"],
        ),
        (
            "appendfsync always",
            ["--appendonly", "yes", "--appendfsync", "always"],
        ),
    ] {
        let arguments = [&["--save", ""], &arguments[..]].concat();
        let redis = RedisServer::start_with(&arguments);
        println!("{name}");
        measure(&redis).await;
    }
}

async fn measure(redis: &RedisServer) {
    let (client, address) = (client(redis), redis.url());
    let mut plain = client.get_multiplexed_async_connection().await.unwrap();
    row("XADD alone, in a row", floor_in_a_row(&mut plain).await);
    let one = store(&address).await;
    row("changes of one task, in a row", in_a_row(&one).await);

    rate("XADD alone, 64 at a time", floor_at_once(&plain).await);
    rate("changes of 64 tasks, at a time", at_once(one.clone()).await);

    row(
        "PUBLISH until received",
        floor_until_received(&client, &mut plain).await,
    );
    let other = store(&address).await;
    row(
        "change until received at another server",
        until_received(&one, &other).await,
    );
}

fn client(redis: &RedisServer) -> redis::Client {
    redis::Client::open(redis.url()).unwrap()
}

async fn store(address: &str) -> Arc<RedisStore> {
    Arc::new(
        RedisStore::connect(&Options::new(address), &SystemEnvironment)
            .await
            .unwrap_or_else(|why| panic!("{why}")),
    )
}

async fn floor_in_a_row(plain: &mut MultiplexedConnection) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..IN_A_ROW {
        let start = Instant::now();
        add(plain, "floor").await;
        times.push(start.elapsed());
    }
    times
}

async fn in_a_row(store: &RedisStore) -> Vec<Duration> {
    let mut times = Vec::new();
    create(store, "row").await;
    for revision in 0..IN_A_ROW {
        let start = Instant::now();
        append(store, "row", revision).await;
        times.push(start.elapsed());
    }
    times
}

async fn floor_at_once(plain: &MultiplexedConnection) -> f64 {
    let start = Instant::now();
    let writers = (0..TASKS).map(|task| {
        let mut plain = plain.clone();
        tokio::spawn(async move {
            for _ in 0..EACH {
                add(&mut plain, &format!("floor-{task}")).await;
            }
        })
    });
    join_all(writers).await;
    per_second(TASKS * EACH, start)
}

async fn at_once(store: Arc<RedisStore>) -> f64 {
    for task in 0..TASKS {
        create(&store, &format!("t{task}")).await;
    }
    let start = Instant::now();
    let writers = (0..TASKS).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = format!("t{task}");
            for revision in 0..EACH {
                append(&store, &id, revision).await;
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    per_second(TASKS * EACH, start)
}

async fn floor_until_received(
    client: &redis::Client,
    plain: &mut MultiplexedConnection,
) -> Vec<Duration> {
    let (mut sink, mut stream) = client.get_async_pubsub().await.unwrap().split();
    sink.subscribe("floor").await.unwrap();
    let payload = serde_json::to_vec(&change()).unwrap();
    let mut times = Vec::new();
    for _ in 0..IN_A_ROW {
        let start = Instant::now();
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("floor").arg(&payload);
        let (_, received) = tokio::join!(publish.exec_async(plain), stream.next());
        received.unwrap();
        times.push(start.elapsed());
    }
    times
}

async fn until_received(one: &RedisStore, other: &RedisStore) -> Vec<Duration> {
    create(one, "received").await;
    let mut subscription = other.subscribe("received").await.unwrap().unwrap();
    let mut times = Vec::new();
    for revision in 0..IN_A_ROW {
        let start = Instant::now();
        let (_, received) = tokio::join!(
            append(one, "received", revision),
            subscription.updates.next()
        );
        times.push(start.elapsed());
        assert!(matches!(received, Some(TaskUpdate::Change(made, _)) if made == revision + 1));
    }
    times
}

async fn add(plain: &mut MultiplexedConnection, key: &str) {
    let payload = serde_json::to_vec(&change()).unwrap();
    redis::cmd("XADD")
        .arg(key)
        .arg("*")
        .arg("change")
        .arg(payload)
        .exec_async(plain)
        .await
        .unwrap();
}

async fn append(store: &RedisStore, id: &str, revision: u64) {
    store.append(id, revision, 1, &change()).await.unwrap();
}

fn change() -> TaskChange {
    TaskChange::Artifact {
        artifact: Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text("x".repeat(BYTES))],
            metadata: None,
            extensions: None,
        },
        append: true,
        last_chunk: false,
    }
}

async fn create(store: &RedisStore, id: &str) {
    let record = TaskRecord {
        task: Task {
            id: id.to_owned(),
            context_id: format!("context-of-{id}"),
            status: TaskStatus {
                state: TaskState::Working,
                message: None,
                timestamp: None,
            },
            artifacts: None,
            history: None,
            metadata: None,
        },
        owner: "ann".to_owned(),
        agent: None,
        session: "session".to_owned(),
        version: Version::V1_0,
        run: None,
        created_ms: 1,
        changed_ms: 1,
        revision: 0,
    };
    store.create(&record).await.unwrap();
}

fn per_second(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}

fn row(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let all: Duration = times.iter().sum();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_micros();
    println!(
        "  {what:<40} {:>8.0}/s   p50 {:>5} us   p99 {:>5} us",
        times.len() as f64 / all.as_secs_f64(),
        at(0.5),
        at(0.99),
    );
}

fn rate(what: &str, per_second: f64) {
    println!("  {what:<40} {per_second:>8.0}/s");
}
