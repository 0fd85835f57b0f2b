//! A scripted language model behind an OpenAI-compatible API.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::{
    http::{self, Request},
    journal::Journal,
};

/// A model that follows the user's message: `CALL {…}` calls `remote_agent` with these arguments, even invalid ones, and then
/// repeats the result; `NAME CALL {…}` does the same with a tool whose name ends in `remote_agent`, or with `sessions_spawn`;
/// `LIST` calls `ls`;
/// `SLOW n` answers with n words, ten a second; `ANSWER x` answers with x alone; `RACE a b c` lets the agent a answer, once the model
/// has the message of the agents b and c, which write until they are stopped; the votes on a proposal are in its text (`alpha:approve beta:reject`). It
/// repeats any other message.
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

    /// Returns the request with the tool's result of the turn with `marker`.
    pub fn request_with_result(&self, marker: &str) -> Value {
        self.requests
            .wait("a request with the tool's result", |body| {
                tool_result(body).is_some() && body["messages"].to_string().contains(marker)
            })
    }
}

/// Returns the tool's result in the current turn of a request, if it was called.
pub fn tool_result(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    messages[last_user_message(messages)?..]
        .iter()
        .rev()
        .find(|message| message["role"] == "tool")
        .map(|message| text(&message["content"]))
}

/// Returns the index of the user's last message. OpenClaw adds further messages in that role: its context, and after the
/// results of tools their images.
fn last_user_message(messages: &[Value]) -> Option<usize> {
    (0..messages.len()).rev().find(|&index| {
        let message = &messages[index];
        message["role"] == "user"
            && !text(&message["content"]).contains("BEGIN_OPENCLAW_INTERNAL_CONTEXT")
            && !(index > 0
                && messages[index - 1]["role"] == "tool"
                && message["content"].to_string().contains("image_url"))
    })
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
    journal.push(body.clone());
    wait_for_rivals(&body, journal);
    if let Some(words) = delta["slowly"].as_u64() {
        return stream_words(stream, words);
    }
    let chunk = |choice: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]});
    let mut last = chunk(json!({"index": 0, "delta": {}, "finish_reason": finish}));
    last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let first = chunk(json!({"index": 0, "delta": delta, "finish_reason": null}));
    http::answer_events(
        stream,
        &[first.to_string(), last.to_string(), "[DONE]".to_owned()],
    );
}

/// Returns the words of a race in the current turn: its agents, the first one being the winner, and others.
fn race(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    let prompt = text(&messages[last_user_message(messages)?]["content"]);
    let (_, race) = prompt.split_once("RACE ")?;
    race.lines().next().map(str::to_owned)
}

/// Returns whether a request is of an agent.
fn is_of(body: &Value, agent: &str) -> bool {
    let session = format!("session=agent:{agent}:");
    body["messages"].to_string().contains(&session)
}

/// Holds the answer of the winner of a race until the others have begun.
fn wait_for_rivals(body: &Value, journal: &Journal<Value>) {
    let Some(race) = race(body) else {
        return;
    };
    let mut words = race.split(' ');
    if !words.next().is_some_and(|winner| is_of(body, winner)) {
        return;
    }
    for rival in words.take(2) {
        journal.wait("the message of a rival", |other| {
            is_of(other, rival) && other["messages"].to_string().contains(&race)
        });
    }
}

fn stream_words(stream: &mut TcpStream, words: u64) {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        .to_string()
    };
    let mut next = 0;
    http::answer_slowly(stream, || {
        let index = next;
        next += 1;
        // The speed of a model, not a wait for an event.
        std::thread::sleep(std::time::Duration::from_millis(100));
        match index {
            n if n < words => Some(chunk(
                json!({"role": "assistant", "content": format!("word{n} ")}),
                Value::Null,
            )),
            n if n == words => Some(chunk(json!({}), json!("stop"))),
            n if n == words + 1 => Some("[DONE]".to_owned()),
            _ => None,
        }
    });
}

/// Returns the vote of a member of a triad that the proposal scripts. `messages` are all messages of the request.
fn vote_reply(prompt: &str, messages: &str) -> Option<Value> {
    let is_retry = prompt.contains("answer was not usable");
    if !is_retry && !prompt.contains("that vote on a proposal") {
        return None;
    }
    let scripted = ["alpha", "beta", "charlie"].into_iter().find_map(|name| {
        let is_voter = messages.contains(&format!("You are `{name}`, one of three members"));
        let rest = messages
            .split(&format!("{name}:"))
            .nth(1)
            .filter(|_| is_voter)?;
        Some(
            rest.split(|c: char| !c.is_ascii_lowercase())
                .next()
                .unwrap_or_default(),
        )
    });
    Some(match scripted.unwrap_or("abstain") {
        "sleep" => json!({"slowly": 600}),
        "nonsense" if !is_retry => json!({"role": "assistant", "content": "I would say yes."}),
        vote => {
            let vote = if vote == "nonsense" { "approve" } else { vote };
            let ballot = json!({"vote": vote, "reasoning": format!("My script says {vote}."), "confidence": 0.8});
            json!({"role": "assistant", "content": ballot.to_string()})
        }
    })
}

/// Returns the call of a tool. OpenClaw offers the tools of MCP servers through another tool, by name.
fn tool_function(body: &Value, name: &str, arguments: &str) -> Value {
    let offers = |name: &str| {
        let mut tools = body["tools"].as_array().into_iter().flatten();
        tools.any(|tool| tool["function"]["name"] == name)
    };
    if offers(name) || !offers("tool_call") {
        return json!({"name": name, "arguments": arguments});
    }
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    json!({"name": "tool_call", "arguments": json!({"id": name, "args": arguments}).to_string()})
}

fn reply(body: &Value) -> (Value, &'static str) {
    let messages = body["messages"].as_array().unwrap();
    let prompt = last_user_message(messages)
        .map_or_else(String::new, |index| text(&messages[index]["content"]));
    if let Some(vote) = vote_reply(&prompt, &body["messages"].to_string()) {
        return (vote, "stop");
    }
    if let Some(race) = race(body) {
        let winner = race.split(' ').next().unwrap_or_default();
        return match is_of(body, winner) {
            true => (json!({"role": "assistant", "content": "first"}), "stop"),
            false => (json!({"slowly": 600}), "stop"),
        };
    }
    if let Some((_, answer)) = prompt.split_once("ANSWER ") {
        let word = answer.split_whitespace().next();
        return (json!({"role": "assistant", "content": word}), "stop");
    }
    let call_start = prompt.find("CALL {");
    let call = call_start.map(|start| &prompt[start + "CALL ".len()..=prompt.rfind('}').unwrap()]);
    let word_count = prompt
        .split("SLOW ")
        .nth(1)
        .filter(|_| call.is_none())
        .map(|rest| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()
                .unwrap_or_default()
                .to_owned()
        });
    if let Some(Ok(words)) = word_count.map(|count| count.parse::<u64>()) {
        return (json!({"slowly": words}), "stop");
    }
    if call.is_none() && prompt.contains("LIST") && tool_result(body).is_none() {
        let call = json!({"index": 0, "id": format!("call_{}", messages.len()), "type": "function", "function": {"name": "ls", "arguments": "{\"path\": \".\"}"}});
        return (
            json!({"role": "assistant", "content": "Let me look.", "tool_calls": [call]}),
            "tool_calls",
        );
    }
    match (tool_result(body), call) {
        (Some(result), _) => (
            json!({"role": "assistant", "content": format!("The tool said: {result}")}),
            "stop",
        ),
        (None, Some(arguments)) => {
            let preceding_word = prompt[..call_start.unwrap_or_default()]
                .split_whitespace()
                .last();
            let name = preceding_word
                .filter(|word| word.ends_with("remote_agent") || *word == "sessions_spawn");
            let tool_function = tool_function(body, name.unwrap_or("remote_agent"), arguments);
            let call = json!({"index": 0, "id": format!("call_{}", messages.len()), "type": "function", "function": tool_function});
            (
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                "tool_calls",
            )
        }
        (None, None) => (json!({"role": "assistant", "content": prompt}), "stop"),
    }
}
