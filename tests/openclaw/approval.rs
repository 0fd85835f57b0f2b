//! Messages that a person approves, for targets with `approval`.

use serde_json::{Value, json};

use crate::{model, notify::Followed, peer::Seen};

fn call(target: &str, text: &str) -> String {
    let parts = json!([{"kind": "text", "text": text}]);
    let request = json!({"action": "send", "target_alias": target, "parts": parts});
    format!("CALL {request}")
}

/// Runs a turn that sends to `asked`, and decides the question that OpenClaw asks meanwhile; returns the question.
fn decide(followed: &Followed, session: &str, text: &str, decision: &str) -> Value {
    followed.with_socket(|socket| {
        let run = socket.start(session, &call("asked", text));
        let asked = socket.frames.wait("the question for approval", |frame| {
            frame["event"] == "plugin.approval.requested" && frame.to_string().contains(text)
        });
        let id = &asked["payload"]["id"];
        socket.request(
            "plugin.approval.resolve",
            json!({"id": id, "decision": decision}),
        );
        socket.end_of(&run);
        asked["payload"].clone()
    })
}

/// What the model reads of the call whose message is `text`.
fn result(followed: &Followed, text: &str) -> String {
    model::tool_result(&followed.model.request_with_result(text)).unwrap()
}

pub fn person_approves_the_first_message(followed: &Followed) {
    let asked = decide(
        followed,
        "agent:main:asked",
        "ask about prices",
        "allow-always",
    );
    println!("the question: {asked:#}");
    let description = asked["request"]["description"].as_str().unwrap();
    assert!(
        description.contains("asked at http://127.0.0.1:"),
        "{asked:#}"
    );
    assert!(description.contains("ask about prices"), "{asked:#}");
    assert!(result(followed, "ask about prices").contains("task completed"));
    followed.turn("agent:main:asked", &call("asked", "ask about more"));
    assert!(result(followed, "ask about more").contains("task completed"));
}

pub fn denied_target_receives_no_message(followed: &Followed) {
    followed.turn("agent:main:denied", &call("denied", "tell everything"));
    let said = result(followed, "tell everything");
    println!("what the model reads of a denial: {said}");
    assert!(said.contains("does not allow sending to denied"), "{said}");
    let calls = followed.peer.seen.all(
        |seen| matches!(seen, Seen::Call { body, .. } if body.to_string().contains("tell everything")),
    );
    assert!(calls.is_empty());
}
