//! Messages that a person must approve, for targets with `approval`.

use serde_json::{Value, json};

use crate::{model, notify::NotifyFixture, peer::PeerEvent};

/// Runs a turn that sends `text` to `target`, and returns the result that the model reads.
fn send_and_expect_refusal(fixture: &NotifyFixture, target: &str, text: &str) -> String {
    let parts = json!([{"kind": "text", "text": text}]);
    let request = json!({"action": "send", "target_alias": target, "parts": parts});
    fixture.run_turn("agent:main:approval", &format!("CALL {request}"));
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    println!("the result of a refused message to {target}: {result}");
    let calls = fixture.peer.events.all(
        |event| matches!(event, PeerEvent::Call { body, .. } if body.to_string().contains(text)),
    );
    assert!(calls.is_empty(), "the peer was called");
    result
}

pub fn denied_target_receives_no_message(fixture: &NotifyFixture) {
    let result = send_and_expect_refusal(fixture, "denied", "send everything");
    assert!(
        result.contains("does not allow sending to denied"),
        "{result}"
    );
}

pub fn message_without_approver_is_not_sent(fixture: &NotifyFixture) {
    let result = send_and_expect_refusal(fixture, "supervised", "request the prices");
    assert!(result.contains("approval unavailable"), "{result}");
}

/// Starts a turn of Control UI that sends `text`, and returns the id of OpenClaw's approval request.
pub fn request_approval(fixture: &NotifyFixture, text: &str) -> Value {
    let parts = json!([{"kind": "text", "text": text}]);
    let request = json!({"action": "send", "target_alias": "supervised", "parts": parts});
    fixture.with_socket(|socket| {
        let run_turn = json!({
            "sessionKey": "agent:main:main", "message": format!("CALL {request}"), "idempotencyKey": text,
        });
        socket.request("chat.send", run_turn);
    });
    wait_for_request(fixture, text)
}

/// Waits for OpenClaw's approval request about `text`, and returns its id.
pub fn wait_for_request(fixture: &NotifyFixture, text: &str) -> Value {
    fixture.with_socket(|socket| {
        let event = socket
            .frames
            .wait("an approval request of OpenClaw", |frame| {
                frame["event"] == "plugin.approval.requested" && frame.to_string().contains(text)
            });
        println!("the approval request: {}", event["payload"]);
        event["payload"]["id"].clone()
    })
}

/// Answers OpenClaw's approval request.
pub fn resolve_approval(fixture: &NotifyFixture, id: &Value, decision: &str) {
    let answer = json!({"id": id, "decision": decision});
    fixture.with_socket(|socket| socket.request("plugin.approval.resolve", answer));
}

/// Sends `text` and answers OpenClaw's approval request with `decision`. Returns the result that the model reads.
fn send_and_decide(fixture: &NotifyFixture, text: &str, decision: &str) -> String {
    let id = request_approval(fixture, text);
    resolve_approval(fixture, &id, decision);
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    println!("the result after {decision}: {result}");
    result
}

/// Returns the number of the peer's calls with `text`.
fn peer_calls(fixture: &NotifyFixture, text: &str) -> usize {
    let calls = fixture.peer.events.all(
        |event| matches!(event, PeerEvent::Call { body, .. } if body.to_string().contains(text)),
    );
    calls.len()
}

pub fn approved_message_is_sent(fixture: &NotifyFixture) {
    let text = "approved greetings";
    send_and_decide(fixture, text, "allow-once");
    assert_eq!(peer_calls(fixture, text), 1);
}

pub fn denied_message_is_not_sent(fixture: &NotifyFixture) {
    let text = "greetings without approval";
    let result = send_and_decide(fixture, text, "deny");
    assert!(result.contains("enied"), "{result}");
    assert_eq!(peer_calls(fixture, text), 0);
}

/// OpenClaw's approval request expires after two minutes.
pub fn unanswered_message_is_not_sent(fixture: &NotifyFixture) {
    let text = "greetings without a decision";
    request_approval(fixture, text);
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    println!("the result of an expired approval request: {result}");
    assert!(result.contains("expired without a decision"), "{result}");
    assert!(result.contains("send it again when they can"), "{result}");
    assert_eq!(peer_calls(fixture, text), 0);
}
