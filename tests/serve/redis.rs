//! Two servers on one Redis: each shows and cancels tasks of the other, and fails them when the other is killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve::http_client::{Stream, call, command, message_params};
use testkit::support::redis_server::RedisServer;
use testkit::support::serve::Server;

/// A server counts as dead 15 s after its last heartbeat, and the others check every 5 s.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(40);

/// The timeout of other events.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

fn start_servers(redis: &RedisServer) -> [Server; 2] {
    [(); 2].map(|()| Server::scripted(&["--task-store", &redis.url()]))
}

/// Starts a task that does not end, and waits for its artifact.
fn start_task(server: &Server) -> String {
    let stream = Stream::open(
        server,
        "SendStreamingMessage",
        &message_params("begun well", true),
    );
    let mut events = stream.unwrap();
    let first = events.next().unwrap();
    // The stream may begin before or after the artifact.
    if !first["task"]["artifacts"].is_array() {
        let artifact_event = events.find(|event| event["artifactUpdate"].is_object());
        artifact_event.expect("an artifact of the task");
    }
    first["task"]["id"].as_str().unwrap().to_owned()
}

fn task_state(server: &Server, task: &str) -> Value {
    call(server, "GetTask", &json!({"id": task}))["result"]["status"]["state"].take()
}

/// Waits for the first event of a stream, the current task, so that the stream receives all that follows. Reads the
/// others on a thread, until a terminal state.
fn last_status(mut stream: Stream) -> std::sync::mpsc::Receiver<Value> {
    let task = stream.next().expect("the task as it is");
    assert!(task["task"].is_object(), "{task}");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let statuses = stream.map(|mut event| event["statusUpdate"]["status"].take());
        let _ = sender.send(statuses.last().unwrap_or_default());
    });
    receiver
}

#[test]
fn task_is_visible_on_every_server() {
    let redis = RedisServer::start();
    let [first, second] = start_servers(&redis);
    let task = start_task(&first);
    let found = call(&second, "GetTask", &json!({"id": task}));
    assert_eq!(found["result"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(found["result"]["artifacts"][0]["parts"][0]["text"], "well");
    let listed = call(&second, "ListTasks", &json!({}));
    assert_eq!(listed["result"]["tasks"][0]["id"], task, "{listed}");
}

#[test]
fn deletion_by_command_reaches_every_server() {
    let redis = RedisServer::start();
    let servers = start_servers(&redis);
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
    let [first, second] = start_servers(&redis);
    let task = start_task(&first);
    let stream = Stream::open(&first, "SubscribeToTask", &json!({"id": task})).unwrap();
    let last = last_status(stream);
    let canceled = call(&second, "CancelTask", &json!({"id": task}));
    assert_eq!(
        canceled["result"]["status"]["state"], "TASK_STATE_CANCELED",
        "{canceled}"
    );
    let last = last.recv_timeout(EVENT_TIMEOUT).unwrap();
    assert_eq!(last["state"], "TASK_STATE_CANCELED", "{last}");
    for server in [&first, &second] {
        assert_eq!(task_state(server, &task), "TASK_STATE_CANCELED");
    }
}

#[test]
fn tasks_of_killed_server_are_failed_by_the_other() {
    let redis = RedisServer::start();
    let [first, second] = start_servers(&redis);
    let task = start_task(&first);
    let before = Stream::open(&second, "SubscribeToTask", &json!({"id": task})).unwrap();
    let before = last_status(before);
    first.kill();
    let killed_at = Instant::now();
    first.wait_for_exit();

    // Its lease has not expired yet.
    assert_eq!(task_state(&second, &task), "TASK_STATE_WORKING");
    let after = Stream::open(&second, "SubscribeToTask", &json!({"id": task})).unwrap();
    let after = last_status(after);
    for last in [before, after] {
        let last = last.recv_timeout(FAILURE_TIMEOUT).unwrap();
        assert_eq!(last["state"], "TASK_STATE_FAILED", "{last}");
    }
    println!(
        "the task of a killed server failed after {:?}",
        killed_at.elapsed()
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
