//! Drives the plugin as users without a host do: JSON Lines through `remote-agent call --jsonl`.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The timeout of a call. It is longer than any call in the tests.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);

/// One `remote-agent call --jsonl` with one configured instance of the plugin.
pub struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// Lines of calls without a waiting reader.
    waiting: VecDeque<Value>,
    last_id: u64,
}

/// A running call. [`Driver::next`] reads its outputs.
#[derive(Debug, Clone, Copy)]
pub struct CallId(u64);

/// An output of a call.
#[derive(Debug)]
pub enum Reply {
    /// An update.
    Update(Value),
    /// The envelope, which ends the call.
    Result(Value),
}

impl Driver {
    /// Starts the command and configures an instance.
    pub fn start(config: &Value) -> Self {
        let mut child = Command::new(super::command())
            .args(["call", "--jsonl"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.expect("UTF-8 on stdout");
                let line = serde_json::from_str(&line)
                    .unwrap_or_else(|_| panic!("not a JSON line: {line}"));
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut driver = Self {
            child,
            stdin,
            lines,
            waiting: VecDeque::new(),
            last_id: 0,
        };
        driver.init(config);
        driver
    }

    /// Closes the instance and configures a new one, as a restart of a host does.
    pub fn init(&mut self, config: &Value) {
        let id = self.write(json!({"op": "init", "config": config}));
        let answer = self.read(id);
        assert_eq!(answer["ok"], true, "init: {answer}");
    }

    /// Runs a request to its end. Returns its envelope and its updates.
    pub fn call(&mut self, request: &Value) -> (Value, Vec<Value>) {
        let id = self.begin(request);
        let mut updates = Vec::new();
        loop {
            match self.next(id) {
                Reply::Update(update) => updates.push(update),
                Reply::Result(envelope) => return (envelope, updates),
            }
        }
    }

    /// Starts a request without waiting for it.
    pub fn begin(&mut self, request: &Value) -> CallId {
        CallId(self.write(json!({"op": "execute", "request": request})))
    }

    /// Waits for the next output of a request.
    pub fn next(&mut self, CallId(id): CallId) -> Reply {
        let mut line = self.read(id);
        if let Some(update) = line.get_mut("update") {
            return Reply::Update(update.take());
        }
        let envelope = line.get_mut("result").map(Value::take);
        Reply::Result(envelope.unwrap_or_else(|| panic!("neither an update nor a result: {line}")))
    }

    /// Kills the command during its calls.
    pub fn kill(mut self) {
        self.child.kill().expect("the command runs");
    }

    fn write(&mut self, mut line: Value) -> u64 {
        self.last_id += 1;
        line["id"] = json!(self.last_id);
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{line}")
            .and_then(|()| stdin.flush())
            .expect("the command reads");
        self.last_id
    }

    fn read(&mut self, id: u64) -> Value {
        if let Some(index) = self.waiting.iter().position(|line| line["id"] == id)
            && let Some(line) = self.waiting.remove(index)
        {
            return line;
        }
        loop {
            let line = self
                .lines
                .recv_timeout(CALL_TIMEOUT)
                .expect("an answer from the command");
            if line["id"] == id {
                return line;
            }
            self.waiting.push_back(line);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The command ends with its stdin, even if a failed test left a call running.
        self.stdin.take();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
