//! Direct calls of the tool, and the headers that reach the agent.

use serde_json::json;

use crate::{
    fence_content,
    peer::{PeerEvent, answer_text},
    plugin_fixture::{PluginFixture, SECRET},
    send,
};

pub fn direct_call_answers(fixture: &PluginFixture) {
    let (status, answer) = fixture.gateway.invoke(send("say hello"));
    let envelope = &answer["result"]["details"];
    assert_eq!(
        (status, &envelope["ok"], &envelope["action"]),
        (200, &json!(true), &json!("send")),
        "{answer}"
    );
    assert_eq!(
        envelope["raw"]["artifacts"][0]["parts"][0]["text"],
        answer_text("say hello")
    );
    let content = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        fence_content(content)
            .matches(&answer_text("say hello"))
            .count(),
        1
    );
}

pub fn secret_reference_arrives_resolved(fixture: &PluginFixture) {
    fixture.gateway.invoke(send("who am I"));
    let (_, authorization) = fixture.peer.call("who am I");
    assert_eq!(authorization.unwrap(), format!("Bearer {}", SECRET.1));
}

pub fn secret_reference_in_a_header_arrives_resolved(fixture: &PluginFixture) {
    fixture.gateway.invoke(send("which key"));
    let calls = fixture.peer.events.all(|event| {
        matches!(event, PeerEvent::Call { body, key: Some(key), .. }
            if body.to_string().contains("which key") && key == SECRET.1)
    });
    assert_eq!(calls.len(), 1);
}

pub fn refused_direct_call_is_an_envelope(fixture: &PluginFixture) {
    let envelope = fixture.gateway.envelope(json!({"action": "dance"}));
    assert_eq!(
        (&envelope["ok"], &envelope["error"]["code"]),
        (&json!(false), &json!("VALIDATION_ERROR")),
        "{envelope}"
    );
}

pub fn trace_of_the_run_reaches_the_agent(fixture: &PluginFixture) {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let message = format!("CALL {}", send("follow the trace"));
    let traceparent = format!("00-{trace}-b7ad6b7169203331-01");
    fixture
        .socket
        .run_in_trace("agent:main:trace", &message, &traceparent);
    let calls = fixture.peer.events.all(|event| {
        matches!(event, PeerEvent::Call { body, traceparent: Some(sent), .. }
            if body.to_string().contains("follow the trace") && sent.contains(trace))
    });
    assert_eq!(calls.len(), 1, "{:?}", fixture.peer.events.all(|_| true));
}
