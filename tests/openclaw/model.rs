//! A scripted language model behind an OpenAI-compatible API.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::{
    http::{self, Request},
    journal::Journal,
};

/// A model that does what the user's message says: `CALL {…}` calls `remote_agent` with these arguments and then repeats what the tool said;
/// anything else is repeated.
pub struct Model {
    pub address: SocketAddr,
    /// The bodies of all requests for a completion.
    pub requests: Journal<Value>,
}

impl Model {
    pub fn start() -> Self {
        let requests = Journal::new();
        let journal = requests.clone();
        let address = http::serve(move |request, stream| complete(request, stream, &journal));
        Self { address, requests }
    }

    /// The request that brought the tool's result for the turn that `marker` appears in.
    pub fn request_with_result(&self, marker: &str) -> Value {
        self.requests
            .wait("the model to be given the tool's result", |body| {
                tool_result(body).is_some() && body["messages"].to_string().contains(marker)
            })
    }
}

/// What the tool said in the current turn of a request, if it was called in it.
pub fn tool_result(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    let turn = messages.iter().rposition(is_from_user)?;
    messages[turn..]
        .iter()
        .rev()
        .find(|message| message["role"] == "tool")
        .map(|message| text(&message["content"]))
}

/// OpenClaw adds messages of its own under the user's name.
fn is_from_user(message: &Value) -> bool {
    message["role"] == "user"
        && !text(&message["content"]).contains("BEGIN_OPENCLAW_INTERNAL_CONTEXT")
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn complete(request: &Request, stream: &mut TcpStream, journal: &Journal<Value>) {
    if request.method == "GET" {
        let models = json!({"object": "list", "data": [{"id": "scripted", "object": "model"}]});
        return http::answer(stream, "200 OK", "application/json", &models.to_string());
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let (delta, finish) = reply(&body);
    journal.push(body);
    let chunk = |choice: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]});
    let mut last = chunk(json!({"index": 0, "delta": {}, "finish_reason": finish}));
    last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let first = chunk(json!({"index": 0, "delta": delta, "finish_reason": null}));
    http::answer_events(
        stream,
        &[first.to_string(), last.to_string(), "[DONE]".to_owned()],
    );
}

fn reply(body: &Value) -> (Value, &'static str) {
    let messages = body["messages"].as_array().unwrap();
    let said = messages
        .iter()
        .rfind(|message| is_from_user(message))
        .map_or_else(String::new, |message| text(&message["content"]));
    let call = said
        .find("CALL {")
        .map(|at| &said[at + "CALL ".len()..=said.rfind('}').unwrap()]);
    match (tool_result(body), call) {
        (Some(result), _) => (
            json!({"role": "assistant", "content": format!("The tool said: {result}")}),
            "stop",
        ),
        (None, Some(arguments)) => {
            let call = json!({"index": 0, "id": format!("call_{}", messages.len()), "type": "function",
                "function": {"name": "remote_agent", "arguments": arguments}});
            (
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                "tool_calls",
            )
        }
        (None, None) => (json!({"role": "assistant", "content": said}), "stop"),
    }
}
