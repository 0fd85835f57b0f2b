//! The memory of a server in a process of its own.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use a2a_server::store::redis::Options;
use a2a_server::store::{Filter, StoreError, TaskStore};
use futures_util::StreamExt;

use crate::redis::foreign_data::everything;
use crate::redis::rig::{client, connect, create, in_time, until};
use testkit::support::redis_server::RedisServer;

/// The environment variable of that process with the URL of Redis.
const ADDRESS: &str = "REMOTE_AGENT_TEST_REDIS";

/// A process that runs one of the ignored tests of this file. Dropping it kills it.
struct Server {
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the process, and waits until it is ready.
    fn start(test: &str, redis: &RedisServer) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(ADDRESS, redis.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self { process, out };
        server.wait_for("ready");
        server
    }

    /// Waits until the process has printed this line.
    fn wait_for(&mut self, expected: &str) {
        let mut line = String::new();
        while line.trim_end() != expected {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0);
        }
    }

    /// Returns a figure of the process, in MB.
    fn megabytes(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes / 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn flood_of_messages_takes_bounded_memory() {
    let redis = RedisServer::start();
    let mut server = Server::start("redis::floods::run_subscriber", &redis);
    let before = server.megabytes("VmRSS");
    // Each costs more to decode than to receive, and has a fault at its end.
    let change = format!("{{\"metadata\": {{\"zeros\": [{}]", "0,".repeat(16 * 1024));
    let mut publish = redis::pipe();
    for _ in 0..64 {
        publish
            .cmd("PUBLISH")
            .arg("remote-agent:@0:task:t")
            .arg(format!("9 {change}"))
            .ignore();
    }
    let mut other = client(&redis).await;
    for _ in 0..64 {
        publish.exec_async(&mut other).await.unwrap();
    }
    // A subscriber of a deleted task ends, however many messages it missed.
    redis::cmd("DEL")
        .arg("remote-agent:task:t")
        .exec_async(&mut other)
        .await
        .unwrap();
    server.wait_for("ended");
    let growth = server.megabytes("VmHWM") - before;
    println!("128 MB of messages: {growth} MB more");
    assert!(growth < 40, "{growth} MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is the process of another test, and runs until it is killed"]
async fn run_subscriber() {
    let store = connect(&Options::new(env::var(ADDRESS).unwrap())).await;
    create(&store, "t").await;
    let mut subscription = store.subscribe("t").await.unwrap().unwrap();
    println!("\nready");
    while subscription.updates.next().await.is_some() {}
    println!("\nended");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn large_foreign_values_take_bounded_memory() {
    let redis = RedisServer::start();
    let mut other = client(&redis).await;
    let mut server = Server::start("redis::floods::run_reader", &redis);
    let before = server.megabytes("VmRSS");
    let json = format!("[{}{{}}]", "{},".repeat(12_000_000));
    for (command, key) in [
        ("HSET", ["task:t", "base"]),
        ("HSET", ["task:u", "asked"]),
        ("HSET", ["task:u", "sum"]),
        ("ZADD", ["all", "9"]),
        ("ZADD", ["owner:ann", "9"]),
        ("ZADD", ["state:input-required", "0"]),
        ("HSET", ["push:t", "c"]),
        ("HSET", ["opened:context-of-t", "session"]),
    ] {
        let [key, field] = key;
        let mut plant = redis::cmd(command);
        plant
            .arg(format!("remote-agent:{key}"))
            .arg(field)
            .arg(&json);
        plant.exec_async(&mut other).await.unwrap();
    }
    redis::cmd("SET")
        .arg("go")
        .arg(1)
        .exec_async(&mut other)
        .await
        .unwrap();
    server.wait_for("refused");
    let growth = server.megabytes("VmHWM") - before;
    println!("values of 36 MB: {growth} MB more");
    assert!(growth < 12, "{growth} MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is the process of another test, and runs until it is killed"]
async fn run_reader() {
    let url = env::var(ADDRESS).unwrap();
    let store = connect(&Options::new(url.as_str())).await;
    for id in ["t", "u"] {
        create(&store, id).await;
    }
    let earlier = store.page(&everything(), 0).await.unwrap();
    println!("\nready");
    let other = redis::Client::open(url)
        .unwrap()
        .get_multiplexed_async_connection()
        .await
        .unwrap();
    until(|| {
        let mut other = other.clone();
        async move {
            let go = redis::cmd("EXISTS").arg("go").query_async(&mut other).await;
            go.unwrap_or(false).then_some(())
        }
    })
    .await;
    for _ in 0..2 {
        // Its sizes are those before the values grew.
        let bodies = in_time(store.bodies(None, &earlier.tasks)).await;
        assert_eq!(bodies, Ok(vec![None, None]));
        let loaded = in_time(store.load("t")).await;
        assert!(matches!(loaded, Err(StoreError::Damaged(_))), "{loaded:?}");
        let loaded = in_time(store.load("u")).await;
        assert!(matches!(loaded, Err(StoreError::Damaged(_))), "{loaded:?}");
        for owner in [None, Some("ann")] {
            let filter = Filter {
                owner: owner.map(str::to_owned),
                ..everything()
            };
            let page = in_time(store.page(&filter, 0)).await.unwrap();
            assert_eq!(page.tasks.len(), 2);
            in_time(store.bodies(owner, &page.tasks)).await.unwrap();
            assert_eq!(in_time(store.list(&filter)).await.unwrap().tasks.len(), 2);
        }
        let waiting = in_time(store.unanswered(1, 0, 10)).await.unwrap();
        assert_eq!(waiting, Vec::<String>::new());
        let pushes = in_time(store.pushes("t")).await;
        assert!(matches!(pushes, Err(StoreError::Damaged(_))), "{pushes:?}");
        let context = in_time(store.get_or_create_context("context-of-t", "ann", "s")).await;
        assert!(
            matches!(context, Err(StoreError::Damaged(_))),
            "{context:?}"
        );
    }
    println!("\nrefused");
    std::future::pending::<()>().await;
}
