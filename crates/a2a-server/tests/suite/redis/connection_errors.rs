//! Rejected configurations of Redis. No error contains a password.

use a2a::v1_0::TaskState;
use a2a_server::store::redis::Options;
use a2a_server::store::{StoreError, TaskStore, TaskUpdate};
use a2a_server::task_record::TaskChange;
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;

use crate::redis::foreign_data::everything;
use crate::redis::rig::{
    append, chunk, client, connect, create, in_time, record, refused, server, short_lease_server,
    status, until,
};
use testkit::support::redis_server::RedisServer;

const PASSWORD: &str = "correct#horse/battery@staple";

fn start_redis_with_password() -> RedisServer {
    RedisServer::start_with(&[
        "--save",
        "",
        "--appendonly",
        "no",
        "--requirepass",
        PASSWORD,
    ])
}

fn with(redis: &RedisServer, user_and_password: &str) -> Options {
    Options::new(
        redis
            .url()
            .replace("redis://", &format!("redis://{user_and_password}@")),
    )
}

async fn set(client: &mut MultiplexedConnection, key: &str, value: &str) {
    redis::cmd("SET")
        .arg(key)
        .arg(value)
        .exec_async(client)
        .await
        .unwrap();
}

#[tokio::test]
async fn password_may_be_in_url_or_options() {
    let redis = start_redis_with_password();
    create(
        &connect(&with(&redis, ":correct%23horse%2Fbattery%40staple")).await,
        "t",
    )
    .await;
    let beside = Options {
        password: Some(PASSWORD.into()),
        ..Options::new(redis.url())
    };
    let store = connect(&beside).await;
    assert_eq!(store.load("t").await, Ok(Some(record("t"))));
}

#[tokio::test]
async fn wrong_password_is_not_in_the_error() {
    let redis = start_redis_with_password();
    for options in [with(&redis, ":hunter2"), Options::new(redis.url())] {
        let error = refused(&options).await;
        assert!(error.contains("the user or the password"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn debug_output_has_no_password() {
    let redis = start_redis_with_password();
    let options = Options {
        password: Some(PASSWORD.into()),
        ..with(&redis, ":hunter2")
    };
    let store = connect(&options).await;
    let shown = format!("{options:?} {store:?} {}", store.display_address());
    assert!(
        !shown.contains("hunter2") && !shown.contains("horse"),
        "{shown}"
    );
    assert!(shown.contains(&redis.port().to_string()), "{shown}");
}

#[tokio::test]
async fn invalid_url_is_not_repeated() {
    for (options, expected) in [
        ("redis://:hunter2@", "empty host"),
        ("redis:/hunter2", "names no host"),
        ("hunter2", "not a URL"),
        ("http://:hunter2@localhost/", "neither"),
        ("redis://:hunter2@localhost/hunter2", "invalid"),
        (
            "redis://:hunter2@localhost/?db=hunter2",
            "unknown parameter",
        ),
        ("redis://:hunter2@localhost/?prefix=", "empty"),
        ("redis://:hunter2@localhost/?prefix=a%0Ab", "control"),
        ("rediss://:hunter2@localhost/#insecure", "fragment"),
    ] {
        let error = refused(&Options::new(options)).await;
        assert!(error.contains(expected), "{options}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn unknown_database_is_reported() {
    let redis = RedisServer::start();
    let error = refused(&Options::new(format!("{}99", redis.url()))).await;
    assert!(error.contains("no database of that number"), "{error}");
}

#[tokio::test]
async fn foreign_prefix_is_rejected() {
    let redis = RedisServer::start();
    let mut client = client(&redis).await;
    set(&mut client, "remote-agent:all", "mine").await;
    let error = refused(&Options::new(redis.url())).await;
    assert!(error.contains("another program"), "{error}");
    assert!(error.contains("?prefix="), "{error}");
    let still: String = redis::cmd("GET")
        .arg("remote-agent:all")
        .query_async(&mut client)
        .await
        .unwrap();
    assert_eq!(still, "mine");
}

#[tokio::test]
async fn foreign_key_is_reported() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    set(&mut client(&redis).await, "remote-agent:task:t", "mine").await;
    for refused in [
        store.load("t").await.err(),
        store.append("t", 0, 1, &[chunk("mine too")]).await.err(),
    ] {
        let Some(StoreError::Damaged(error)) = refused else {
            panic!("{refused:?}");
        };
        assert!(error.contains("another program"), "{error}");
    }
    // Its id is in use.
    assert_eq!(
        store.create(&record("u")).await,
        Ok(()),
        "others are not concerned"
    );
}

#[tokio::test]
async fn data_of_other_version_is_rejected() {
    let redis = RedisServer::start();
    set(&mut client(&redis).await, "remote-agent:format", "3").await;
    let error = refused(&Options::new(redis.url())).await;
    assert!(error.contains("another version"), "{error}");
}

#[tokio::test]
async fn user_with_documented_permissions_suffices() {
    let redis = RedisServer::start();
    let mut client = client(&redis).await;
    redis::cmd("ACL")
        .arg(&[
            "SETUSER",
            "agent",
            "on",
            ">secret",
            "~remote-agent:*",
            "&remote-agent:*",
            "+@all",
            "-@dangerous",
            "+info",
        ])
        .exec_async(&mut client)
        .await
        .unwrap();
    let store = connect(&with(&redis, "agent:secret")).await;
    create(&store, "t").await;
    store.subscribe("t").await.unwrap().unwrap();
    store.ready().await.unwrap();

    let rights = [
        ("-evalsha", "+evalsha", "`+evalsha`"),
        ("-hset", "+hset", "`+hset`"),
        ("-zadd", "+zadd", "`+zadd`"),
        ("resetkeys", "~remote-agent:*", "`~PREFIX*`"),
        ("resetchannels", "&remote-agent:*", "`&PREFIX*`"),
    ];
    let mut published = redis::Client::open(redis.url())
        .unwrap()
        .get_async_pubsub()
        .await
        .unwrap();
    published
        .psubscribe("remote-agent:@0:task:*")
        .await
        .unwrap();
    let mut published = published.into_on_message();
    for (n, (taken, given, rule)) in rights.into_iter().enumerate() {
        let id = n.to_string();
        create(&store, &id).await;
        let set = async |client: &mut MultiplexedConnection, rule| {
            let mut acl = redis::cmd("ACL");
            acl.arg(&["SETUSER", "agent", rule]);
            acl.exec_async(client).await.unwrap();
        };
        set(&mut client, taken).await;
        let changed = store.append(&id, 0, 1, &[chunk("refused")]).await;
        let Err(StoreError::Refused(error)) = changed else {
            panic!("{taken}: {changed:?}");
        };
        assert!(error.contains(rule), "{taken}: {error}");
        assert!(!error.contains("another program"), "{taken}: {error}");
        let mut publish = redis::cmd("PUBLISH");
        publish
            .arg(format!("remote-agent:@0:task:{id}"))
            .arg("next");
        publish.exec_async(&mut client).await.unwrap();
        let first = in_time(published.next()).await.unwrap();
        assert_eq!(first.get_payload_bytes(), b"next", "{taken}");
        set(&mut client, given).await;
        // A connection whose user lost its channels is closed.
        until(|| async { store.ready().await.ok() }).await;
    }
}

/// A list deletes what is no task from its set. It must not take a task for that because of a missing right.
#[tokio::test]
async fn missing_right_removes_no_task_from_lists() {
    let redis = RedisServer::start();
    let mut client = client(&redis).await;
    let store = server(&redis).await;
    create(&store, "t").await;
    for rule in ["-hmget", "+hmget"] {
        redis::cmd("ACL")
            .arg(&["SETUSER", "default", rule])
            .exec_async(&mut client)
            .await
            .unwrap();
        let listed = store.list(&everything()).await;
        match rule {
            "-hmget" => assert!(matches!(listed, Err(StoreError::Refused(_))), "{listed:?}"),
            _ => assert_eq!(listed.unwrap().tasks.len(), 1),
        }
    }
}

#[tokio::test]
async fn full_redis_publishes_no_refused_change() {
    let redis = RedisServer::start();
    let mut client = client(&redis).await;
    let store = short_lease_server(&redis).await;
    let watcher = server(&redis).await;
    let mut task = create(&store, "t").await;
    let mut subscription = watcher.subscribe("t").await.unwrap().unwrap();
    let mut limit = async |bytes| {
        let mut config = redis::cmd("CONFIG");
        config.arg(&["SET", "maxmemory", bytes]);
        config.exec_async(&mut client).await.unwrap();
    };
    limit("1").await;
    let mut ended = task.clone();
    let end = [TaskChange::Status(status(TaskState::Completed))];
    ended.apply(end[0].clone(), 2);
    let refused = store.finish(&ended, &end).await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );
    limit("0").await;
    append(&store, &mut task, chunk("more")).await;
    let first = in_time(subscription.updates.next()).await;
    let Some(TaskUpdate::Change(1, change)) = first else {
        panic!("{first:?}");
    };
    assert_eq!(*change, chunk("more"));
}

#[tokio::test]
async fn full_redis_is_not_ready() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    create(&store, "t").await;
    redis::cmd("CONFIG")
        .arg(&["SET", "maxmemory", "1"])
        .exec_async(&mut client(&redis).await)
        .await
        .unwrap();
    for refused in [store.create(&record("u")).await, store.ready().await] {
        let Err(StoreError::Refused(error)) = refused else {
            panic!("it was kept");
        };
        assert!(error.contains("is full"), "{error}");
    }
    // Stored tasks are still readable.
    assert_eq!(store.load("t").await, Ok(Some(record("t"))));
}
