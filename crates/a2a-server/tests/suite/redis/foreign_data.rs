//! Keys under the prefix that another program wrote, or that Redis lost. They affect only their task.

use a2a::Version;
use a2a::v1_0::{TaskPushNotificationConfig, TaskState};
use a2a_server::store::redis::RedisStore;
use a2a_server::store::{Budget, Filter, Retention, StoreError, Summary, TaskStore};
use a2a_server::task_record::TaskChange;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use std::time::Duration;

use crate::redis::rig::{
    append, chunk, client, create, in_time, record, refused, server, set_state, short_lease_server,
    status, until,
};
use testkit::support::redis_server::RedisServer;

/// Redis, a server on it, and a connection of another program.
pub(crate) async fn start() -> (RedisServer, RedisStore, MultiplexedConnection) {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    let other = client(&redis).await;
    (redis, store, other)
}

/// Runs a command whose last argument may be any bytes. `line` is split at spaces, and `~` stands for the prefix.
pub(crate) async fn run(other: &mut MultiplexedConnection, line: &str, last: Option<&[u8]>) {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    for word in words {
        cmd.arg(word.replace('~', "remote-agent:"));
    }
    if let Some(last) = last {
        cmd.arg(last);
    }
    cmd.exec_async(other)
        .await
        .unwrap_or_else(|error| panic!("{line}: {error}"));
}

pub(crate) fn everything() -> Filter {
    Filter {
        owner: None,
        context_id: None,
        state: None,
        changed_after: None,
        page_size: 10,
        after: None,
    }
}

async fn listed(store: &RedisStore) -> Vec<String> {
    let page = store.list(&everything()).await.unwrap();
    assert_eq!(page.total, page.tasks.len());
    page.tasks.into_iter().map(|task| task.id).collect()
}

/// Deletes all terminal tasks, and returns their number.
async fn prune(store: &RedisStore) -> Result<usize, StoreError> {
    let retention = Retention {
        age: Duration::ZERO,
        count: 1000,
    };
    in_time(store.prune(&retention, DateTime::<Utc>::MAX_UTC)).await
}

fn cause<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Failed(cause) | StoreError::Damaged(cause)) => cause,
        other => panic!("{other:?}"),
    }
}

fn push(task_id: &str) -> TaskPushNotificationConfig {
    serde_json::from_value(serde_json::json!({
        "taskId": task_id, "id": "c", "url": "http://localhost/hook"
    }))
    .unwrap()
}

#[tokio::test]
async fn failed_append_changes_nothing() {
    let (_redis, store, mut other) = start().await;
    for (n, damage) in [
        "SET ~log:ID",
        "HDEL ~task:ID owner",
        "HDEL ~task:ID context",
        "HDEL ~task:ID state",
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("t{n}");
        create(&store, &id).await;
        let last = (!damage.starts_with("HDEL")).then_some(b"x".as_slice());
        run(&mut other, &damage.replace("ID", &id), last).await;
        let error = cause(store.append(&id, 0, 2, &[chunk("lost")]).await);
        assert!(error.contains("another program"), "{damage}: {error}");
        let revision: u64 = redis::cmd("HGET")
            .arg(format!("remote-agent:task:{id}"))
            .arg("revision")
            .query_async(&mut other)
            .await
            .unwrap();
        assert_eq!(revision, 0, "{damage}");
    }
}

/// The script stops at the total, which it adds to after it has stored the task.
#[tokio::test]
async fn half_created_task_is_recovered() {
    let redis = RedisServer::start();
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    let mut other = client(&redis).await;
    run(&mut other, "HSET ~total n", Some(b"1")).await;
    let error = cause(dead.create(&record("t")).await);
    assert!(error.contains("another program"), "{error}");
    run(&mut other, "DEL ~total", None).await;
    drop(dead);
    let recovered = until(|| async {
        let tasks = living.recover().await.unwrap();
        (!tasks.is_empty()).then_some(tasks)
    });
    assert_eq!(recovered.await, [Summary::new(&record("t"))]);
}

#[tokio::test]
async fn failed_push_changes_nothing() {
    let (_redis, store, mut other) = start().await;
    create(&store, "t").await;
    run(&mut other, "HDEL ~task:t owner", None).await;
    assert!(store.put_push(&push("t"), Version::V1_0).await.is_err());
    assert_eq!(store.pushes("t").await, Ok(Vec::new()));
}

#[tokio::test]
async fn webhook_without_task_is_deleted() {
    let (_redis, store, mut other) = start().await;
    create(&store, "t").await;
    store.put_push(&push("t"), Version::V1_0).await.unwrap();
    run(&mut other, "DEL ~task:t", None).await;
    assert_eq!(store.delete_push("t", "c").await, Ok(true));
    // No remains of a task keep its id.
    assert_eq!(store.load("t").await, Ok(None));
    assert_eq!(store.create(&record("t")).await, Ok(()));
}

#[tokio::test]
async fn webhook_of_other_task_is_not_used() {
    let (_redis, store, mut other) = start().await;
    create(&store, "t").await;
    let foreign = serde_json::json!({"config": push("u"), "version": "1.0"}).to_string();
    for entry in [format!("1 {foreign}"), "1 {".into(), "{}".into(), "".into()] {
        run(&mut other, "HSET ~push:t c", Some(entry.as_bytes())).await;
        let error = cause(store.pushes("t").await);
        assert!(error.contains("cannot be read"), "{entry}: {error}");
        assert!(!error.contains("hook"), "{error}");
    }
}

#[tokio::test]
async fn evicted_task_leaves_lists_usable() {
    let (_redis, store, mut other) = start().await;
    for id in ["a", "b", "c"] {
        create(&store, id).await;
    }
    run(&mut other, "DEL ~task:b", None).await;
    run(&mut other, "SET ~task:x", Some(b"mine")).await;
    run(&mut other, "ZADD ~all 1 x", None).await;
    let owned = Filter {
        owner: Some("ann".to_owned()),
        ..everything()
    };
    let found = store.list(&owned).await.unwrap();
    assert_eq!(found.tasks.len(), 2);
    assert_eq!(listed(&store).await, ["c", "a"]);
    // Lists forgot it.
    assert_eq!(listed(&store).await, ["c", "a"]);
}

#[tokio::test]
async fn odd_fields_leave_lists_usable() {
    let (_redis, store, mut other) = start().await;
    for (n, (field, value)) in [
        ("created", b"x".as_slice()),
        ("created", b"1e308"),
        ("since", b"\xff"),
        ("asked", b"\xff\xfe"),
        ("says", b"\xff"),
        ("agent", b"\xff"),
        ("state", b"asleep"),
        ("context", b"\xff"),
        ("owner", b"\xff"),
    ]
    .into_iter()
    .enumerate()
    {
        create(&store, &format!("t{n}")).await;
        run(&mut other, &format!("HSET ~task:t{n} {field}"), Some(value)).await;
    }
    assert_eq!(listed(&store).await.len(), 9);
}

#[tokio::test]
async fn odd_scores_leave_lists_usable() {
    let (_redis, store, mut other) = start().await;
    for (n, score) in ["1e308", "-1e308", "inf", "-inf", "1.5"]
        .into_iter()
        .enumerate()
    {
        let id = format!("t{n}");
        let mut task = create(&store, &id).await;
        set_state(&store, &mut task, TaskState::InputRequired).await;
        for index in ["all", "state:input-required"] {
            run(&mut other, &format!("ZADD ~{index} {score} {id}"), None).await;
        }
    }
    assert_eq!(listed(&store).await, ["t2", "t0", "t4", "t1", "t3"]);
    let waiting = store.unanswered(1000, 0, 10).await.unwrap();
    assert_eq!(waiting.len(), 3);
    // Pages of one task visit each task once.
    let mut filter = Filter {
        page_size: 1,
        ..everything()
    };
    let mut visited = 0;
    loop {
        let page = store.list(&filter).await.unwrap();
        visited += page.tasks.len();
        filter.after = page.next;
        assert!(visited <= 5);
        if filter.after.is_none() {
            break;
        }
    }
    assert!(visited >= 3);
}

#[tokio::test]
async fn damaged_tasks_delay_no_deletion() {
    let (_redis, store, mut other) = start().await;
    let mut task = create(&store, "whole").await;
    set_state(&store, &mut task, TaskState::Completed).await;
    for (n, damage) in [
        "DEL ~task:ID",
        "HSET ~task:ID bytes x",
        "HDEL ~task:ID context",
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("t{n}");
        let mut task = create(&store, &id).await;
        set_state(&store, &mut task, TaskState::Completed).await;
        run(&mut other, &damage.replace("ID", &id), None).await;
        // Before the whole one.
        run(&mut other, &format!("ZADD ~settled 0 {id}"), None).await;
    }
    // More than one step deletes.
    for n in 0..150 {
        run(&mut other, &format!("ZADD ~settled 0 gone{n}"), None).await;
    }
    run(&mut other, "SET ~task:string", Some(b"mine")).await;
    run(&mut other, "ZADD ~settled 0 string", None).await;
    prune(&store).await.unwrap();
    assert_eq!(store.load("whole").await, Ok(None));
    assert_eq!(listed(&store).await, Vec::<String>::new());
    // A key of another program stays.
    let kept: String = redis::cmd("GET")
        .arg("remote-agent:task:string")
        .query_async(&mut other)
        .await
        .unwrap();
    assert_eq!(kept, "mine");
}

#[tokio::test]
async fn odd_byte_counts_refuse_no_client_forever() {
    let (_redis, store, mut other) = start().await;
    let budget = Budget {
        per_client: 1 << 20,
        total: 1 << 20,
    };
    create(&store, "t").await;
    run(&mut other, "HSET ~bytes ann x", None).await;
    run(&mut other, "SET ~total x", None).await;
    assert_eq!(store.make_room("ann", 1, &budget, false).await, Ok(true));
    assert_eq!(store.create(&record("u")).await, Ok(()));
    assert_eq!(store.delete("t").await, Ok(true));
}

#[tokio::test]
async fn stored_task_of_other_id_is_damaged() {
    let (_redis, store, mut other) = start().await;
    let mut foreign = record("other");
    foreign.owner = "bob".to_owned();
    let bob = TaskFields::of(&foreign);
    let mut ahead = record("t");
    ahead.revision = u64::MAX;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut owner = record("t");
    owner.owner = "bob".to_owned();
    for base in [
        bob,
        TaskFields::of(&ahead),
        TaskFields::of(&owner),
        b"{".to_vec(),
        b"\xff".to_vec(),
        deep.into_bytes(),
        b"\"password of ann\"".to_vec(),
    ] {
        create(&store, "t").await;
        run(&mut other, "HSET ~task:t base", Some(&base)).await;
        let Err(StoreError::Damaged(error)) = store.load("t").await else {
            panic!("{}", String::from_utf8_lossy(&base[..base.len().min(80)]));
        };
        assert!(error.contains("cannot be read"), "{error}");
        assert!(
            !error.contains("bob") && !error.contains("password"),
            "{error}"
        );
        assert!(error.len() < 400, "{error}");
        assert!(store.subscribe("t").await.is_err());
        assert_eq!(store.delete("t").await, Ok(true));
    }
}

/// A list sends the record of a finished task as it is stored, but only with its checksum.
#[tokio::test]
async fn changed_record_of_a_finished_task_is_not_sent() {
    let (_redis, store, mut other) = start().await;
    let mut task = create(&store, "t").await;
    let changes = [TaskChange::Status(status(TaskState::Completed))];
    task.apply(changes[0].clone(), task.changed_ms + 1);
    store.finish(&task, &changes).await.unwrap();
    let page = store.page(&everything(), 0).await.unwrap();
    let bodies = store.bodies(None, &page.tasks).await.unwrap();
    let stored = str::from_utf8(bodies[0].as_ref().unwrap()).unwrap();
    let changed = stored.replace("do it", "do no");
    run(&mut other, "HSET ~task:t base", Some(changed.as_bytes())).await;
    assert_eq!(store.bodies(None, &page.tasks).await, Ok(vec![None]));
}

/// The reader of a page has no room for more than the page says.
#[tokio::test]
async fn record_that_grew_after_the_page_is_not_read() {
    let (_redis, store, mut other) = start().await;
    for id in ["t", "u", "v"] {
        let mut task = create(&store, id).await;
        let changes = [TaskChange::Status(status(TaskState::Completed))];
        task.apply(changes[0].clone(), task.changed_ms + 1);
        store.finish(&task, &changes).await.unwrap();
    }
    let page = store.page(&everything(), 0).await.unwrap();
    let before = store.bodies(None, &page.tasks).await.unwrap();
    assert_eq!(before.iter().flatten().count(), 3);
    let mut expected = before;
    expected[1] = None;
    let grown = &page.tasks[1].place.task_id;
    let base = vec![b'x'; 1 << 16];
    run(&mut other, &format!("HSET ~task:{grown} base"), Some(&base)).await;
    run(&mut other, "CONFIG RESETSTAT", None).await;
    assert_eq!(store.bodies(None, &page.tasks).await, Ok(expected));
    let mut info = redis::cmd("INFO");
    info.arg("stats");
    let info: String = info.query_async(&mut other).await.unwrap();
    let sent = info
        .lines()
        .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    let sent = sent.map(|bytes| bytes.parse::<usize>());
    assert!(matches!(sent, Some(Ok(1..65_536))), "{info}");
}

struct TaskFields;

impl TaskFields {
    fn of(record: &a2a_server::task_record::TaskRecord) -> Vec<u8> {
        serde_json::to_vec(record).unwrap()
    }
}

#[tokio::test]
async fn odd_revisions_and_entries_are_damaged() {
    let (_redis, store, mut other) = start().await;
    for (damage, last) in [
        ("HSET ~task:t base_revision", b"1e99".as_slice()),
        ("HSET ~task:t base_revision", b"secret"),
        ("HSET ~task:t base_revision", b"18446744073709551615"),
        ("HDEL ~task:t", b"base_revision"),
        ("RPUSH ~log:t", b"secret"),
        ("RPUSH ~log:t", b"99999999999999999999 {}"),
        ("HSET ~task:t revision", b"secret"),
        ("HSET ~task:t revision", b"0 "),
        ("HSET ~task:t revision", b"2"),
        ("LSET ~log:t 0", b"1 1 {\"status\":"),
        ("LSET ~log:t 0", b"1 {\"status\":"),
        ("LSET ~log:t 0", b"-1 1 {}"),
    ] {
        let mut task = create(&store, "t").await;
        append(&store, &mut task, chunk("x")).await;
        run(&mut other, damage, Some(last)).await;
        let Err(StoreError::Damaged(error)) = store.load("t").await else {
            panic!("{damage}");
        };
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(store.delete("t").await, Ok(true));
    }
}

#[tokio::test]
async fn wrong_type_is_damage_of_its_task() {
    let (_redis, store, mut other) = start().await;
    create(&store, "u").await;
    for set in [
        "SET ~task:t x",
        "RPUSH ~task:t x",
        "SADD ~task:t x",
        "ZADD ~task:t 1 x",
    ] {
        run(&mut other, set, None).await;
        let error = cause(store.load("t").await);
        assert!(error.contains("another program"), "{set}: {error}");
        for result in [
            store.create(&record("t")).await.err(),
            store.append("t", 0, 1, &[chunk("x")]).await.err(),
            store.request_cancel("t").await.err(),
            store.delete("t").await.err(),
            store.put_push(&push("t"), Version::V1_0).await.err(),
        ] {
            assert!(result.is_some(), "{set}");
        }
        assert_eq!(listed(&store).await, ["u"]);
        run(&mut other, "DEL ~task:t", None).await;
    }
}

#[tokio::test]
async fn foreign_cancel_requests_hold_up_no_other() {
    let (_redis, store, mut other) = start().await;
    create(&store, "t").await;
    let name: String = redis::cmd("HGET")
        .arg("remote-agent:task:t")
        .arg("server")
        .query_async(&mut other)
        .await
        .unwrap();
    let mut ids = vec![vec![b'x'; 5000]; 200];
    ids.push(b"\xff\xfe".to_vec());
    for id in ids {
        run(&mut other, &format!("RPUSH ~cancels:{name}"), Some(&id)).await;
    }
    store.request_cancel("t").await.unwrap();
    let mut requests = store.cancel_requests();
    in_time(async { while requests.next().await.unwrap() != "t" {} }).await;
}

#[tokio::test]
async fn foreign_keys_hold_up_no_recovery() {
    let redis = RedisServer::start();
    let mut other = client(&redis).await;
    let (dead, living) = (
        short_lease_server(&redis).await,
        short_lease_server(&redis).await,
    );
    create(&dead, "whole").await;
    let name: String = redis::cmd("HGET")
        .arg("remote-agent:task:whole")
        .arg("server")
        .query_async(&mut other)
        .await
        .unwrap();
    run(&mut other, "SET ~task:string x", None).await;
    for id in [b"string".as_slice(), b"\xff", b"gone"] {
        run(&mut other, &format!("SADD ~running:{name}"), Some(id)).await;
    }
    run(&mut other, "HSET ~task:\u{fffd} a b", None).await;
    let mut binary = redis::cmd("HSET");
    binary
        .arg(b"remote-agent:task:\xff".as_slice())
        .arg(&["base", "x"]);
    binary.exec_async(&mut other).await.unwrap();
    run(&mut other, "SADD ~servers a b", None).await;
    run(&mut other, "SET ~running:a x", None).await;
    run(&mut other, "SET ~places:b x", None).await;
    drop(dead);
    let recovered = until(|| async {
        let tasks = living.recover().await.unwrap_or_default();
        tasks.into_iter().next()
    })
    .await;
    assert_eq!(recovered.id, "whole");
    living.recover().await.unwrap();
}

#[tokio::test]
async fn foreign_slots_hold_up_no_queue() {
    let (_redis, store, mut other) = start().await;
    for slot in [b"".as_slice(), b"/", b"/9", b"\xff", b"absent/1"] {
        run(&mut other, "RPUSH ~queue:q", Some(slot)).await;
    }
    in_time(in_time(store.enqueue("q", "t")).await.unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn foreign_counters_are_found_at_start() {
    for key in SHARED_KEYS {
        let redis = RedisServer::start();
        let mut other = client(&redis).await;
        run(&mut other, &format!("LPUSH ~{key} x"), None).await;
        let error = refused(&a2a_server::store::redis::Options::new(redis.url())).await;
        assert!(error.contains("another program"), "{key}: {error}");
    }
}

/// Keys that all tasks share.
const SHARED_KEYS: [&str; 7] = [
    "total",
    "bytes",
    "format",
    "all",
    "settled",
    "servers",
    "state:input-required",
];

#[tokio::test]
async fn foreign_shared_key_is_not_ready() {
    let (_redis, store, mut other) = start().await;
    for key in SHARED_KEYS {
        run(&mut other, &format!("DEL ~{key}"), None).await;
        run(&mut other, &format!("LPUSH ~{key} x"), None).await;
        let error = cause(store.ready().await);
        let named = format!("the key `remote-agent:{key}`");
        assert!(error.contains(&named), "{key}: {error}");
        run(&mut other, &format!("DEL ~{key}"), None).await;
        assert_eq!(store.ready().await, Ok(()), "{key}");
    }
}

#[tokio::test]
async fn flushed_task_ends_its_subscriptions() {
    let (redis, store, mut other) = start().await;
    let watcher = server(&redis).await;
    let task = create(&store, "t").await;
    let mut subscription = watcher.subscribe("t").await.unwrap().unwrap();
    run(&mut other, "FLUSHALL", None).await;
    let lost = store.append("t", task.revision, 2, &[chunk("late")]).await;
    assert_eq!(lost, Err(StoreError::NotFound));
    assert_eq!(in_time(subscription.updates.next()).await, None);
    // Both servers continue.
    let mut next = create(&store, "u").await;
    append(&store, &mut next, chunk("more")).await;
    assert_eq!(watcher.load("u").await, Ok(Some(next)));
    in_time(store.enqueue("q", "u").await.unwrap())
        .await
        .unwrap();
    store.ready().await.unwrap();
}

#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let (_redis, store, mut other) = start().await;
    let mut task = create(&store, "t").await;
    run(&mut other, "SCRIPT FLUSH", None).await;
    append(&store, &mut task, chunk("more")).await;
    assert_eq!(store.load("t").await, Ok(Some(task)));
}
