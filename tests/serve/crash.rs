//! Kills the command at random moments while clients use it, and checks that everything it reported survives.
//!
//! `CRASH_ROUNDS=100 cargo test --test suite serve::crash -- --nocapture` runs more rounds.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::serve::plain::{Stream, call, message_params, try_call};
use testkit::support::serve::Server;

const ROUNDS: u32 = 10;

/// Concurrent clients.
const CLIENTS: usize = 8;

/// The longest time from the first reported task to the kill.
const PATIENCE_MS: u16 = 500;

const SIGKILL: i32 = 9;

/// What clients received about a task.
#[derive(Default)]
struct Known {
    /// Its last state.
    state: String,
    /// The text of its artifact so far.
    text: String,
}

#[derive(Default)]
struct Report {
    tasks: BTreeMap<String, Known>,
    events: usize,
    settled: usize,
    cut: usize,
}

#[test]
fn killed_server_keeps_reported_tasks() {
    let rounds = std::env::var("CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().to_str().unwrap();
    let mut all = Report::default();
    for round in 0..rounds {
        let mut new = Report::default();
        let server = start(state, round);
        talk_until_killed(&server, &mut new);
        assert_eq!(server.ended().status.signal(), Some(SIGKILL));
        new.is_there(&start(state, round));
        all.take_up(new);
    }
    all.is_there(&start(state, 0));
    println!(
        "{rounds} times killed: {} tasks received of in {} answers and events, {} settled and {} cut off, none lost",
        all.tasks.len(),
        all.events,
        all.settled,
        all.cut,
    );
}

/// Starts a server on the directory. Rounds use different modes: none may lose anything with its process.
fn start(state: &str, round: u32) -> Server {
    let fsync = ["interval", "always", "never"][round as usize % 3];
    Server::scripted(
        &[
            &["--state-dir", state, "--fsync", fsync][..],
            &["--retention-count", "1000000"],
            &["--limit", "runs=1000", "--limit", "tasksPerClient=100000"],
            &[
                "--limit",
                "requestsPerSecond=1000000",
                "--limit",
                "burst=1000000",
            ],
        ]
        .concat(),
    )
}

fn talk_until_killed(server: &Server, received: &mut Report) {
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let sender = sender.clone();
            scope.spawn(move || {
                (client..)
                    .map_while(|turn| talk(server, turn, &sender))
                    .count()
            });
        }
        drop(sender);
        received.note(&receiver.recv().unwrap());
        let random = uuid::Uuid::new_v4().as_fields().1;
        thread::sleep(Duration::from_millis(u64::from(random % PATIENCE_MS)));
        server.kill();
        for result in receiver {
            received.note(&result);
        }
    });
}

/// Sends one message and reports all results. `None` once the server has ended.
fn talk(server: &Server, turn: usize, sender: &Sender<Value>) -> Option<()> {
    let text = [
        "stream 30 3",
        "chunks 40",
        "task gamma",
        "begun well",
        "echo gone",
    ][turn % 5];
    if turn % 5 < 2 {
        let mut over = false;
        for result in Stream::open(server, "SendStreamingMessage", &message_params(text, false))? {
            over |= ends(&result["statusUpdate"]["status"]);
            sender.send(result).unwrap();
        }
        return over.then_some(());
    }
    let mut answer = try_call(
        server,
        "SendMessage",
        &message_params(text, text == "begun well"),
    )?;
    sender.send(answer["result"].take()).unwrap();
    Some(())
}

fn ends(status: &Value) -> bool {
    let state = status["state"].as_str().unwrap_or_default();
    !["", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn text_of(artifact: &Value) -> String {
    let parts = artifact["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

impl Report {
    fn note(&mut self, result: &Value) {
        self.events += 1;
        let (task, status, artifact) = (
            &result["task"],
            &result["statusUpdate"],
            &result["artifactUpdate"],
        );
        let id = [&task["id"], &status["taskId"], &artifact["taskId"]];
        let id = id.into_iter().find_map(Value::as_str);
        let id = id.unwrap_or_else(|| panic!("about no task: {result}"));
        let known = self.tasks.entry(id.to_owned()).or_default();
        if task.is_object() {
            known.state = word(&task["status"]["state"]);
            known.text = text_of(&task["artifacts"][0]);
        } else if status.is_object() {
            known.state = word(&status["status"]["state"]);
        } else {
            if artifact["append"] != true {
                known.text.clear();
            }
            known.text += &text_of(&artifact["artifact"]);
        }
    }

    /// Looks for everything in a restarted server.
    fn is_there(&mut self, server: &Server) {
        (self.settled, self.cut) = (0, 0);
        for (id, known) in &self.tasks {
            let found = call(server, "GetTask", &json!({"id": id}))["result"].take();
            let (state, text) = (
                word(&found["status"]["state"]),
                text_of(&found["artifacts"][0]),
            );
            let received = format!(
                "{id}: received {} {:?}, found {found}",
                known.state, known.text
            );
            if known.state == "TASK_STATE_COMPLETED" {
                assert_eq!((&state, &text), (&known.state, &known.text), "{received}");
                self.settled += 1;
                continue;
            }
            assert!(text.starts_with(&known.text), "{received}");
            // It may have ended before the kill without reporting that.
            if state != "TASK_STATE_COMPLETED" {
                assert_eq!(state, "TASK_STATE_FAILED", "{received}");
                assert!(found.to_string().contains("interrupted"), "{received}");
                self.cut += 1;
            }
        }
    }

    fn take_up(&mut self, other: Self) {
        self.tasks.extend(other.tasks);
        self.events += other.events;
    }
}
