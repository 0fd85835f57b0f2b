//! Messages that a person has to approve, for targets with `approval`.

use serde_json::json;

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

/// Runs a turn of Control UI that sends `text`, and answers OpenClaw's question with `decision`. Returns the result that the
/// model reads.
fn answered(followed: &Followed, text: &str, decision: &str) -> String {
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
        let answer = json!({"id": asked["payload"]["id"], "decision": decision});
        socket.request("plugin.approval.resolve", answer);
    });
    let result = model::tool_result(&followed.model.request_with_result(text)).unwrap();
    println!("the result after {decision}: {result}");
    result
}

/// Returns how often the peer was called with `text`.
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

/// OpenClaw gives a person two minutes. A later answer changes nothing.
pub fn message_without_answer_in_time_is_not_sent(followed: &Followed) {
    let text = "greetings without an answer";
    let parts = json!([{"kind": "text", "text": text}]);
    let request = json!({"action": "send", "target_alias": "asked", "parts": parts});
    let id = followed.with_socket(|socket| {
        let turn = json!({
            "sessionKey": "agent:main:main", "message": format!("CALL {request}"), "idempotencyKey": text,
        });
        socket.request("chat.send", turn);
        let asked = socket.frames.wait("OpenClaw's question", |frame| {
            frame["event"] == "plugin.approval.requested" && frame.to_string().contains(text)
        });
        asked["payload"]["id"].clone()
    });
    // The wait for the result begins when part of the two minutes is over.
    followed.with_socket(|socket| {
        socket.frames.wait("the end of the question", |frame| {
            frame["event"] == "plugin.approval.resolved" && frame["payload"]["id"] == id
                || frame["event"] == "chat" && frame["payload"]["state"] == "final" && frame.to_string().contains("timed out")
        });
    });
    let result = model::tool_result(&followed.model.request_with_result(text)).unwrap();
    println!("the result without an answer: {result}");
    assert!(result.contains("timed out"), "{result}");
    assert_eq!(calls(followed, text), 0);
    let late = json!({"id": id, "decision": "allow-once"});
    let answer = followed.with_socket(|socket| socket.attempt("plugin.approval.resolve", late));
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(calls(followed, text), 0);
}
