//! Removal of a client, and rotation of a token.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::serve::http_client::{
    Response, call_with, client, command, exchange, message_params, send,
};
use crate::serve::safety::wait_until;
use testkit::support::serve::Server;
use testkit::support::webhook::Webhook;

/// A server with the client Ada and an operator. Its runs end within half a minute.
struct ClientsFixture {
    server: Server,
    state: tempfile::TempDir,
    ada: String,
    operator: String,
}

impl ClientsFixture {
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
        let options = ["--task-store", "memory", "--timeout", "30"];
        let server = Server::scripted(&[flags, options].concat());
        Self {
            server,
            state,
            ada,
            operator,
        }
    }

    fn clients_command(&self, arguments: &[&str]) -> String {
        let state = ["--state-dir", path(self.state.path())];
        let output = command(&[&["serve", "clients"], arguments, &state].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Returns the command `remote-agent send` with Ada's token and an option, for this server.
    fn send_command(&self, text: &str, option: &str) -> Command {
        let (_, token) = self.ada.split_once("Bearer ").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
        command
            .args(["send", text, option, "--url", self.server.url()])
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
    fn newest_task(&self) -> Value {
        let all = exchange(&self.server, "GET /api/tasks", &[&self.operator], "").json();
        all["tasks"].get(0).cloned().unwrap_or_default()
    }

    fn wait_for_state(&self, state: &str) {
        wait_until(|| self.newest_task()["state"] == state);
    }

    /// Opens a stream of a working task, runs `action`, and returns the stream once it has ended.
    fn stream_until(&self, action: impl FnOnce()) -> Response {
        thread::scope(|scope| {
            let params = message_params("slow", false);
            let stream = scope.spawn(move || {
                call_with(&self.server, "SendStreamingMessage", &params, &[&self.ada])
            });
            self.wait_for_state("working");
            action();
            stream.join().unwrap()
        })
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn stream_of_removed_client_ends_with_an_error() {
    let fixture = ClientsFixture::start();
    let stream = fixture.stream_until(|| {
        fixture.clients_command(&["remove", "ada"]);
    });
    assert_eq!(stream.status, 200);
    let last = stream.body.rsplit("data:").next().unwrap();
    assert!(last.contains("UNAUTHENTICATED"), "{}", stream.body);
}

#[test]
fn client_sees_that_its_task_ends_with_its_token() {
    let fixture = ClientsFixture::start();
    let sending = fixture.send_command("slow", "--follow").spawn().unwrap();
    fixture.wait_for_state("working");
    fixture.clients_command(&["remove", "ada"]);
    let output = sending.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the task may have ended"), "{text}");
    assert!(!text.contains("the task continues"), "{text}");
}

#[test]
fn run_of_removed_client_is_canceled_with_reason() {
    let fixture = ClientsFixture::start();
    assert_eq!(send(&fixture.server, "slow", &[&fixture.ada]).status, 200);
    fixture.wait_for_state("working");
    fixture.clients_command(&["remove", "ada"]);
    wait_until(|| fixture.newest_task()["settled"] == true);
    let task = fixture.newest_task();
    assert_eq!(task["state"], "canceled", "{task}");
    let text = task["says"].as_str().unwrap();
    assert!(text.contains("removed"), "{text}");
}

#[test]
fn webhook_of_removed_client_is_not_notified() {
    let fixture = ClientsFixture::start();
    let webhook = Webhook::start();
    let mut params = message_params("slow", true);
    params["configuration"]["taskPushNotificationConfig"] = json!({"url": webhook.url()});
    let sent = call_with(&fixture.server, "SendMessage", &params, &[&fixture.ada]);
    assert_eq!(sent.status, 200);
    webhook.wait("TASK_STATE_WORKING");
    fixture.clients_command(&["remove", "ada"]);
    wait_until(|| fixture.newest_task()["settled"] == true);
    // The shutdown waits for queued notifications.
    assert!(fixture.server.stop().status.success());
    let received = webhook.all().into_iter().map(|received| received.body);
    let late: Vec<_> = received.filter(|body| !body.contains("WORKING")).collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn rotated_token_ends_its_streams_and_leaves_runs() {
    let fixture = ClientsFixture::start();
    let stream = fixture.stream_until(|| {
        let new = fixture.clients_command(&["rotate", "ada"]);
        let new = format!("Authorization: Bearer {new}");
        wait_until(|| send(&fixture.server, "echo a", &[&new]).status == 200);
    });
    let last = stream.body.rsplit("data:").next().unwrap();
    assert!(last.contains("UNAUTHENTICATED"), "{}", stream.body);
    let all = exchange(&fixture.server, "GET /api/tasks", &[&fixture.operator], "").json();
    let states: Vec<_> = all["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["state"])
        .collect();
    assert!(states.contains(&&json!("working")), "{all}");
    assert_eq!(send(&fixture.server, "echo a", &[&fixture.ada]).status, 401);
}

/// Exit code 4 means that the peer refused the credentials.
fn assert_auth_required(output: &Output) {
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(envelope["error"]["reason"], "auth_required", "{envelope:#}");
}

#[test]
fn command_with_revoked_token_is_auth_required() {
    let fixture = ClientsFixture::start();
    fixture.clients_command(&["remove", "ada"]);
    wait_until(|| send(&fixture.server, "echo a", &[&fixture.ada]).status == 401);
    assert_auth_required(&fixture.send_command("echo a", "--json").output().unwrap());
}

#[test]
fn token_revoked_during_send_is_auth_required() {
    let fixture = ClientsFixture::start();
    let sending = fixture.send_command("slow", "--json").spawn().unwrap();
    fixture.wait_for_state("working");
    fixture.clients_command(&["remove", "ada"]);
    assert_auth_required(&sending.wait_with_output().unwrap());
}
