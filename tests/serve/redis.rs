//! Two servers on one Redis: each shows and cancels tasks of the other, and ends them when the other dies.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::plain::{Stream, call, command, message_params};
use testkit::support::redis_server::RedisServer;
use testkit::support::serve::Server;

/// A server counts as dead 15 s after its last heartbeat, and the others check every 5 s.
const MARKED: Duration = Duration::from_secs(40);

/// How long to wait for other events.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

fn pair(redis: &RedisServer) -> [Server; 2] {
    [(); 2].map(|()| Server::scripted(&["--task-store", &redis.url()]))
}

/// Starts a task that never ends by itself, and waits for its artifact.
fn begin(server: &Server) -> String {
    let stream = Stream::open(
        server,
        "SendStreamingMessage",
        &message_params("begun well", true),
    );
    let mut events = stream.unwrap();
    let first = events.next().unwrap();
    // The stream may begin before or after the artifact.
    if !first["task"]["artifacts"].is_array() {
        let given = events.find(|event| event["artifactUpdate"].is_object());
        given.expect("the task to begin");
    }
    first["task"]["id"].as_str().unwrap().to_owned()
}

fn state_of(server: &Server, task: &str) -> Value {
    call(server, "GetTask", &json!({"id": task}))["result"]["status"]["state"].take()
}

/// Reads the events of a stream on a thread, until a terminal state.
fn last_of(stream: Stream) -> std::sync::mpsc::Receiver<Value> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let statuses = stream.map(|mut event| event["statusUpdate"]["status"].take());
        let _ = sender.send(statuses.last().unwrap_or_default());
    });
    receiver
}

#[test]
fn any_server_shows_task_of_another() {
    let redis = RedisServer::start();
    let [first, second] = pair(&redis);
    let task = begin(&first);
    let found = call(&second, "GetTask", &json!({"id": task}));
    assert_eq!(found["result"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(found["result"]["artifacts"][0]["parts"][0]["text"], "well");
    let listed = call(&second, "ListTasks", &json!({}));
    assert_eq!(listed["result"]["tasks"][0]["id"], task, "{listed}");
}

#[test]
fn deletion_by_command_reaches_every_server() {
    let redis = RedisServer::start();
    let servers = pair(&redis);
    let task = call(
        &servers[0],
        "SendMessage",
        &message_params("ask which colour", false),
    );
    let task = task["result"]["task"]["id"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.json");
    std::fs::write(&file, json!({"taskStore": redis.url()}).to_string()).unwrap();
    let file = file.to_str().unwrap();
    let deleted = command(&["serve", "tasks", "delete", task, "--config", file]);
    assert!(deleted.status.success(), "{deleted:?}");
    for server in &servers {
        let answer = call(server, "GetTask", &json!({"id": task}));
        assert_eq!(answer["error"]["code"], -32001, "{answer}");
    }
}

#[test]
fn cancel_reaches_the_other_server() {
    let redis = RedisServer::start();
    let [first, second] = pair(&redis);
    let task = begin(&first);
    let follow = Stream::open(&first, "SubscribeToTask", &json!({"id": task})).unwrap();
    let last = last_of(follow);
    let canceled = call(&second, "CancelTask", &json!({"id": task}));
    assert_eq!(
        canceled["result"]["status"]["state"], "TASK_STATE_CANCELED",
        "{canceled}"
    );
    let last = last.recv_timeout(EXIT_TIMEOUT).unwrap();
    assert_eq!(last["state"], "TASK_STATE_CANCELED", "{last}");
    for server in [&first, &second] {
        assert_eq!(state_of(server, &task), "TASK_STATE_CANCELED");
    }
}

#[test]
fn killed_servers_tasks_are_marked_by_the_other() {
    let redis = RedisServer::start();
    let [first, second] = pair(&redis);
    let task = begin(&first);
    let before = Stream::open(&second, "SubscribeToTask", &json!({"id": task})).unwrap();
    let before = last_of(before);
    first.kill();
    let killed = Instant::now();
    first.ended();

    // Its lease has not expired yet.
    assert_eq!(state_of(&second, &task), "TASK_STATE_WORKING");
    let after = Stream::open(&second, "SubscribeToTask", &json!({"id": task})).unwrap();
    let after = last_of(after);
    for last in [before, after] {
        let last = last.recv_timeout(MARKED).unwrap();
        assert_eq!(last["state"], "TASK_STATE_FAILED", "{last}");
    }
    println!(
        "the task of a killed server was marked after {:?}",
        killed.elapsed()
    );
    let found = call(&second, "GetTask", &json!({"id": task}))["result"].take();
    assert_eq!(found["status"]["state"], "TASK_STATE_FAILED", "{found}");
    assert!(found.to_string().contains("interrupted"), "{found}");
    assert_eq!(found["artifacts"][0]["parts"][0]["text"], "well", "{found}");
    let listed = call(
        &second,
        "ListTasks",
        &json!({"status": "TASK_STATE_FAILED"}),
    );
    assert_eq!(listed["result"]["tasks"][0]["id"], task, "{listed}");
}
