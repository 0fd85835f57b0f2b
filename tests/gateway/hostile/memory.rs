//! Round after round of misbehaviour in one process, which must not grow. It is a process of its own, so that nothing but the
//! tool is measured.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{and, named, propose, to};

/// What a process may hold more after many rounds than after few, in kB: what its allocator leaves lying about.
const MAY_GROW_KB: u64 = 12 * 1024;

/// After so many rounds every cache and list is as full as it gets.
const WARM: usize = 3;

const ROUNDS: usize = 20;

/// Agents that leave something behind, if anything is left behind.
const AGENTS: [&str; 18] = [
    "oversize",
    "endless",
    "endless-fragments",
    "binary",
    "half-frame",
    "reset",
    "bad-utf8",
    "not-objects",
    "deep",
    "unknown-type",
    "forged-from",
    "other-correlation",
    "twice",
    "answer-and-error",
    "flood",
    "disconnect-shutdown",
    "close-1011",
    "honest",
];

const PROPOSALS: [&str; 5] = [
    "contradict",
    "twice",
    "another proposal",
    "strange votes",
    "flood of votes",
];

struct Filter {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Filter {
    fn start(url: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_remote-agent"))
            .args(["call", "--jsonl"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut filter = Self { child, answers };
        let config = json!({"gateway": {"enabled": true, "url": url, "timeoutMs": 5000}, "limits": {"eventBytes": 1_048_576}});
        filter.say(&json!({"id": 1, "op": "init", "config": config}));
        assert_eq!(filter.next()["ok"], true);
        filter
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn call(&mut self, request: &Value) -> Value {
        self.say(&json!({"id": 2, "op": "execute", "request": request}));
        loop {
            let mut line = self.next();
            if let Some(envelope) = line.get_mut("result") {
                return envelope.take();
            }
        }
    }

    fn round(&mut self) {
        for agent in AGENTS {
            let request = and(to(agent, "Hello?"), json!({"timeout_ms": 10_000}));
            let envelope = self.call(&request);
            assert_ne!(
                envelope["error"]["reason"], "timeout",
                "{agent}: {envelope}"
            );
        }
        for words in PROPOSALS {
            let envelope = self.call(&and(propose(words), json!({"timeout_ms": 10_000})));
            assert_eq!(envelope["ok"], true, "{words}: {envelope}");
        }
        // These never come to an end, and the call does.
        for agent in ["endless-flood", "endless-pings", "forged-only", "silent"] {
            self.call(&and(to(agent, "Hello?"), json!({"timeout_ms": 60})));
        }
    }

    fn resident_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mut lines = status.lines();
        let resident = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_flat_over_many_rounds() {
    let gateway = named("hostile").await;
    let url = gateway.url();
    let measured = tokio::task::spawn_blocking(move || {
        let mut filter = Filter::start(&url);
        for _ in 0..WARM {
            filter.round();
        }
        let before = filter.resident_kb();
        for _ in 0..ROUNDS {
            filter.round();
        }
        (before, filter.resident_kb())
    });
    let (before, after) = measured.await.unwrap();
    println!("{before} kB after {WARM} rounds, {after} kB after {ROUNDS} more");
    assert!(
        after < before + MAY_GROW_KB,
        "{before} kB became {after} kB"
    );
}
