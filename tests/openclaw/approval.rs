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
