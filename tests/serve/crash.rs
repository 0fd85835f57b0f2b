//! Kills the command at random moments while clients use it, and checks that every reported task survives.
//!
//! `CRASH_ROUNDS=100 cargo test --test suite serve::crash -- --nocapture` runs more rounds.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::support::words;
use crate::serve::http_client::{Stream, call, message_params, try_call};
use testkit::support::serve::Server;

const ROUNDS: u32 = 10;

/// Concurrent clients.
const CLIENTS: usize = 8;

/// The maximum delay from the first received task to the kill, in milliseconds.
const MAX_KILL_DELAY_MS: u16 = 500;

const SIGKILL: i32 = 9;

/// A server counts as dead 15 s after its last heartbeat, and the others check every 5 s.
#[cfg(feature = "real")]
const LEASE_TIMEOUT: Duration = Duration::from_secs(25);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

const FLAGS: &str = "--retention-count 1000000 --limit runs=1000 --limit tasksPerClient=100000 --limit requestsPerSecond=1000000 \
     --limit burst=1000000";

/// What clients received of a task.
#[derive(Default)]
struct ReceivedTask {
    /// The last state.
    state: String,
    /// The text of its artifact so far.
    text: String,
}

#[derive(Default)]
struct Report {
    tasks: BTreeMap<String, ReceivedTask>,
    events: usize,
    completed: usize,
    interrupted: usize,
}

#[test]
fn killed_server_keeps_reported_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    kill_and_check(|round| start(state, round), Duration::ZERO);
}

/// The tasks of a killed server end when its lease has expired.
#[cfg(feature = "real")]
#[test]
fn killed_server_keeps_reported_tasks_in_redis() {
    let redis = testkit::support::redis_server::RedisServer::start();
    let flags = format!("--task-store {} {FLAGS}", redis.url());
    kill_and_check(|_| Server::scripted(&words(&flags)), LEASE_TIMEOUT);
}

/// `lease` is how long a task may seem to run after its server was killed.
fn kill_and_check(start: impl Fn(u32) -> Server, lease: Duration) {
    let rounds = std::env::var("CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut total = Report::default();
    for round in 0..rounds {
        let mut received = Report::default();
        let server = start(round);
        send_until_killed(&server, &mut received);
        assert_eq!(server.wait_for_exit().status.signal(), Some(SIGKILL));
        received.check_restarted_server(&start(round), lease > Duration::ZERO);
        total.merge(received);
    }
    let server = start(0);
    total.wait_for_ends(&server, lease);
    total.check_restarted_server(&server, false);
    println!(
        "{rounds} times killed: {} tasks received in {} responses and events, {} completed and {} interrupted, none lost",
        total.tasks.len(),
        total.events,
        total.completed,
        total.interrupted,
    );
}

/// Starts a server on the directory. Rounds use different fsync modes. None of them may lose data when the process is killed.
fn start(state: &str, round: u32) -> Server {
    let fsync = ["interval", "always", "never"][round as usize % 3];
    let flags = format!("--state-dir '{state}' --fsync {fsync} {FLAGS}");
    Server::scripted(&words(&flags))
}

fn send_until_killed(server: &Server, received: &mut Report) {
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let sender = sender.clone();
            scope.spawn(move || {
                (client..)
                    .map_while(|index| send_next(server, index, &sender))
                    .count()
            });
        }
        drop(sender);
        received.record(&receiver.recv().unwrap());
        let random = uuid::Uuid::new_v4().as_fields().1;
        thread::sleep(Duration::from_millis(u64::from(random % MAX_KILL_DELAY_MS)));
        server.kill();
        for result in receiver {
            received.record(&result);
        }
    });
}

/// Sends one message and passes all results on. Returns `None` once the server has ended.
fn send_next(server: &Server, index: usize, sender: &Sender<Value>) -> Option<()> {
    let text = [
        "stream 30 3",
        "chunks 40",
        "task gamma",
        "begun well",
        "echo gone",
    ][index % 5];
    if index % 5 < 2 {
        let mut is_terminal_received = false;
        for result in Stream::open(server, "SendStreamingMessage", &message_params(text, false))? {
            is_terminal_received |= is_terminal(&result["statusUpdate"]["status"]);
            sender.send(result).unwrap();
        }
        return is_terminal_received.then_some(());
    }
    let mut answer = try_call(
        server,
        "SendMessage",
        &message_params(text, text == "begun well"),
    )?;
    sender.send(answer["result"].take()).unwrap();
    Some(())
}

fn is_terminal(status: &Value) -> bool {
    let state = status["state"].as_str().unwrap_or_default();
    !state.is_empty() && !runs(state)
}

fn runs(state: &str) -> bool {
    ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state)
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn artifact_text(artifact: &Value) -> String {
    let parts = artifact["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

impl Report {
    fn record(&mut self, result: &Value) {
        self.events += 1;
        let (task, status, artifact) = (
            &result["task"],
            &result["statusUpdate"],
            &result["artifactUpdate"],
        );
        let id = [&task["id"], &status["taskId"], &artifact["taskId"]];
        let id = id.into_iter().find_map(Value::as_str);
        let id = id.unwrap_or_else(|| panic!("no task id in {result}"));
        let received = self.tasks.entry(id.to_owned()).or_default();
        if task.is_object() {
            received.state = string(&task["status"]["state"]);
            received.text = artifact_text(&task["artifacts"][0]);
        } else if status.is_object() {
            received.state = string(&status["status"]["state"]);
        } else {
            if artifact["append"] != true {
                received.text.clear();
            }
            received.text += &artifact_text(&artifact["artifact"]);
        }
    }

    /// Checks that a restarted server has every received task. Unless a task `may_run`, it has ended.
    fn check_restarted_server(&mut self, server: &Server, may_run: bool) {
        (self.completed, self.interrupted) = (0, 0);
        for (id, received) in &self.tasks {
            let found = call(server, "GetTask", &json!({"id": id}))["result"].take();
            let (state, text) = (
                string(&found["status"]["state"]),
                artifact_text(&found["artifacts"][0]),
            );
            let context = format!(
                "{id}: received {} {:?}, found {found}",
                received.state, received.text
            );
            if received.state == "TASK_STATE_COMPLETED" {
                assert_eq!(
                    (&state, &text),
                    (&received.state, &received.text),
                    "{context}"
                );
                self.completed += 1;
                continue;
            }
            assert!(text.starts_with(&received.text), "{context}");
            // The task may have ended before the kill without a report to the client.
            if state != "TASK_STATE_COMPLETED" && !(may_run && runs(&state)) {
                assert_eq!(state, "TASK_STATE_FAILED", "{context}");
                assert!(found.to_string().contains("interrupted"), "{context}");
                self.interrupted += 1;
            }
        }
    }

    /// Waits until no received task runs, or `most`, in which a server notices that another one is dead.
    fn wait_for_ends(&self, server: &Server, most: Duration) {
        let deadline = Instant::now() + most;
        for id in self.tasks.keys() {
            let state = || call(server, "GetTask", &json!({"id": id}))["result"]["status"].take();
            while !is_terminal(&state()) && Instant::now() < deadline {
                thread::sleep(POLL_INTERVAL);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.tasks.extend(other.tasks);
        self.events += other.events;
    }
}
