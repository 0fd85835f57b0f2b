//! A Redis that refuses, lies and stalls.

use a2a_server::store::redis::{Options, RedisStore};
use a2a_server::store::{StoreError, TaskStore};

use crate::redis::proxy::{Proxy, start_impostor};
use crate::redis::rig::{append, chunk, client, connect, create, in_time, refused, server, until};
use testkit::support::redis_server::RedisServer;

/// Returns why a load fails.
async fn load_error(store: &RedisStore) -> String {
    match in_time(store.load("t")).await {
        Err(
            StoreError::Failed(error) | StoreError::Refused(error) | StoreError::Damaged(error),
        ) => error,
        other => panic!("{other:?}"),
    }
}

/// A server with a password on its Redis, behind a proxy.
async fn behind_proxy() -> (RedisServer, Proxy, RedisStore) {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port()).await;
    let store = connect(&Options::new(proxy.url())).await;
    create(&store, "t").await;
    (redis, proxy, store)
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let (_redis, proxy, store) = behind_proxy().await;
    for (reply, expected) in [
        ("-MOVED 3999 10.0.0.1:6379", "is a cluster"),
        ("-ASK 3999 10.0.0.1:6379", "is a cluster"),
        ("-CROSSSLOT Keys in request don't hash", "is a cluster"),
        ("-CLUSTERDOWN Hash slot not served", "is a cluster"),
        (
            "-READONLY You can't write against a read only replica.",
            "is a replica",
        ),
        (
            "-LOADING Redis is loading the dataset in memory",
            "still loading",
        ),
        ("-MASTERDOWN Link with MASTER is down", "replica"),
        (
            "-OOM command not allowed when used memory > 'maxmemory'.",
            "is full",
        ),
        (
            "-MISCONF Redis is configured to save RDB snapshots",
            "cannot write to its disk",
        ),
        (
            "-NOAUTH Authentication required.",
            "the user or the password",
        ),
        (
            "-WRONGPASS invalid username-password pair",
            "the user or the password",
        ),
        ("-NOPERM this user has no permissions", "may not do"),
        // Redis 6.2 and 7.2 word the refusals of a script differently.
        (
            "-ERR Error running script (call to f_0): @user_script:3: @user_script: 3: -READONLY You can't write against a \
             read only replica.",
            "is a replica",
        ),
        (
            "-ERR ACL failure in script: User agent has no permissions to run the 'hset' command script: 0, on @user_script:3.",
            "may not run `hset`; grant it `+hset`",
        ),
        (
            "-BUSY Redis is busy running a script.",
            "a script of another client",
        ),
        ("-NOREPLICAS Not enough good replicas to write.", "replicas"),
        ("-ERR max number of clients reached", "no more connections"),
        (
            "-ERR Error running script: Script killed by user with SCRIPT KILL...",
            "killed",
        ),
    ] {
        proxy.replace_replies(format!("{reply}\r\n").as_bytes());
        let error = load_error(&store).await;
        assert!(error.contains(expected), "{reply}: {error}");
        proxy.forward();
        // A failed attempt to connect counts for a moment.
        until(|| async { store.load("t").await.ok().flatten() }).await;
    }
}

#[tokio::test]
async fn errors_repeat_no_data_and_no_control_characters() {
    let (_redis, proxy, store) = behind_proxy().await;
    let long = format!("-ERR {}", "x".repeat(1 << 20));
    for reply in [
        "-ERR unknown command 'EVALSHA', with args beginning with: 'hunter2' ",
        "-ERR \u{1b}]0;hunter2\u{7} hunter2",
        "-HUNTER2hunter2 hunter2",
        &long,
        "+hunter2",
        "*1\r\n$7\r\nhunter2",
        "*3\r\n$7\r\nhunter2\r\n$7\r\nhunter2\r\n*0",
        ":42",
        "hunter2",
    ] {
        proxy.replace_replies(format!("{reply}\r\n").as_bytes());
        let error = load_error(&store).await;
        assert!(!error.contains("hunter2"), "{error}");
        assert!(!error.contains(char::is_control), "{error:?}");
        assert!(error.len() < 400, "{} bytes", error.len());
        proxy.forward();
    }
}

#[tokio::test]
async fn rejected_command_names_no_password() {
    let (address, _impostor) =
        start_impostor(b"-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n")
            .await;
    let error = refused(&Options::new(format!("redis://:hunter2@{address}/"))).await;
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn impostor_is_refused_in_time() {
    let answers = [
        b"".as_slice(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+OK\r\n",
        b"$9999999999\r\n",
        b"$-9999999999\r\n",
        b"*9999999999\r\n",
        b"*1000000000\r\n+OK\r\n",
        b"%9223372036854775807\r\n",
        b"|4611686018427387903\r\n",
        b"~9999999999\r\n",
        b">9999999999\r\n",
        b"!-1\r\n",
        b"=-1\r\n",
        b":99999999999999999999999\r\n",
        b"$5\r\nabc",
        b"\0\0\0\0",
    ];
    let refusals = answers.map(async |answer| {
        let (address, _impostor) = start_impostor(answer).await;
        let error = in_time(refused(&Options::new(format!("redis://{address}/")))).await;
        assert!(error.contains(&address.port().to_string()), "{error}");
    });
    futures_util::future::join_all(refusals).await;
}

#[tokio::test]
async fn nested_replies_are_refused() {
    let (_redis, proxy, store) = behind_proxy().await;
    proxy.replace_replies(&b"*1\r\n".repeat(10_000));
    load_error(&store).await;
    proxy.forward();
    in_time(store.load("t")).await.unwrap().unwrap();
}

#[tokio::test]
async fn additional_reply_answers_no_other_request() {
    let (redis, proxy, store) = behind_proxy().await;
    create(&server(&redis).await, "u").await;
    // A reply to no request; from now on every reply would be that to the previous request.
    proxy.replace_replies(b"+OK\r\n+OK\r\n+OK\r\n");
    let _ = in_time(store.load("t")).await;
    proxy.forward();
    for id in ["t", "u", "t", "u"] {
        if let Ok(found) = in_time(store.load(id)).await {
            assert_eq!(found.unwrap().task.id, id);
        }
    }
    let found = in_time(store.load("u")).await.unwrap().unwrap();
    assert_eq!(found.task.id, "u");
}

#[tokio::test]
async fn unknown_answer_is_no_success() {
    let (_redis, proxy, store) = behind_proxy().await;
    for reply in ["+QUEUED", "+OK", "$-1", ":1", "*0"] {
        proxy.replace_replies(format!("{reply}\r\n").as_bytes());
        for result in [
            in_time(store.append("t", 0, 2, &[chunk("x")])).await.err(),
            in_time(store.request_cancel("t")).await.err(),
            in_time(store.create(&crate::redis::rig::record("v")))
                .await
                .err(),
        ] {
            let Some(StoreError::Failed(error)) = result else {
                panic!("{reply}: {result:?}");
            };
            assert!(error.contains("unexpected"), "{reply}: {error}");
        }
        proxy.forward();
    }
}

/// A change waits for these and is stored afterwards.
#[tokio::test]
async fn change_waits_for_busy_redis() {
    let (_redis, proxy, store) = behind_proxy().await;
    let mut task = crate::redis::rig::record("t");
    for reply in [
        "-BUSY Redis is busy running a script.",
        "-ERR max number of clients reached",
        "-LOADING Redis is loading",
        "-READONLY You can't write",
        "-NOREPLICAS Not enough good replicas to write.",
        "-OOM command not allowed when used memory > 'maxmemory'.",
        "-MISCONF Redis is configured to save RDB snapshots",
    ] {
        proxy.replace_replies(format!("{reply}\r\n").as_bytes());
        let (_, ()) = tokio::join!(append(&store, &mut task, chunk(reply)), async {
            until(|| async { proxy.has_replaced_reply().then_some(()) }).await;
            proxy.forward();
        });
    }
    assert_eq!(store.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn slow_script_of_another_client_is_waited_for() {
    let redis = RedisServer::start_with(&["--save", "", "--lua-time-limit", "10"]);
    let store = server(&redis).await;
    let mut task = create(&store, "t").await;
    let mut busy = client(&redis).await;
    let script = tokio::spawn(async move {
        let _ = redis::cmd("EVAL")
            .arg(&["while true do end", "0"])
            .exec_async(&mut busy)
            .await;
    });
    let mut observer = client(&redis).await;
    until(|| {
        let mut observer = observer.clone();
        async move {
            let ping = redis::cmd("PING").exec_async(&mut observer).await;
            ping.is_err().then_some(())
        }
    })
    .await;
    let error = store.ready().await.unwrap_err().to_string();
    assert!(error.contains("script of another client"), "{error}");
    let (_, ()) = tokio::join!(append(&store, &mut task, chunk("x")), async {
        redis::cmd("SCRIPT")
            .arg("KILL")
            .exec_async(&mut observer)
            .await
            .unwrap();
    });
    script.await.unwrap();
    assert_eq!(store.load("t").await, Ok(Some(task)));
    store.ready().await.unwrap();
}

#[tokio::test]
async fn demoted_primary_is_not_ready() {
    let redis = RedisServer::start();
    let store = server(&redis).await;
    let mut task = create(&store, "t").await;
    let mut other = client(&redis).await;
    let mut role = redis::cmd("REPLICAOF");
    role.arg(&["127.0.0.1", "1"])
        .exec_async(&mut other)
        .await
        .unwrap();
    let error = store.ready().await.unwrap_err().to_string();
    assert!(error.contains("replica"), "{error}");
    let (_, ()) = tokio::join!(append(&store, &mut task, chunk("x")), async {
        redis::cmd("REPLICAOF")
            .arg(&["NO", "ONE"])
            .exec_async(&mut other)
            .await
            .unwrap();
    });
    assert_eq!(store.load("t").await, Ok(Some(task)));
}

#[tokio::test]
async fn stalled_redis_ends_every_call_and_close() {
    let (_redis, proxy, store) = behind_proxy().await;
    proxy.hold_replies();
    let calls = futures_util::future::join_all((0..200).map(|_| store.load("t")));
    let (loads, ready, enqueue, subscribe) = in_time(async {
        tokio::join!(
            calls,
            store.ready(),
            store.enqueue("q", "t"),
            store.subscribe("t")
        )
    })
    .await;
    assert!(loads.iter().all(Result::is_err));
    assert!(ready.is_err() && enqueue.is_err() && subscribe.is_err());
    assert!(in_time(store.close()).await.is_err());
}
