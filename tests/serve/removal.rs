//! Removal of a client, and rotation of a token.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::serve::plain::{Answer, client, command, exchange, message_params, send};
use crate::serve::safety::until;
use testkit::support::hook::Hook;
use testkit::support::serve::Server;

/// Starts a server with Ada and an operator, whose runs end within half a minute.
struct Rig {
    server: Server,
    state: tempfile::TempDir,
    ada: String,
    operator: String,
}

impl Rig {
    fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let (ada, operator) = (
            client(state.path(), "ada", &[]),
            client(state.path(), "me", &["--operator"]),
        );
        let config = state.path().join("serve.json");
        let allowed = json!({"push": {"allowAnyAddress": true}});
        std::fs::write(&config, allowed.to_string()).unwrap();
        let flags = ["--config", path(&config), "--state-dir", path(state.path())];
        let more = ["--task-store", "memory", "--timeout", "30"];
        let server = Server::scripted(&[flags, more].concat());
        Self {
            server,
            state,
            ada,
            operator,
        }
    }

    fn clients(&self, what: &[&str]) -> String {
        let state = ["--state-dir", path(self.state.path())];
        let ended = command(&[&["serve", "clients"], what, &state].concat());
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap().trim().to_owned()
    }

    /// Returns the command `remote-agent send` with Ada's token, for this server.
    fn send_command(&self, text: &str) -> Command {
        let (_, token) = self.ada.split_once("Bearer ").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
        command
            .args(["send", text, "--url", self.server.url(), "--json"])
            .args(["--bearer-env", "ADA_TOKEN"])
            .env("ADA_TOKEN", token)
            .env_remove("REMOTE_AGENT_CONFIG")
            .env_remove("REMOTE_AGENT_LIBRARY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns the newest task of the operator's list.
    fn task(&self) -> Value {
        let all = exchange(&self.server, "GET /api/tasks", &[&self.operator], "").json();
        all["tasks"].get(0).cloned().unwrap_or_default()
    }

    fn until_task_is(&self, state: &str) {
        until(|| self.task()["state"] == state);
    }

    /// Opens a stream of a working task, calls `meanwhile`, and returns the stream once it has ended.
    fn stream_ended_by(&self, act: impl FnOnce()) -> Answer {
        thread::scope(|scope| {
            let lines = [
                "Content-Type: application/json",
                "A2A-Version: 1.0",
                &self.ada,
            ];
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": message_params("slow", false)});
            let stream =
                scope.spawn(move || exchange(&self.server, "POST /a2a", &lines, &body.to_string()));
            self.until_task_is("working");
            act();
            stream.join().unwrap()
        })
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn stream_of_removed_client_ends_with_an_error() {
    let rig = Rig::start();
    let stream = rig.stream_ended_by(|| {
        rig.clients(&["remove", "ada"]);
    });
    assert_eq!(stream.status, 200);
    let last = stream.body.rsplit("data:").next().unwrap();
    assert!(last.contains("UNAUTHENTICATED"), "{}", stream.body);
}

#[test]
fn run_of_removed_client_is_canceled_with_reason() {
    let rig = Rig::start();
    assert_eq!(send(&rig.server, "slow", &[&rig.ada]).status, 200);
    rig.until_task_is("working");
    rig.clients(&["remove", "ada"]);
    until(|| rig.task()["settled"] == true);
    let task = rig.task();
    assert_eq!(task["state"], "canceled", "{task}");
    let says = task["says"].as_str().unwrap();
    assert!(says.contains("removed"), "{says}");
}

#[test]
fn webhook_of_removed_client_is_not_notified() {
    let rig = Rig::start();
    let hook = Hook::start();
    let mut params = message_params("slow", true);
    params["configuration"]["taskPushNotificationConfig"] = json!({"url": hook.url()});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    let lines = [
        "Content-Type: application/json",
        "A2A-Version: 1.0",
        &rig.ada,
    ];
    let sent = exchange(&rig.server, "POST /a2a", &lines, &body.to_string());
    assert_eq!(sent.status, 200);
    hook.wait("TASK_STATE_WORKING");
    rig.clients(&["remove", "ada"]);
    until(|| rig.task()["settled"] == true);
    // The shutdown waits for queued notifications.
    assert!(rig.server.stop().status.success());
    let received = hook.all().into_iter().map(|received| received.body);
    let late: Vec<_> = received.filter(|body| !body.contains("WORKING")).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn rotated_token_ends_its_streams_and_leaves_runs() {
    let rig = Rig::start();
    let stream = rig.stream_ended_by(|| {
        let new = rig.clients(&["rotate", "ada"]);
        let new = format!("Authorization: Bearer {new}");
        until(|| send(&rig.server, "echo a", &[&new]).status == 200);
    });
    let last = stream.body.rsplit("data:").next().unwrap();
    assert!(last.contains("UNAUTHENTICATED"), "{}", stream.body);
    let all = exchange(&rig.server, "GET /api/tasks", &[&rig.operator], "").json();
    let states: Vec<_> = all["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["state"])
        .collect();
    assert!(states.contains(&&json!("working")), "{all}");
    assert_eq!(send(&rig.server, "echo a", &[&rig.ada]).status, 401);
}

/// Exit code 4 means that the peer refused the credentials.
fn assert_auth_required(ended: &Output) {
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let envelope: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(envelope["error"]["reason"], "auth_required", "{envelope:#}");
}

#[test]
fn command_with_revoked_token_is_auth_required() {
    let rig = Rig::start();
    rig.clients(&["remove", "ada"]);
    until(|| send(&rig.server, "echo a", &[&rig.ada]).status == 401);
    assert_auth_required(&rig.send_command("echo a").output().unwrap());
}

#[test]
fn token_revoked_during_send_is_auth_required() {
    let rig = Rig::start();
    let sending = rig.send_command("slow").spawn().unwrap();
    rig.until_task_is("working");
    rig.clients(&["remove", "ada"]);
    assert_auth_required(&sending.wait_with_output().unwrap());
}
