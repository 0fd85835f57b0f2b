//! Servers on one Redis, and tasks for them.

use std::time::Duration;

use a2a::v1_0::{Artifact, Part, TaskState};
use a2a_server::store::redis::{Options, RedisStore};
use a2a_server::store::{StoreError, TaskStore};
use a2a_server::task_record::{TaskChange, TaskRecord};
use base::environment::SystemEnvironment;

pub(crate) use crate::record::{record, status};
use testkit::support::redis_server::RedisServer;

/// A short lease.
pub(crate) const SHORT_LEASE: Duration = Duration::from_millis(400);

/// How long to wait for an expected event.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a server on `redis` with the default lease.
pub(crate) async fn server(redis: &RedisServer) -> RedisStore {
    connect(&Options::new(redis.url())).await
}

/// Starts a server on `redis` with a short lease.
pub(crate) async fn short_lease_server(redis: &RedisServer) -> RedisStore {
    connect(&Options {
        lease: SHORT_LEASE,
        ..Options::new(redis.url())
    })
    .await
}

pub(crate) async fn connect(options: &Options) -> RedisStore {
    RedisStore::connect(options, &SystemEnvironment)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns why these options do not connect.
pub(crate) async fn refused(options: &Options) -> String {
    match RedisStore::connect(options, &SystemEnvironment).await {
        Ok(_) => panic!("it connected"),
        Err(StoreError::Failed(error) | StoreError::Refused(error)) => error,
        Err(other) => panic!("{other}"),
    }
}

/// Opens a separate connection.
pub(crate) async fn client(redis: &RedisServer) -> redis::aio::MultiplexedConnection {
    // On a busy machine a large value takes longer than the default of half a second.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    redis::Client::open(redis.url())
        .unwrap()
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap()
}

pub(crate) fn chunk(text: &str) -> TaskChange {
    TaskChange::Artifact {
        artifact: Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        },
        append: true,
        last_chunk: false,
    }
}

/// Creates a task that works at `store`.
pub(crate) async fn create(store: &RedisStore, id: &str) -> TaskRecord {
    let record = record(id);
    store.create(&record).await.unwrap();
    record
}

/// Appends and applies a change.
pub(crate) async fn append(store: &RedisStore, record: &mut TaskRecord, change: TaskChange) {
    let at_ms = record.changed_ms + 1;
    store
        .append(
            &record.task.id,
            record.revision,
            at_ms,
            std::slice::from_ref(&change),
        )
        .await
        .unwrap();
    record.apply(change, at_ms);
}

pub(crate) async fn set_state(store: &RedisStore, record: &mut TaskRecord, state: TaskState) {
    append(store, record, TaskChange::Status(status(state))).await;
}

/// Calls `poll` until it is `Some`.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(mut poll: impl FnMut() -> F) -> T {
    let polling = async {
        loop {
            if let Some(value) = poll().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(polling).await
}

/// Waits for an expected event.
pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, future)
        .await
        .expect("it happens in time")
}

/// Overwrites a task with data that no server can read.
pub(crate) async fn corrupt_task(redis: &RedisServer, task_id: &str) {
    redis::cmd("HSET")
        .arg(format!("remote-agent:task:{task_id}"))
        .arg(&["base", "{}"])
        .exec_async(&mut client(redis).await)
        .await
        .unwrap();
}
