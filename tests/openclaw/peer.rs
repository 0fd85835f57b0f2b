//! A scripted A2A 0.3 agent with literal JSON.

use std::{
    collections::HashSet,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{
    http::{self, Request},
    journal::Journal,
};

/// An event that the peer records.
#[derive(Clone, Debug)]
pub enum PeerEvent {
    /// A JSON-RPC request, with some of its headers: `key` is `x-key`.
    Call {
        body: Value,
        authorization: Option<String>,
        traceparent: Option<String>,
        key: Option<String>,
    },
    /// The caller closed a call that the peer kept open, with the text of its message.
    Disconnected(String),
}

/// An agent that follows the message: `hold …` never answers, `work …` starts a running task, `later …` one that runs until
/// the test finishes it, and anything else is a task that completes at once. `ask …` and a finished `later ask …` wait for an
/// answer first. A stream has the task's events.
pub struct Peer {
    pub address: SocketAddr,
    pub events: Journal<PeerEvent>,
    finished: FinishedTasks,
}

/// The texts of the finished tasks.
type FinishedTasks = Arc<Mutex<HashSet<String>>>;

impl Peer {
    pub fn start() -> Self {
        let events = Journal::new();
        let journal = events.clone();
        let finished = FinishedTasks::default();
        let finished_tasks = Arc::clone(&finished);
        let address =
            http::serve(move |request, stream| respond(request, stream, &journal, &finished_tasks));
        Self {
            address,
            events,
            finished,
        }
    }

    /// Completes the task of this text.
    pub fn finish(&self, text: &str) {
        self.finished.lock().unwrap().insert(text.to_owned());
    }

    /// Returns the number of answers to the question of a task.
    pub fn answers(&self, task: &str) -> usize {
        answers_to(&self.events, task).len()
    }

    /// Returns the number of messages with this text.
    pub fn messages(&self, text: &str) -> usize {
        let is_message = |event: &PeerEvent| matches!(event, PeerEvent::Call { body, .. } if message_text(body) == text);
        self.events.all(is_message).len()
    }

    /// Returns the `baseUrl` of the peer.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for the call whose message contains `marker` and returns it with its `authorization` header.
    pub fn call(&self, marker: &str) -> (Value, Option<String>) {
        let call = self.events.wait(
            "the peer to be called",
            |event| matches!(event, PeerEvent::Call { body, .. } if message_text(body).contains(marker)),
        );
        match call {
            PeerEvent::Call {
                body,
                authorization,
                ..
            } => (body, authorization),
            PeerEvent::Disconnected(_) => unreachable!("the predicate matches only calls"),
        }
    }
}

/// A PNG image of one pixel, in base64.
pub const PNG_BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns the peer's answer to a message, as an artifact.
pub fn answer_text(text: &str) -> String {
    format!("The remote agent did this: {text}")
}

fn message_text(body: &Value) -> String {
    body["params"]["message"]["parts"][0]["text"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Returns the texts of the messages to a task.
fn answers_to(events: &Journal<PeerEvent>, task: &str) -> Vec<String> {
    let is_answer = |body: &Value| body["params"]["message"]["taskId"] == task;
    let calls =
        events.all(|event| matches!(event, PeerEvent::Call { body, .. } if is_answer(body)));
    let texts = calls.iter().filter_map(|event| match event {
        PeerEvent::Call { body, .. } => Some(message_text(body)),
        PeerEvent::Disconnected(_) => None,
    });
    texts.collect()
}

/// Returns the task with this id that waits for an answer, or that has one.
fn asking_task(id: &str, answer: Option<&String>) -> Value {
    let mut task = json!({"kind": "task", "id": id, "contextId": "context-1"});
    match answer {
        Some(answer) => {
            task["status"] = json!({"state": "completed"});
            task["artifacts"] = json!([artifact(answer)]);
        }
        None => {
            let parts = json!([{"kind": "text", "text": format!("Which region, to {id}?")}]);
            let message = json!({"kind": "message", "role": "agent", "messageId": "question-1", "parts": parts});
            task["status"] = json!({"state": "input-required", "message": message});
        }
    }
    task
}

fn respond(
    request: &Request,
    stream: &mut TcpStream,
    events: &Journal<PeerEvent>,
    finished: &FinishedTasks,
) {
    if request.method == "GET" && request.target == "/.well-known/agent-card.json" {
        let card = card(request.header("host").unwrap());
        return http::answer(stream, "200 OK", "application/json", &card.to_string());
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let text = message_text(&body);
    let header = |name| request.header(name).map(str::to_owned);
    events.push(PeerEvent::Call {
        body: body.clone(),
        authorization: header("authorization"),
        traceparent: header("traceparent"),
        key: header("x-key"),
    });
    if text.starts_with("hold") {
        http::wait_for_close(stream);
        return events.push(PeerEvent::Disconnected(text));
    }
    let result =
        |result: Value| json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
    let message_task = body["params"]["message"]["taskId"].as_str();
    match body["method"].as_str().unwrap() {
        "message/stream" if text.starts_with("ask") || message_task.is_some() => {
            let id = message_task.unwrap_or(&text);
            let task = asking_task(id, message_task.map(|_| &text));
            http::answer_events(stream, &[result(task)]);
        }
        "message/stream" | "tasks/resubscribe" if text.starts_with("later") || text.is_empty() => {
            let update = json!({"kind": "task", "id": text, "contextId": "context-1", "status": {"state": "working"}});
            // The client resubscribes, receives an error, and polls.
            let error = json!({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32004, "message": "no"}});
            let event = if text.is_empty() {
                error.to_string()
            } else {
                result(update)
            };
            http::answer_events(stream, &[event]);
        }
        "message/stream" => http::answer_events(stream, &stream_events(&text).map(result)),
        "message/send" => {
            let task = match message_task {
                Some(id) => asking_task(id, Some(&text)),
                None if text.starts_with("ask") => asking_task(&text, None),
                None => task(&text, &text),
            };
            http::answer(stream, "200 OK", "application/json", &result(task));
        }
        // The id of a task is the text of its message.
        "tasks/get" => {
            let id = body["params"]["id"].as_str().unwrap();
            let mut task = match id.contains("ask about") {
                true => asking_task(id, answers_to(events, id).last()),
                false => task(id, id),
            };
            if id.starts_with("later") && !finished.lock().unwrap().contains(id) {
                task = json!({"kind": "task", "id": id, "contextId": "context-1", "status": {"state": "working"}});
            }
            http::answer(stream, "200 OK", "application/json", &result(task));
        }
        other => panic!("unexpected method {other}"),
    }
}

fn card(host: &str) -> Value {
    json!({
        "protocolVersion": "0.3.0", "name": "Scripted agent", "description": "Follows its script.", "version": "1.0.0",
        "url": format!("http://{host}/a2a"), "preferredTransport": "JSONRPC",
        "capabilities": {"streaming": true}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "Repeats.", "tags": ["test"]}]
    })
}

fn task(id: &str, text: &str) -> Value {
    let state = if text.starts_with("work") {
        "working"
    } else {
        "completed"
    };
    json!({"kind": "task", "id": id, "contextId": "context-1", "status": {"state": state}, "artifacts": [artifact(text)]})
}

/// Returns the artifact of a task. One whose text begins with `picture` has an image, too.
fn artifact(text: &str) -> Value {
    let mut parts = json!([{"kind": "text", "text": answer_text(text)}]);
    if text.starts_with("picture") {
        let file =
            json!({"name": "../../picture.png", "mimeType": "text/html", "bytes": PNG_BASE64});
        parts
            .as_array_mut()
            .unwrap()
            .push(json!({"kind": "file", "file": file}));
    }
    json!({"artifactId": "artifact-1", "parts": parts})
}

fn stream_events(text: &str) -> [Value; 3] {
    let update = |state: &str, last: bool| json!({"kind": "status-update", "taskId": text, "contextId": "context-1", "status": {"state": state}, "final": last});
    [
        update("working", false),
        json!({"kind": "artifact-update", "taskId": text, "contextId": "context-1", "artifact": artifact(text)}),
        update("completed", true),
    ]
}
