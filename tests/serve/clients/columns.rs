//! One client over one binding in one version, and the results of its operations.

use std::collections::HashMap;
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::serve::root;
use testkit::support::sdk::{self, Sdk};
use testkit::support::serve::Server;
use testkit::support::webhook::{Webhook, WebhookRequest};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    Py13,
    Js13,
    Py03,
    Js03,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V0_3,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub client: Client,
    pub binding: Binding,
    pub version: Version,
}

/// The run of a client.
pub struct Run {
    /// The result of each operation.
    pub results: HashMap<String, Value>,
    reports: Vec<WebhookRequest>,
}

impl Client {
    pub fn sdk(self) -> Sdk {
        match self {
            Self::Py13 => Sdk::Py13,
            Self::Js13 => Sdk::Js13,
            Self::Py03 => Sdk::Py03,
            Self::Js03 => Sdk::Js03,
        }
    }

    pub fn package(self) -> &'static str {
        match self {
            Self::Py13 => "a2a-sdk 1.3.0 (PyPI)",
            Self::Js13 => "@a2a-js/sdk 1.3.0 (npm)",
            Self::Py03 => "a2a-sdk 0.3.26 (PyPI)",
            Self::Js03 => "@a2a-js/sdk 0.3.14 (npm)",
        }
    }
}

impl Binding {
    /// Returns the name on cards.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

impl Version {
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V0_3 => "0.3",
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, binding) = (self.client.sdk().name(), self.binding.name());
        write!(formatter, "{client} {binding} {}", self.version.name())
    }
}

impl Column {
    /// Runs the client once. `None` if it is not available on this machine.
    pub fn run(self) -> &'static Run {
        static RUNS: [OnceLock<Run>; 16] = [const { OnceLock::new() }; 16];
        let index = self.client as usize * 4 + self.binding as usize * 2 + self.version as usize;
        RUNS[index].get_or_init(|| self.run_operations())
    }

    fn run_operations(self) -> Run {
        let mut command = self.command();
        let webhook = Webhook::start();
        let server = Server::scripted(&["--allow-any-webhook", "--task-store", "memory"]);
        let (binding, version) = (self.binding.name(), self.version.name());
        command.args([server.url(), binding, version, &webhook.url()]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self} failed: {stderr}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let results = lines.lines().map(parse_line).collect();
        // The shutdown delivers queued notifications.
        let output = server.stop();
        assert!(output.status.success(), "{}", output.log);
        let reports = webhook.all();
        Run { results, reports }
    }

    fn command(self) -> Command {
        let home = sdk::home(self.client.sdk());
        let program = root("tests/serve");
        let python = |name: &str| {
            let mut command = Command::new(home.join("bin/python"));
            command.arg(program.join(name));
            command
        };
        let node = |name: &str| {
            let mut command = Command::new("node");
            command.arg(program.join(name)).arg(&home);
            command
        };
        match self.client {
            Client::Py13 => python("py13_client.py"),
            Client::Py03 => python("py03_client.py"),
            Client::Js13 => node("js13_client.mjs"),
            Client::Js03 => node("js03_client.mjs"),
        }
    }
}

/// Parses a line: the operation and its result.
fn parse_line(line: &str) -> (String, Value) {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let operation = line.as_object_mut().unwrap().remove("operation").unwrap();
    (operation.as_str().unwrap().to_owned(), line)
}

impl Run {
    /// Returns the requests of the webhook for a task: the states in order, the media type, and the credentials.
    pub fn webhook_report(&self, task: &str) -> Value {
        let is_of_task = |report: &&WebhookRequest| report.body.contains(task);
        let reports: Vec<&WebhookRequest> = self.reports.iter().filter(is_of_task).collect();
        let states = reports.iter().filter_map(|report| {
            let body: Value = serde_json::from_str(&report.body).unwrap();
            let update = &body["statusUpdate"]["status"]["state"];
            let is_task = body["kind"] == "task";
            match update.as_str() {
                Some(state) => Some(state.to_owned()),
                None if is_task => Some(body["status"]["state"].as_str().unwrap().to_owned()),
                None => None,
            }
        });
        let header = |name: &str| {
            let mut values: Vec<_> = reports
                .iter()
                .map(|report| header(&report.head, name))
                .collect();
            values.dedup();
            values
        };
        json!({
            "states": states.collect::<Vec<_>>(),
            "type": header("content-type"),
            "authorization": header("authorization"),
            "token": header("x-a2a-notification-token"),
        })
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find_map(|(key, value)| {
        let matches = key.eq_ignore_ascii_case(name);
        matches.then(|| value.trim().to_owned())
    })
}
