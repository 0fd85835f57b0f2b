//! One call and what comes of it.

use serde_json::{Value, json};

use super::{Binding, Peer, Sdk, refusal, task};

fn streamed() -> Value {
    json!({"follow_updates": true})
}

pub(super) fn the_card_is_read(mut peer: Peer) {
    let (answer, _) = peer.plugin.call(&json!({"action": "list_targets"}));

    assert_eq!(answer["ok"], true, "{answer:#}");
    let target = &answer["summary"]["targets"][0];
    let name = match peer.sdk {
        Sdk::Py03 => "py03",
        Sdk::Js03 => "js03",
    };
    assert_eq!(target["target_name"], name, "{target:#}");
    assert_eq!(target["streaming_supported"], true, "{target:#}");
    let origin = &peer.server.origin;
    let interfaces = json!([
        {"transport": "JSONRPC", "url": format!("{origin}/rpc")},
        {"transport": "HTTP+JSON", "url": format!("{origin}/rest")},
    ]);
    assert_eq!(
        target["peer_card"]["additional_interfaces"], interfaces,
        "{target:#}"
    );
    assert_eq!(target["peer_card"]["skills"][0]["id"], "act", "{target:#}");
}

pub(super) fn the_preferred_binding_is_spoken(mut peer: Peer) {
    let (answer, _) = peer.send("where", json!({}));

    let path = match peer.binding {
        Binding::JsonRpc => "/rpc",
        Binding::HttpJson => "/rest/v1/message:send",
    };
    assert_eq!(answer["summary"]["message_text"], path, "{answer:#}");
}

pub(super) fn a_message_is_answered_by_a_message(mut peer: Peer) {
    let (answer, updates) = peer.send("message: hi", json!({}));

    assert_is_the_message(&answer);
    assert_eq!(answer["raw"]["kind"], "message", "{answer:#}");
    assert_eq!(answer["raw"]["role"], "agent", "{answer:#}");
    assert_eq!(
        answer["raw"]["parts"],
        json!([{"kind": "text", "text": "hi"}]),
        "{answer:#}"
    );
    assert!(updates.is_empty(), "{updates:#?}");
}

pub(super) fn a_message_arrives_by_stream(mut peer: Peer) {
    let (answer, updates) = peer.send("message: hi", streamed());

    // The stream is one event, the message, on both servers.
    assert_is_the_message(&answer);
    assert_eq!(kinds(&answer["raw"]["events"]), ["message"], "{answer:#}");
    assert_eq!(updates.len(), 1, "{updates:#?}");
}

fn assert_is_the_message(answer: &Value) {
    assert_eq!(answer["ok"], true, "{answer:#}");
    let summary = &answer["summary"];
    assert_eq!(summary["response_kind"], "message", "{answer:#}");
    assert_eq!(summary["message_text"], "hi", "{answer:#}");
    // Both servers make up a context, and no task.
    assert!(
        summary["continuation"]["conversation"]["context_id"].is_string(),
        "{answer:#}"
    );
    assert_eq!(summary["continuation"].get("task"), None, "{answer:#}");
}

pub(super) fn a_task_is_waited_for(mut peer: Peer) {
    let (answer, updates) = peer.send("task: gamma", json!({}));

    assert_is_the_task(&answer);
    assert_eq!(answer["raw"]["status"]["state"], "completed", "{answer:#}");
    assert!(updates.is_empty(), "{updates:#?}");
}

pub(super) fn a_streamed_task_arrives_chunk_by_chunk(mut peer: Peer) {
    let (answer, updates) = peer.send("task: gamma", streamed());

    // Both servers send the same six events. Over HTTP+JSON the first chunk has neither `append` nor `lastChunk`
    // (false is left out); py03 spreads each event over many `data:` lines there.
    assert_is_the_task(&answer);
    let events = [
        "task",
        "status-update",
        "artifact-update",
        "artifact-update",
        "artifact-update",
        "status-update",
    ];
    assert_eq!(kinds(&answer["raw"]["events"]), events, "{answer:#}");
    assert_eq!(
        answer["raw"]["finalEvent"]["status"]["state"], "completed",
        "{answer:#}"
    );
    let raws: Value = updates.iter().map(|update| update["raw"].clone()).collect();
    assert_eq!(raws, answer["raw"]["events"]);
    let states: Vec<&str> = updates
        .iter()
        .map(|update| task(update)["status"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        [
            "submitted",
            "working",
            "working",
            "working",
            "working",
            "completed"
        ]
    );
}

fn assert_is_the_task(answer: &Value) {
    let task = task(answer);
    assert_eq!(task["status"], "completed", "{answer:#}");
    assert_eq!(task["can_resume_send"], false, "{answer:#}");
    assert_eq!(
        answer["summary"]["message_text"], "alpha beta gamma",
        "{answer:#}"
    );
    let artifacts = &answer["summary"]["artifacts"];
    assert_eq!(artifacts[0]["artifactId"], "answer", "{answer:#}");
    assert_eq!(artifacts[0]["name"], "answer.txt", "{answer:#}");
    assert_eq!(artifacts.as_array().map(Vec::len), Some(1), "{answer:#}");
}

pub(super) fn a_failed_task_is_an_answer(mut peer: Peer) {
    let (answer, _) = peer.send("fail: no luck", json!({}));
    assert_failed(&answer, "no luck");
}

pub(super) fn a_failed_task_arrives_by_stream(mut peer: Peer) {
    let (answer, _) = peer.send("fail: no luck", streamed());
    assert_failed(&answer, "no luck");
}

fn assert_failed(answer: &Value, why: &str) {
    let task = task(answer);
    assert_eq!(task["status"], "failed", "{answer:#}");
    assert_eq!(task["can_cancel"], false, "{answer:#}");
    assert_eq!(answer["summary"]["status_message"], why, "{answer:#}");
}

pub(super) fn an_agent_that_crashes_is_reported(mut peer: Peer) {
    let (answer, _) = peer.send("crash: boom", json!({}));

    match (peer.sdk, peer.binding) {
        // A task that the server makes up, with another id than the one the agent was given.
        (Sdk::Js03, _) => assert_failed(&answer, "Agent execution error: boom"),
        // HTTP 200 with `{"error":{"code":-32603,"message":"boom"}}`.
        (Sdk::Py03, Binding::JsonRpc) => {
            assert_eq!(refusal(&answer)["details"]["rpcCode"], -32603, "{answer:#}");
            assert!(refusal(&answer).to_string().contains("boom"), "{answer:#}");
        }
        // HTTP 500 with `{"message":"unknown exception"}`.
        (Sdk::Py03, Binding::HttpJson) => {
            assert!(
                refusal(&answer).to_string().contains("unknown exception"),
                "{answer:#}"
            );
        }
    }
}

pub(super) fn an_agent_that_crashes_in_a_stream_is_reported(mut peer: Peer) {
    let (answer, _) = peer.send("crash: boom", streamed());

    match peer.sdk {
        // One `failed` status of a task that the server does not know afterwards.
        Sdk::Js03 => assert_failed(&answer, "Agent execution error: boom"),
        // HTTP 200 with `text/event-stream`, then the connection is cut before any event: nothing to resume.
        Sdk::Py03 => assert_eq!(
            refusal(&answer)["details"].get("partial_event_count"),
            None,
            "{answer:#}"
        ),
    }
}

/// The kinds of the events of an answer.
pub(super) fn kinds(events: &Value) -> Vec<&str> {
    let events = events.as_array().expect("a list of events");
    events
        .iter()
        .map(|event| event["kind"].as_str().expect("a kind"))
        .collect()
}
