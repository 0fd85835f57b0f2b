//! Messages that a person must approve, for targets with `approval`.

use serde_json::{Value, json};

use crate::{model, notify::Followed, peer::Seen};

/// Runs a turn that sends `text` to `target`, and returns the result that the model reads.
fn refusal(followed: &Followed, target: &str, text: &str) -> String {
    let parts = json!([{"kind": "text", "text": text}]);
    let request = json!({"action": "send", "target_alias": target, "parts": parts});
    followed.turn("agent:main:approval", &format!("CALL {request}"));
    let result = model::tool_result(&followed.model.request_with_result(text)).unwrap();
    println!("the result of a refused message to {target}: {result}");
    let calls = followed
        .peer
        .seen
        .all(|seen| matches!(seen, Seen::Call { body, .. } if body.to_string().contains(text)));
    assert!(calls.is_empty(), "the peer was called");
    result
}

pub fn denied_target_receives_no_message(followed: &Followed) {
    let result = refusal(followed, "denied", "tell everything");
    assert!(
        result.contains("does not allow sending to denied"),
        "{result}"
    );
}

pub fn message_without_approver_is_not_sent(followed: &Followed) {
    let result = refusal(followed, "asked", "ask about prices");
    assert!(result.contains("approval unavailable"), "{result}");
}

/// Starts a turn of Control UI that sends `text`, and returns the id of OpenClaw's question.
pub fn question(followed: &Followed, text: &str) -> Value {
    let parts = json!([{"kind": "text", "text": text}]);
    let request = json!({"action": "send", "target_alias": "asked", "parts": parts});
    followed.with_socket(|socket| {
        let turn = json!({
            "sessionKey": "agent:main:main", "message": format!("CALL {request}"), "idempotencyKey": text,
        });
        socket.request("chat.send", turn);
        let asked = socket.frames.wait("OpenClaw's question", |frame| {
            frame["event"] == "plugin.approval.requested" && frame.to_string().contains(text)
        });
        println!("the question: {}", asked["payload"]);
        asked["payload"]["id"].clone()
    })
}

/// Answers OpenClaw's question.
fn resolve(followed: &Followed, id: &Value, decision: &str) {
    let answer = json!({"id": id, "decision": decision});
    followed.with_socket(|socket| socket.request("plugin.approval.resolve", answer));
}

/// Sends `text` and answers OpenClaw's question with `decision`. Returns the result that the model reads.
fn answered(followed: &Followed, text: &str, decision: &str) -> String {
    let id = question(followed, text);
    resolve(followed, &id, decision);
    let result = model::tool_result(&followed.model.request_with_result(text)).unwrap();
    println!("the result after {decision}: {result}");
    result
}

/// Returns the number of the peer's calls with `text`.
fn calls(followed: &Followed, text: &str) -> usize {
    let calls = followed
        .peer
        .seen
        .all(|seen| matches!(seen, Seen::Call { body, .. } if body.to_string().contains(text)));
    calls.len()
}

pub fn approved_message_is_sent(followed: &Followed) {
    let text = "approved greetings";
    answered(followed, text, "allow-once");
    assert_eq!(calls(followed, text), 1);
}

pub fn denied_message_is_not_sent(followed: &Followed) {
    let text = "greetings without approval";
    let result = answered(followed, text, "deny");
    assert!(result.contains("enied"), "{result}");
    assert_eq!(calls(followed, text), 0);
}

/// OpenClaw's question expires after two minutes.
pub fn unanswered_message_is_not_sent(followed: &Followed) {
    let text = "greetings without a decision";
    question(followed, text);
    let result = model::tool_result(&followed.model.request_with_result(text)).unwrap();
    println!("the result of an expired question: {result}");
    assert!(result.contains("expired without a decision"), "{result}");
    assert!(result.contains("send it again when they can"), "{result}");
    assert_eq!(calls(followed, text), 0);
}
