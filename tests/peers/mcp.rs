//! The tool over MCP, with each server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::peer::{Peer, send_fields};

/// Sends a message to the server through `remote-agent mcp`, and expects the completed task in the text for the model.
pub fn check(peer: &Peer) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agents.json");
    std::fs::write(&file, peer.config().to_string()).unwrap();
    let mut child = Command::new(testkit::support::command())
        .args(["mcp", "--config"])
        .arg(&file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let client = json!({"name": "peers", "version": "1"});
    let begin = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let call = json!({"name": "remote_agent", "arguments": send_fields("task: gamma", json!({}))});
    let mut input = child.stdin.take().unwrap();
    let mut write = |message: Value| writeln!(input, "{message}").unwrap();
    write(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}));
    write(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    write(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let messages = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let answer = messages.into_iter().find(|message| message["id"] == 2);
    drop(input);
    assert!(child.wait().unwrap().success());
    let answer = answer.expect("an answer");
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default();
    assert!(text.starts_with("send: task completed"), "{answer}");
}
