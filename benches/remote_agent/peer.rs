//! A fast A2A peer in a process of its own: it answers a message with a message, or with as many events as the message's text says.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) const ARGUMENT: &str = "--peer";

/// The running peer. It ends with this process, when its standard input does.
pub(crate) struct Peer {
    pub(crate) origin: String,
    child: Child,
    _alive: ChildStdin,
}

impl Peer {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut origin = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut origin).unwrap();
        let alive = child.stdin.take().unwrap();
        Self {
            origin: origin.trim().to_owned(),
            child,
            _alive: alive,
        }
    }

    /// A configuration with the peer as its only target.
    pub(crate) fn config(&self) -> String {
        let target = json!({"alias": "desk", "baseUrl": self.origin, "default": true});
        json!({"targets": [target], "policy": {"allowPrivateTargetUrls": true}}).to_string()
    }

    pub(crate) fn rpc(&self) -> String {
        format!("{}/rpc", self.origin)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The peer's process.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        println!("{origin}");
        std::thread::spawn(|| {
            let _ = std::io::stdin().lock().read_line(&mut String::new());
            std::process::exit(0);
        });
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(connection(stream, origin.clone()));
        }
    });
}

/// Answers requests on one connection until it closes.
async fn connection(mut stream: TcpStream, origin: String) -> Option<()> {
    let mut bytes = Vec::with_capacity(8192);
    loop {
        let head = loop {
            if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                break end + 4;
            }
            more(&mut stream, &mut bytes).await?;
        };
        let length = content_length(std::str::from_utf8(&bytes[..head]).ok()?);
        while bytes.len() < head + length {
            more(&mut stream, &mut bytes).await?;
        }
        let answer = if bytes.starts_with(b"GET ") {
            plain(&card(&origin).to_string())
        } else {
            rpc(&bytes[head..head + length])?
        };
        stream.write_all(&answer).await.ok()?;
        bytes.drain(..head + length);
    }
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let count = stream.read_buf(bytes).await.ok()?;
    (count > 0).then_some(())
}

fn content_length(head: &str) -> usize {
    let value = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse())
    });
    value.and_then(Result::ok).unwrap_or(0)
}

fn card(origin: &str) -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Desk", "description": "Answers.", "version": "1.0.0",
        "url": format!("{origin}/rpc"), "preferredTransport": "JSONRPC", "capabilities": {"streaming": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
    })
}

fn plain(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

fn rpc(body: &[u8]) -> Option<Vec<u8>> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let id = &request["id"];
    if request["method"] != "message/stream" {
        let parts = json!([{"kind": "text", "text": "pong"}]);
        let message =
            json!({"kind": "message", "messageId": "m-1", "role": "agent", "parts": parts});
        return Some(plain(
            &json!({"jsonrpc": "2.0", "id": id, "result": message}).to_string(),
        ));
    }
    let text = request["params"]["message"]["parts"][0]["text"].as_str()?;
    let count: usize = text.parse().ok()?;
    let event = |result: Value| {
        format!(
            "data: {}\n\n",
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        )
    };
    let state = |state: &str, last: bool| {
        let status = json!({"state": state});
        event(
            json!({"kind": "status-update", "taskId": "t", "contextId": "c", "status": status, "final": last}),
        )
    };
    let mut events =
        event(json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}}));
    for n in 1..count.saturating_sub(1) {
        let artifact =
            json!({"artifactId": "a", "parts": [{"kind": "text", "text": format!("line {n}\n")}]});
        events += &event(
            json!({"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": artifact, "append": n > 1}),
        );
    }
    events += &state("completed", true);
    let length = events.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n"
    );
    Some([head.into_bytes(), events.into_bytes()].concat())
}
