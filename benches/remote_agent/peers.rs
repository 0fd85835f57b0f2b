//! The scripted peers of the conformance suite, in a process of their own.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
};

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;
use tokio::io::AsyncReadExt;

pub(crate) const ARGUMENT: &str = "--peers";

/// The running peers: `desk` answers a message with a message, `short` and `long` with a stream.
pub(crate) struct Running {
    origins: BTreeMap<String, String>,
    child: Child,
    alive: Option<ChildStdin>,
}

/// How many events the streams have.
pub(crate) const STREAMS: [(&str, usize); 2] = [("short", 1_000), ("long", 10_000)];

impl Running {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut origins = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut origins).unwrap();
        Self {
            origins: serde_json::from_str(&origins).unwrap(),
            alive: child.stdin.take(),
            child,
        }
    }

    /// A configuration with every peer as a target.
    pub(crate) fn config(&self) -> String {
        let targets: Vec<Value> = self
            .origins
            .iter()
            .map(|(name, origin)| json!({"alias": name, "baseUrl": origin}))
            .collect();
        // As many calls to one target as are in flight: what is measured is the way there and not the wait for a turn.
        let limits = json!({"concurrencyPerTarget": 64});
        json!({"targets": targets, "policy": {"allowPrivateTargetUrls": true}, "limits": limits})
            .to_string()
    }

    /// Where `desk` takes messages.
    pub(crate) fn desk(&self) -> String {
        format!("{}/a2a/jsonrpc", self.origins["desk"])
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of its input ends the process.
        drop(self.alive.take());
        let _ = self.child.wait();
    }
}

/// The peers' process.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let peers = Peers::start(&script()).await.unwrap();
        println!("{}", json!(peers.origins()));
        let _ = tokio::io::stdin().read(&mut [0]).await;
    });
}

fn script() -> Value {
    let parts = json!([{"kind": "text", "text": "pong"}]);
    let message = json!({"kind": "message", "messageId": "m-1", "role": "agent", "parts": parts});
    let mut peers = json!({"desk": peer("message/send", &json!([{"result": message}]))});
    for (name, events) in STREAMS {
        peers[name] = peer("message/stream", &json!([{"sse": stream(events)}]));
    }
    json!({ "peers": peers })
}

fn peer(method: &str, answers: &Value) -> Value {
    let card = json!({
        "protocolVersion": "0.3.0", "name": "Desk", "description": "Answers.", "version": "1.0.0",
        "url": "{{origin}}/a2a/jsonrpc", "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": true}, "skills": [],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    });
    json!({"card": card, "rpc": {method: answers}})
}

/// A task that appends line after line to one artifact.
fn stream(events: usize) -> Value {
    let ids = |mut event: Value| {
        event["contextId"] = json!("c-1");
        json!({ "result": event })
    };
    let line = json!({"artifactId": "a-1", "parts": [{"kind": "text", "text": "line {{i}}\n"}]});
    let append =
        json!({"kind": "artifact-update", "taskId": "t-1", "artifact": line, "append": true});
    let done = json!({"kind": "status-update", "taskId": "t-1", "status": {"state": "completed"}, "final": true});
    json!([
        ids(json!({"kind": "task", "id": "t-1", "status": {"state": "working"}})),
        {"repeat": {"from": 1, "count": events - 2, "each": ids(append)}},
        ids(done),
    ])
}
