//! `remote-agent acp`: an agent for clients of the Agent Client Protocol, with a real A2A server behind it.

mod hostile;
#[cfg(feature = "real")]
mod official;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::support::serve::Server;

use crate::{
    cli::support::config_file,
    mcp::{Host, task_states, wait_for_state},
    support::command as executable,
};

fn command(state_dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(executable());
    command
        .arg("acp")
        .arg("--state-dir")
        .arg(state_dir)
        .args(flags)
        .env_remove("REMOTE_AGENT_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// A server, and a directory for sessions.
struct Fixture {
    server: Server,
    state_dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(flags: &[&str]) -> Self {
        Self {
            server: Server::scripted(&[&["--task-store", "memory"], flags].concat()),
            state_dir: tempfile::tempdir().unwrap(),
        }
    }

    fn client(&self, flags: &[&str]) -> Client {
        self.client_with(&[&["--url", self.server.url()], flags].concat())
    }

    fn client_with(&self, flags: &[&str]) -> Client {
        let mut client = Client(Host::of(&mut command(self.state_dir.path(), flags)));
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        let answer = client.0.request("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        client
    }

    /// Returns a client with a session.
    fn session(&self, flags: &[&str]) -> (Client, String) {
        let mut client = self.client(flags);
        let session = client.new_session();
        (client, session)
    }
}

struct Client(Host);

impl Client {
    fn new_session(&mut self) -> String {
        let params = json!({"cwd": "/", "mcpServers": []});
        let answer = self.0.request("session/new", params);
        let id = answer["result"]["sessionId"].as_str();
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn resume(&mut self, session: &str) -> Value {
        let params = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
        self.0.request("session/resume", params)
    }

    fn send(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": session, "prompt": prompt});
        self.0.send("session/prompt", params)
    }

    fn prompt(&mut self, session: &str, text: &str) -> Value {
        let id = self.send(session, text);
        self.0.answer(id)
    }

    /// Sends a prompt and returns the stop reason and the agent's text.
    fn ask(&mut self, session: &str, text: &str) -> (String, String) {
        let answer = self.prompt(session, text);
        let reason = answer["result"]["stopReason"].as_str();
        let reason = reason.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (reason, self.shown("agent_message_chunk"))
    }

    /// Returns the text that the client shows of the last prompt.
    fn shown(&self, kind: &str) -> String {
        let updates = self.0.notifications.iter();
        let updates = updates.inspect(|frame| assert_eq!(frame["method"], "session/update"));
        let updates = updates.map(|frame| &frame["params"]["update"]);
        let chunks = updates.filter(|update| update["sessionUpdate"] == kind);
        chunks
            .filter_map(|chunk| chunk["content"]["text"].as_str())
            .collect()
    }

    /// Waits for an update with this text.
    fn wait_for_text(&mut self, text: &str) {
        while self.0.receive()["params"]["update"]["content"]["text"] != text {}
    }

    fn cancel(&mut self, session: &str) {
        let frame =
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
        self.0.write(&frame.to_string());
    }
}

fn end_turn(text: &str) -> (String, String) {
    ("end_turn".to_owned(), text.to_owned())
}

#[test]
fn text_streams_and_ends_the_turn() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    assert_eq!(
        client.ask(&session, "task gamma"),
        end_turn("alpha beta gamma")
    );
    assert!(client.0.notifications.len() >= 3);
    assert_eq!(client.ask(&session, "message Hello"), end_turn("Hello"));
    assert_eq!(client.ask(&session, "say Done"), end_turn("Done"));
    assert!(client.0.end().success());
}

#[test]
fn next_prompt_answers_the_question() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    for question in ["ask Which colour?", "auth Sign in first"] {
        let text = question.split_once(' ').unwrap().1;
        assert_eq!(client.ask(&session, question), end_turn(text));
        assert_eq!(client.ask(&session, "blue"), end_turn("you said blue"));
    }
    let states = task_states(&fixture.server);
    assert_eq!(states, ["TASK_STATE_COMPLETED"; 2]);
}

#[test]
fn question_without_text_shows_that_the_agent_waits() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    for (question, shown) in [
        ("ask", "The agent waits for an answer"),
        ("auth", "The agent wants a sign-in"),
    ] {
        let (reason, text) = client.ask(&session, question);
        assert_eq!(reason, "end_turn");
        assert!(text.starts_with(shown), "{text}");
        assert_eq!(client.ask(&session, "blue"), end_turn("you said blue"));
    }
}

#[test]
fn wrong_target_is_refused_at_the_start() {
    let target = |alias: &str| json!({"alias": alias, "baseUrl": "http://127.0.0.1:1"});
    let targets = json!({"targets": [target("desk"), target("shop")]});
    let config = config_file("acp-target", &targets);
    let state_dir = tempfile::tempdir().unwrap();
    for (flags, cause) in [
        (
            &["--target", "stranger"][..],
            "no agent is called `stranger`",
        ),
        (
            &["--target", "desk", "--target", "shop"],
            "acp takes one `--target`",
        ),
    ] {
        let flags = [&["--config", &config], flags].concat();
        let mut command = command(state_dir.path(), &flags);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(cause), "{errors}");
    }
    let flags = ["--config", &config, "--target", "gateway:main"];
    let mut command = command(state_dir.path(), &flags);
    assert!(command.stdin(Stdio::null()).status().unwrap().success());
}

#[test]
fn session_belongs_to_its_target() {
    let fixture = Fixture::new();
    let target = |alias: &str| json!({"alias": alias, "baseUrl": fixture.server.url()});
    let targets = json!({"targets": [target("desk"), target("shop")]});
    let config = config_file("acp", &targets);
    let flags = ["--config", &config, "--target"];
    let mut client = fixture.client_with(&[&flags[..], &["desk"]].concat());
    let session = client.new_session();
    for text in ["one", "two"] {
        assert_eq!(
            client.ask(&session, &format!("echo {text}")),
            end_turn(text)
        );
    }
    client.0.end();
    let mut other = fixture.client_with(&[&flags[..], &["shop"]].concat());
    let refused = other.resume(&session);
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    let mut client = fixture.client_with(&[&flags[..], &["desk"]].concat());
    client.resume(&session);
    assert_eq!(client.ask(&session, "echo three"), end_turn("three"));
}

#[test]
fn what_the_agent_cannot_do_is_clear() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    assert_eq!(
        client.ask(&session, "reject It is forbidden"),
        ("refusal".to_owned(), "It is forbidden".to_owned())
    );
    let failed = client.prompt(&session, "fail It rains");
    let message = "the task of the agent failed: It rains";
    assert_eq!(failed["error"]["message"], message, "{failed}");
    let failed = client.prompt(&session, "fail");
    let message = "the task of the agent failed";
    assert_eq!(failed["error"]["message"], message, "{failed}");

    let state_dir = tempfile::tempdir().unwrap();
    let flags = ["--url", "http://127.0.0.1:1"];
    let mut client = Client(Host::of(&mut command(state_dir.path(), &flags)));
    let session = client.new_session();
    let answer = client.prompt(&session, "hello");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("cannot connect"), "{message}");
    assert!(message.contains("Check that the agent"), "{message}");
}

#[test]
fn cancelled_prompt_cancels_the_task() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    let id = client.send(&session, "begun First line");
    client.wait_for_text("First line");
    client.cancel(&session);
    let answer = client.0.answer(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    wait_for_state(&fixture.server, "TASK_STATE_CANCELED");
    // A late one has no effect.
    client.cancel(&session);
    assert_eq!(client.ask(&session, "echo next"), end_turn("next"));
}

#[test]
fn task_goes_on_without_its_client() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    client.send(&session, "begun First line");
    client.wait_for_text("First line");
    assert!(client.0.end().success());
    assert_eq!(task_states(&fixture.server), ["TASK_STATE_WORKING"]);
    // It takes no other message meanwhile.
    let mut client = fixture.client(&[]);
    client.resume(&session);
    let refused = client.prompt(&session, "echo too soon");
    let message = "the agent still works on the previous message; prompt again when it is done";
    assert_eq!(refused["error"]["message"], message, "{refused}");
}

#[test]
fn vanished_client_cancels_if_it_should() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&["--cancel-on-disconnect"]);
    client.send(&session, "begun First line");
    client.wait_for_text("First line");
    assert!(client.0.end().success());
    assert_eq!(task_states(&fixture.server), ["TASK_STATE_CANCELED"]);
}

#[test]
fn resumed_session_shows_what_its_client_missed() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    client.send(&session, "stream 3 3000");
    client.wait_for_text("0 ");
    assert!(client.0.end().success());
    wait_for_state(&fixture.server, "TASK_STATE_COMPLETED");
    let mut client = fixture.client(&[]);
    assert_eq!(client.resume(&session)["result"], json!({}));
    assert_eq!(
        client.ask(&session, "echo next"),
        end_turn("0 1 2 \n\nnext")
    );
}

#[test]
fn malformed_frames_end_nothing() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    let too_long = "x".repeat((16 << 20) + 2);
    for (frame, code) in [
        ("nonsense", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc": "2.0", "id": {}, "method": "a"}"#, -32600),
        (&too_long, -32600),
    ] {
        client.0.write(frame);
        let answer = client.0.receive();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer["id"], Value::Null);
    }
    // A notification that the command does not know, an empty line, and a response to no request.
    client.0.write(r#"{"jsonrpc": "2.0", "method": "_other"}"#);
    client.0.write("");
    client
        .0
        .write(r#"{"jsonrpc": "2.0", "id": 1, "result": 2}"#);
    for (method, params, code) in [
        ("session/set_mode", json!({"sessionId": session}), -32601),
        ("session/prompt", json!({"sessionId": 1}), -32602),
        ("session/prompt", json!({"sessionId": session}), -32602),
        ("session/prompt", json!({"sessionId": "no"}), -32002),
        ("session/resume", json!({"sessionId": "../x"}), -32002),
        ("session/close", json!({"sessionId": "no"}), -32002),
    ] {
        let answer = client.0.request(method, params);
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    assert_eq!(client.ask(&session, "echo fine"), end_turn("fine"));
}

#[test]
fn session_has_one_prompt_at_a_time() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    let other = client.new_session();
    client.send(&session, "begun First line");
    client.wait_for_text("First line");
    let refused = client.prompt(&session, "echo too soon");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("session/cancel"), "{message}");
    // Another session is not concerned.
    assert_eq!(client.ask(&other, "echo fine"), end_turn("fine"));
    let closed = client
        .0
        .request("session/close", json!({"sessionId": session}));
    assert_eq!(closed["result"], json!({}), "{closed}");
}

#[test]
fn closed_session_is_resumed_after_its_prompt() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    let prompt = client.send(&session, "begun First line");
    client.wait_for_text("First line");
    // The command reads these at once, before the agent has canceled its task.
    let frames = [
        (101, "session/close"),
        (102, "session/resume"),
        (103, "session/close"),
    ];
    let frames = frames.map(|(id, method)| {
        let params = json!({"sessionId": session, "cwd": "/", "mcpServers": []});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    });
    client.0.write(&frames.join("\n"));
    let closed = client.0.answer(101);
    assert_eq!(closed["result"], json!({}), "{closed}");
    let early = client.0.answer(102);
    let message = early["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("has not ended yet"), "{early}");
    assert_eq!(client.0.answer(103)["error"]["code"], -32002);
    let ended = client.0.answer(prompt);
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    assert_eq!(client.prompt(&session, "hello")["error"]["code"], -32002);
    assert_eq!(client.resume(&session)["result"], json!({}));
    assert_eq!(client.ask(&session, "echo next"), end_turn("next"));
}

#[test]
fn two_clients_share_one_conversation() {
    let fixture = Fixture::new();
    let (mut first, session) = fixture.session(&[]);
    first.ask(&session, "echo start");
    let mut second = fixture.client(&[]);
    second.resume(&session);
    let ids = [&mut first, &mut second].map(|client| client.send(&session, "who"));
    let answers = [first.0.answer(ids[0]), second.0.answer(ids[1])];
    for answer in answers {
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    let agent_session = |client: &Client| {
        let text = client.shown("agent_message_chunk");
        let who: Value = serde_json::from_str(&text).unwrap();
        who["session"].clone()
    };
    assert_ne!(agent_session(&first), Value::Null);
    assert_eq!(agent_session(&first), agent_session(&second));
}

#[test]
fn prompt_of_10_mb_arrives() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    // The server takes bodies of 10 MiB.
    let answer = client.prompt(&session, &format!("who {}", "x".repeat(10_000_000)));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
}

#[test]
fn media_that_the_agent_does_not_take_are_named() {
    let fixture = Fixture::new();
    let (mut client, session) = fixture.session(&[]);
    let prompt = |mime_type: &str| {
        let image = json!({"type": "image", "data": "aGVsbG8=", "mimeType": mime_type});
        let text = json!({"type": "text", "text": "parts"});
        json!({"sessionId": session, "prompt": [text, image]})
    };
    let answer = client.0.request("session/prompt", prompt("image/png"));
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("text/plain"), "{answer}");
    assert_eq!(task_states(&fixture.server), [] as [&str; 0]);
}
