//! `remote-agent call --jsonl` as a separate process, so that tests can measure its memory.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

/// The command, with one instance of the tool. It ends with its value.
pub struct JsonlProcess {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl JsonlProcess {
    pub fn start(config: &Value) -> Self {
        let mut child = Command::new(super::command())
            .args(["call", "--jsonl"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, answers };
        process.send(&json!({"id": 1, "op": "init", "config": config}));
        assert_eq!(process.next()["ok"], true);
        process
    }

    fn send(&mut self, line: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Makes a call and returns its envelope.
    pub fn call(&mut self, request: &Value) -> Value {
        self.send(&json!({"id": 2, "op": "execute", "request": request}));
        loop {
            let mut line = self.next();
            if let Some(envelope) = line.get_mut("result") {
                return envelope.take();
            }
        }
    }

    /// Returns a memory value of the process (`VmRSS`, `VmHWM`), in kB.
    pub fn memory_kb(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }
}

impl Drop for JsonlProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
