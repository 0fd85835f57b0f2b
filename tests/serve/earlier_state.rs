//! The files of an earlier revision, in `earlier_state/`, stay readable: a task store with a task in each state, and sessions of a gateway.
//! Written by that revision, never by these tests.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::support::words;
use crate::serve::http_client::{call, command};
use testkit::support::serve::Server;

/// A century, in seconds: the tasks of the store get older.
const RETENTION: &str = "3153600000";

fn file(name: &str) -> PathBuf {
    testkit::support::root("tests/serve/earlier_state").join(name)
}

fn copy(names: &[&str], to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in names {
        std::fs::copy(file(name), to.join(name)).unwrap();
    }
}

#[test]
fn task_store_of_an_earlier_revision_is_read() {
    let state = tempfile::tempdir().unwrap();
    copy(&["tasks.db"], &state.path().join("tasks"));
    let server = Server::scripted(&words(&format!(
        "--state-dir '{}' --retention-age {RETENTION} --retention-unanswered {RETENTION}",
        state.path().display()
    )));
    let params = json!({"includeArtifacts": true, "historyLength": 100});
    let listed = call(&server, "ListTasks", &params)["result"]["tasks"].take();
    let expected = std::fs::read_to_string(file("tasks.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(listed, expected);

    // A question of that time is answered now.
    let asked = expected.as_array().unwrap().iter();
    let mut asked = asked.filter(|task| task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED");
    let task = &asked.next().unwrap()["id"];
    let message = json!({
        "messageId": "answer", "role": "ROLE_USER", "taskId": task, "parts": [{"text": "echo red"}],
    });
    let answered = call(&server, "SendMessage", &json!({"message": message}));
    let answered = &answered["result"]["task"];
    assert_eq!(&answered["id"], task, "{answered}");
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED");
}

#[test]
fn sessions_of_an_earlier_revision_are_read() {
    let state = tempfile::tempdir().unwrap();
    let sessions = ["sess-1.jsonl", "sess-2.jsonl"];
    copy(&sessions, &state.path().join("agents/alpha/sessions"));
    let state = state.path().to_str().unwrap();
    for name in sessions {
        let session = name.trim_end_matches(".jsonl");
        let export = format!("gateway sessions export alpha {session} --state-dir '{state}'");
        let exported = command(&words(&export));
        // An export has the messages, not the events of the session.
        let stored = std::fs::read_to_string(file(name)).unwrap();
        let messages = stored.lines().filter(|line| !line.contains("\"event\""));
        let exported = String::from_utf8(exported.stdout).unwrap();
        assert!(exported.lines().eq(messages), "{exported}");
    }
    let list = format!("gateway sessions list --json --state-dir '{state}'");
    let listed = command(&words(&list));
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed.to_string().matches("sess-").count(), 2, "{listed}");
}
