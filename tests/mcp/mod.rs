//! `remote-agent mcp`: the tool for MCP hosts and HTTP clients.

mod api;
mod bundle;
mod files;
mod host_config;
mod http;
#[cfg(feature = "real")]
mod official;
mod protocol;
mod stdio;
mod tasks;
mod traces;
#[cfg(feature = "real")]
mod types;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::support::serve::Server;

use crate::serve::http_client;
use crate::support::command as executable;

/// The timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

fn command(flags: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(executable());
    command
        .arg("mcp")
        .args(flags)
        .env_remove("REMOTE_AGENT_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A host that sends literal JSON-RPC over the standard streams of the command.
pub(crate) struct Host {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    /// Notifications that arrived before the last answer.
    pub(crate) notifications: Vec<Value>,
    next_id: u64,
}

impl Host {
    /// Starts the command without a handshake.
    fn start(flags: &[&str]) -> Self {
        Self::of(&mut command(flags))
    }

    /// Starts a command that has pipes.
    pub(crate) fn of(command: &mut std::process::Command) -> Self {
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (send, output) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            output,
            notifications: Vec::new(),
            next_id: 1,
        }
    }

    /// Starts the command and performs the handshake of an MCP version.
    fn with_version(version: &str, flags: &[&str]) -> Self {
        let mut host = Self::start(flags);
        host.shake_hands(version);
        host
    }

    fn shake_hands(&mut self, version: &str) {
        let client = json!({"name": "support", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        self.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    }

    pub(crate) fn write(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        id
    }

    pub(crate) fn receive(&mut self) -> Value {
        self.output.recv_timeout(ANSWER_TIMEOUT).expect("a message")
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.notifications.clear();
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls the tool.
    fn call(&mut self, arguments: Value) -> Value {
        self.request("tools/call", call_params(arguments))
    }

    /// Calls the tool as a client of 2026-07-28 with these capabilities.
    fn call_with(&mut self, arguments: Value, capabilities: Value) -> Value {
        self.request(
            "tools/call",
            with_metadata(call_params(arguments), capabilities),
        )
    }

    /// Ends the input and waits for the end of the process.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.input.take();
        self.child.wait().unwrap()
    }
}

/// Starts an A2A server, and a host of 2025-11-25 with these flags that calls it.
fn host_of_server(flags: &[&str]) -> (Server, Host) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let host = Host::with_version("2025-11-25", &[&["--url", server.url()], flags].concat());
    (server, host)
}

/// Starts an A2A server, and a host without a handshake that calls it.
fn host_without_handshake(flags: &[&str]) -> (Server, Host) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let host = Host::start(&[&["--url", server.url()], flags].concat());
    (server, host)
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn call_params(arguments: Value) -> Value {
    json!({"name": "remote_agent", "arguments": arguments})
}

/// Adds the metadata of requests of 2026-07-28.
fn with_metadata(mut params: Value, capabilities: Value) -> Value {
    let meta = &mut params["_meta"];
    if meta.is_null() {
        *meta = json!({});
    }
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "support", "version": "1"});
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    params
}

fn tasks_capability() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Returns a request `send` with this text.
fn send_request(text: &str) -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": text}]})
}

/// Returns the text of a result.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {answer}"))
}

/// Returns the envelope of a result.
fn envelope(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.remote-agent/envelope"]
}

/// Returns the states of the tasks of a server.
pub(crate) fn task_states(server: &Server) -> Vec<String> {
    let listed = http_client::call(server, "ListTasks", &json!({}));
    let tasks = listed["result"]["tasks"].as_array().expect("tasks");
    let state = |task: &Value| task["status"]["state"].as_str().unwrap().to_owned();
    tasks.iter().map(state).collect()
}

/// Waits until a server has one task, in this state.
pub(crate) fn wait_for_state(server: &Server, state: &str) {
    let deadline = std::time::Instant::now() + ANSWER_TIMEOUT;
    while task_states(server) != [state] {
        assert!(
            std::time::Instant::now() < deadline,
            "{:?} instead of {state}",
            task_states(server)
        );
        thread::sleep(Duration::from_millis(20));
    }
}
