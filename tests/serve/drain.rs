//! Stops the command with signals while clients follow tasks.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::serve::http_client::{Stream, call, exchange, message_params};
use testkit::support::serve::Server;

const TASKS: usize = 50;

/// What the streams of the clients contained when the server ended, and what the next server answers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Streams that ended without a terminal state, and with `failed`.
    unfinished: usize,
    failed: usize,
    /// Tasks that the next server completes, and that it reports as failed.
    completed_later: usize,
    failed_later: usize,
}

/// Sends 50 messages over streams, ends the server with `signal` once each client has its task, and subscribes to all
/// tasks at the next server.
fn interrupt(signal: &str, text: &str, flags: &[&str]) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let flags = [&["--state-dir", state, "--drain", "0"], flags].concat();
    let server = Server::scripted(&flags);
    let all_started = Barrier::new(TASKS + 1);
    let followed: Vec<(String, String)> = thread::scope(|scope| {
        let clients: Vec<_> = (0..TASKS)
            .map(|_| scope.spawn(|| follow(&server, text, &all_started)))
            .collect();
        all_started.wait();
        server.signal(signal);
        let ended = clients.into_iter().map(|client| client.join().unwrap());
        ended.collect()
    });
    drop(server);
    let next = Server::scripted(&flags);
    let mut seen = Seen::default();
    for (id, state) in followed {
        match &*state {
            "TASK_STATE_FAILED" => seen.failed += 1,
            _ => seen.unfinished += 1,
        }
        match &*end(&next, &id) {
            "TASK_STATE_COMPLETED" => seen.completed_later += 1,
            _ => seen.failed_later += 1,
        }
    }
    seen
}

/// Sends a message and returns the id of its task and the last state in the stream.
fn follow(server: &Server, text: &str, all_started: &Barrier) -> (String, String) {
    let params = message_params(text, false);
    let mut events = Stream::open(server, "SendStreamingMessage", &params).unwrap();
    let first = events.next().unwrap();
    let id = first["task"]["id"].as_str().unwrap().to_owned();
    all_started.wait();
    let state = events.fold(state(&first), |_, event| state(&event));
    (id, state)
}

fn state(event: &Value) -> String {
    let status = [&event["task"]["status"], &event["statusUpdate"]["status"]];
    let states = status
        .into_iter()
        .find_map(|status| status["state"].as_str());
    states.unwrap_or_default().to_owned()
}

/// Returns the state of a task once it is terminal.
fn end(server: &Server, id: &str) -> String {
    let params = json!({"id": id});
    let last = Stream::open(server, "SubscribeToTask", &params)
        .into_iter()
        .flatten()
        .last();
    match last.as_ref().map(state).filter(|state| !state.is_empty()) {
        Some(state) => state,
        // A task that has ended has no stream.
        None => state(&json!({"task": call(server, "GetTask", &params)["result"]})),
    }
}

/// What the clients see of tasks that the next server continues.
fn left_to_the_next() -> Seen {
    Seen {
        unfinished: TASKS,
        completed_later: TASKS,
        ..Seen::default()
    }
}

#[test]
fn stopped_server_leaves_running_and_queued_tasks_to_the_next() {
    let seen = interrupt("-TERM", "resume 2000", &["--limit", "runs=25"]);
    assert_eq!(seen, left_to_the_next());
}

#[test]
fn killed_server_leaves_running_tasks_to_the_next() {
    let seen = interrupt("-KILL", "resume 2000", &["--limit", "runs=50"]);
    assert_eq!(seen, left_to_the_next());
}

#[test]
fn stopped_server_fails_tasks_that_no_server_can_continue() {
    let seen = interrupt("-TERM", "slow", &["--limit", "runs=50"]);
    let expected = Seen {
        failed: TASKS,
        failed_later: TASKS,
        ..Seen::default()
    };
    assert_eq!(seen, expected);
}

#[test]
fn draining_server_refuses_messages_until_its_tasks_end() {
    let server = Server::scripted(&["--task-store", "memory", "--drain", "3600"]);
    let sent = call(
        &server,
        "SendMessage",
        &message_params("slow 3600000", true),
    );
    let id = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
    server.signal("-TERM");
    while exchange(&server, "GET /readyz", &[], "").status != 503 {}
    let message = message_params("echo hello", false).to_string();
    let headers = ["Content-Type: application/json", "A2A-Version: 1.0"];
    let refused = exchange(&server, "POST /rest/message:send", &headers, &message);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("\r\nretry-after: "), "{refused:?}");
    let task = call(&server, "GetTask", &json!({"id": id}));
    assert!(task["result"]["status"]["state"] != "TASK_STATE_FAILED");
    // The last task ends, and so does the server.
    let canceled = call(&server, "CancelTask", &json!({"id": id}));
    assert_eq!(canceled["result"]["status"]["state"], "TASK_STATE_CANCELED");
    assert!(server.wait_for_exit().status.success());
}

#[test]
fn task_that_ends_during_the_drain_is_complete() {
    let server = Server::scripted(&["--task-store", "memory", "--drain", "3600"]);
    let params = message_params("stream 10 100", false);
    let mut events = Stream::open(&server, "SendStreamingMessage", &params).unwrap();
    events.next().unwrap();
    server.signal("-TERM");
    assert_eq!(state(&events.last().unwrap()), "TASK_STATE_COMPLETED");
    assert!(server.wait_for_exit().status.success());
}

#[test]
fn second_signal_ends_the_server_at_once() {
    let server = Server::scripted(&["--task-store", "memory", "--drain", "3600"]);
    call(
        &server,
        "SendMessage",
        &message_params("slow 3600000", true),
    );
    server.signal("-TERM");
    while exchange(&server, "GET /readyz", &[], "").status != 503 {}
    assert!(server.stop().status.success());
}

/// Follows 50 tasks with an official client through an end of the server by `signal`. Returns how its streams ended, and
/// the last states after it has subscribed again.
#[cfg(feature = "real")]
fn official_client(mut command: std::process::Command, signal: &str) -> [Value; 2] {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;

    let folder = tempfile::tempdir().unwrap();
    let port = testkit::support::free_port().to_string();
    let state = folder.path().to_str().unwrap();
    let flags = ["--executor", "scripted", "--port", &port, "--drain", "0"];
    let flags = [&flags[..], &["--state-dir", state, "--limit", "runs=50"]].concat();
    let server = Server::start(&flags, &[]);
    command.args([server.url(), &TASKS.to_string(), "resume 5000"]);
    let client = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["started"], TASKS);
    server.signal(signal);
    server.wait_for_exit();
    let _server = Server::start(&flags, &[]);
    let ends = next()["ends"].take();
    client.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let states = next()["states"].take();
    assert!(client.wait().unwrap().success());
    [ends, states]
}

#[cfg(feature = "real")]
#[test]
fn official_clients_continue_after_the_end_of_a_server() {
    use std::process::Command;
    use testkit::support::sdk::{self, Sdk};

    let program = |name: &str| crate::serve::root("tests/serve").join(name);
    let python = || {
        let mut command = Command::new(sdk::home(Sdk::Py13).join("bin/python"));
        command.arg(program("restart_client.py"));
        command
    };
    let node = || {
        let mut command = Command::new("node");
        command.arg(program("restart_client.mjs"));
        command.arg(sdk::home(Sdk::Js13));
        command
    };
    let completed = json!({"completed": TASKS});
    for command in [python(), node()] {
        let [ends, states] = official_client(command, "-TERM");
        assert_eq!((ends, states), (json!({"clean": TASKS}), completed.clone()));
    }
    for command in [python(), node()] {
        let [ends, states] = official_client(command, "-KILL");
        assert!(ends["clean"].is_null(), "{ends}");
        assert_eq!(states, completed);
    }
}
