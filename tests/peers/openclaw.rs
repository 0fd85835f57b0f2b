//! OpenClaw's channel `a2a`: a gateway as a peer, with a scripted language model.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use serde_json::{Value, json};

use crate::host::{Gateway, Host};
use crate::http::{self, Request};
use crate::node;

/// The installed packages.
pub const PACKAGE: &str = "openclaw@2026.9.6";

/// The token of the only peer in the channel's configuration.
const TOKEN: &str = "the-channels-own-token-91be";

/// A gateway with its channel enabled.
pub struct Channel {
    pub origin: String,
    gateway: Mutex<Option<Gateway>>,
    /// The lock of the state, which two gateways cannot share.
    _lock: File,
}

static CHANNEL: OnceLock<Channel> = OnceLock::new();

/// Returns the gateway of this test process, which the first test starts.
pub fn gateway() -> &'static Channel {
    CHANNEL.get_or_init(start)
}

/// Ends the gateway if it was started.
pub fn stop() {
    if let Some(channel) = CHANNEL.get() {
        channel.gateway.lock().unwrap().take();
    }
}

/// The credential of the channel.
pub fn credential() -> Value {
    json!({"type": "bearer", "token": TOKEN})
}

fn start() -> Channel {
    let installed = node::install("openclaw", &[PACKAGE]);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers-openclaw");
    let lock = File::create(root.with_extension("lock")).expect("target/ is writable");
    lock.lock().expect("target/ is on a file system with locks");
    let host = Host::new(installed.into(), &root, &config(http::serve(complete)), &[]);
    let gateway = host.boot();
    warm_up(gateway.address());
    Channel {
        origin: format!("http://{}", gateway.address()),
        gateway: Mutex::new(Some(gateway)),
        _lock: lock,
    }
}

/// Runs the first turn of the agent before the tests. On a busy machine it takes longer than OpenClaw's timeout.
fn warm_up(gateway: SocketAddr) {
    let message =
        json!({"messageId": "first", "role": "ROLE_USER", "parts": [{"text": "message: ready"}]});
    let first =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}});
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (_, answer) = http::post(gateway, "/a2a/v1", TOKEN, &first.to_string());
        if answer.contains("TASK_STATE_COMPLETED") {
            return;
        }
        answers.push(answer);
    }
    panic!("the channel answers nothing: {answers:#?}");
}

fn config(model: SocketAddr) -> Value {
    json!({
        "agents": {"defaults": {"skipBootstrap": true, "model": {"primary": "scripted/scripted"}, "timeoutSeconds": 60}},
        "models": {"mode": "replace", "providers": {"scripted": {
            "baseUrl": format!("http://{model}/v1"), "apiKey": "none", "api": "openai-completions",
            "models": [{"id": "scripted", "name": "Scripted", "reasoning": false, "input": ["text"],
                "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}, "contextWindow": 120_000, "maxTokens": 4096}]
        }}},
        "channels": {"a2a": {"enabled": true, "rateLimitPerMinute": 0, "peers": {"plugin": {"token": TOKEN}}}}
    })
}

/// The model of the agent, which follows the first word of the user's message.
fn complete(request: &Request, stream: &mut TcpStream) {
    if request.method == "GET" {
        let models = json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]});
        return http::answer(stream, "200 OK", "application/json", &models.to_string());
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let message = last_of_user(&body["messages"]);
    let (keyword, rest) = message.split_once(':').unwrap_or((&message, ""));
    let reply = match keyword {
        "task" | "watched" => format!("alpha beta {}", rest.trim()),
        "fail" => {
            let error = json!({"error": {"message": rest.trim(), "type": "invalid_request_error"}});
            let error = error.to_string();
            return http::answer(stream, "400 Bad Request", "application/json", &error);
        }
        // Until the agent times out.
        "slow" | "begun" | "held" => return http::wait_for_close(stream),
        "big" => "0123456789abcdef".repeat(5 * 1024 * 1024 / 16),
        "message" | "parts" => rest.trim().to_owned(),
        other => other.to_owned(),
    };
    let chunk = |choice: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]});
    let message = json!({"index": 0, "delta": {"role": "assistant", "content": reply}, "finish_reason": null});
    let mut last = chunk(json!({"index": 0, "delta": {}, "finish_reason": "stop"}));
    last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let events = [
        chunk(message).to_string(),
        last.to_string(),
        "[DONE]".to_owned(),
    ];
    http::answer_events(stream, &events);
}

/// The commands of the model.
const KEYWORDS: [&str; 9] = [
    "message", "parts", "task", "watched", "fail", "slow", "begun", "held", "big",
];

/// Returns the last message of the user, from the line that begins with a command. OpenClaw adds lines before and after it,
/// and further messages in the role of the user.
fn last_of_user(messages: &Value) -> String {
    let messages = messages.as_array().into_iter().flatten();
    let users = messages.filter(|message| message["role"] == "user");
    let texts = users.map(|message| match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    });
    let mut message = texts.filter(|text| !text.contains("BEGIN_OPENCLAW_INTERNAL_CONTEXT"));
    let message = message.next_back().unwrap_or_default();
    let message = message.split("\n\nRuntime:").next().unwrap_or_default();
    let lines: Vec<&str> = message.lines().collect();
    let known = |line: &&str| KEYWORDS.contains(&line.split(':').next().unwrap_or_default());
    let first = lines.iter().position(known);
    first.map_or_else(
        || "It is done.".to_owned(),
        |first| lines[first..].join("\n"),
    )
}
