#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Envelope, EnvelopeError, ErrorCode, translate::testing::any_envelope};

const NOW: u64 = 1_711_843_200_000;

fn filled<T>(agent: Option<&str>, translate: impl FnOnce(&mut TranslationContext<'_>) -> T) -> T {
    let mut made = 0;
    let mut new_id = || {
        made += 1;
        format!("new-{made}")
    };
    translate(&mut TranslationContext {
        now: NOW,
        new_id: &mut new_id,
        agent,
    })
}

fn write(frame: Value) -> Value {
    let envelope = Envelope::from_value(frame).unwrap();
    filled(None, |fill| to_a2a(&envelope, fill)).unwrap()
}

fn try_read(object: &Value, agent: Option<&str>) -> Result<Envelope, EnvelopeError> {
    filled(agent, |fill| from_a2a(object, fill))
}

fn read(object: &Value) -> Value {
    try_read(object, Some("alpha")).unwrap().into_json()
}

/// Removes the members that the translation added.
fn plain(mut object: Value) -> Value {
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove(EXTENSION_FIELD);
    object
}

#[test]
fn message_has_text_session_and_metadata() {
    let frame = json!({
        "type": "message", "id": "m-1", "from": "steward", "agent": "alpha", "sessionId": "s-1", "timestamp": 7,
        "content": {"role": "user", "content": "Is the shop down?"},
        "metadata": {"priority": "high", "correlationId": "c-1"},
    });
    assert_eq!(
        write(frame),
        json!({
            "kind": "message", "messageId": "m-1", "role": "user", "contextId": "s-1",
            "parts": [{"kind": "text", "text": "Is the shop down?"}],
            "metadata": {"priority": "high", "correlationId": "c-1",
                "a2a-v1": {"type": "message", "from": "steward", "agent": "alpha", "timestamp": 7}},
        })
    );
}

#[test]
fn h_16_several_parts_are_an_object_one_is_a_text() {
    let message = |parts: Value| json!({"kind": "message", "messageId": "m", "role": "agent", "parts": parts});
    let one = read(&message(json!([{"kind": "text", "text": "hi"}])));
    assert_eq!(one["content"], json!({"role": "agent", "content": "hi"}));
    let parts =
        json!([{"kind": "text", "text": "hi"}, {"kind": "file", "file": {"uri": "https://a"}}]);
    let two = read(&message(parts.clone()));
    assert_eq!(two["content"]["content"], json!({ "parts": parts }));
    let labelled = json!([{"kind": "text", "text": "hi", "metadata": {"lang": "en"}}]);
    assert_eq!(
        read(&message(labelled.clone()))["content"]["content"],
        json!({ "parts": labelled })
    );
}

#[test]
fn message_to_the_triad_is_a_proposal() {
    let message =
        |parts: Value| json!({"kind": "message", "messageId": "m", "role": "user", "parts": parts});
    let read = |parts| {
        try_read(&message(parts), Some("triad"))
            .unwrap()
            .into_json()
    };
    let text = read(json!([{"kind": "text", "text": "Ship it"}]));
    assert_eq!(
        (&text["type"], &text["content"]),
        (&json!("proposal"), &json!({"proposal": "Ship it"}))
    );
    let data = json!({"proposal": "Ship it", "reasoning": "ready", "deadline": 9});
    let data_part = json!([{"kind": "text", "text": "please"}, {"kind": "data", "data": data}]);
    assert_eq!(read(data_part)["content"], data);
}

#[test]
fn proposal_is_text_and_optional_data() {
    let of =
        |content: Value| write(json!({"type": "proposal", "content": content}))["parts"].take();
    assert_eq!(
        of(json!({"proposal": "Ship it"})),
        json!([{"kind": "text", "text": "Ship it"}])
    );
    let more = json!({"proposal": "Ship it", "reasoning": "ready"});
    assert_eq!(of(more.clone()), json!([{"kind": "data", "data": more}]));
}

#[test]
fn vote_is_an_update_of_its_proposals_task() {
    let content = json!({"proposalId": "p", "vote": "approve", "confidence": 0.9});
    let update = write(json!({"type": "vote", "from": "alpha", "content": content}));
    assert_eq!(
        (&update["kind"], &update["taskId"], &update["final"]),
        (&json!("status-update"), &json!("p"), &json!(false))
    );
    assert_eq!(update["status"]["state"], "working");
    assert_eq!(
        update["status"]["message"]["parts"],
        json!([{"kind": "data", "data": content}])
    );
}

#[test]
fn every_decision_completes_its_task() {
    for (result, consensus, said) in [
        ("approved", true, "approved"),
        ("rejected", false, "rejected (no consensus)"),
    ] {
        let expected = format!("{said}: alpha approve, beta reject, charlie did not vote");
        let content = json!({"proposalId": "p", "result": result, "votes": {"alpha": "approve", "beta": "reject"},
            "consensus": consensus, "missing": ["charlie"]});
        let task = write(json!({"type": "decision", "from": "gateway", "content": content}));
        assert_eq!(
            (&task["kind"], &task["id"], &task["status"]["state"]),
            (&json!("task"), &json!("p"), &json!("completed"))
        );
        let parts = json!([{"kind": "data", "data": content}, {"kind": "text", "text": expected}]);
        assert_eq!(task["artifacts"][0]["parts"], parts);
        // Also without the stored envelope.
        let decision = read(&plain(task));
        assert_eq!(decision["type"], "decision");
        assert_eq!(decision["content"]["votes"], content["votes"]);
    }
}

#[test]
fn error_is_a_failed_task() {
    let content = json!({"error": "AGENT_OFFLINE", "message": "alpha is away", "code": 3002});
    let task =
        write(json!({"type": "error", "content": content, "metadata": {"correlationId": "c"}}));
    assert_eq!(
        (&task["id"], &task["status"]["state"]),
        (&json!("c"), &json!("failed"))
    );
    let parts = json!([{"kind": "text", "text": "alpha is away"}, {"kind": "data", "data": {"error": "AGENT_OFFLINE", "code": 3002}}]);
    assert_eq!(task["status"]["message"]["parts"], parts);
}

#[test]
fn foreign_task_states_map_to_the_nearest_state() {
    for (state, kind, field, value) in [
        ("submitted", "status", "status", json!("busy")),
        ("working", "status", "status", json!("busy")),
        ("input-required", "status", "status", json!("idle")),
        ("unknown", "status", "status", json!("unknown")),
        ("completed", "response", "result", json!("Which one?")),
        ("failed", "error", "code", json!(3004)),
        ("rejected", "error", "code", json!(3004)),
        ("auth-required", "error", "code", json!(5001)),
        ("canceled", "event", "event", json!("canceled")),
    ] {
        let message = json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "Which one?"}]});
        let status =
            json!({"state": state, "message": message, "timestamp": "2024-03-31T00:00:00Z"});
        for task in [
            json!({"kind": "task", "id": "t", "contextId": "s", "status": status, "history": [], "metadata": {"x": 1}}),
            json!({"kind": "status-update", "taskId": "t", "contextId": "s", "status": status, "final": false}),
        ] {
            let frame = read(&task);
            assert_eq!(
                (&frame["type"], &frame["content"][field]),
                (&json!(kind), &value),
                "{state}"
            );
            assert_eq!(frame["metadata"]["correlationId"], "t");
            assert_eq!(frame["sessionId"], "s");
            assert_eq!(write(frame), task, "{state}");
        }
    }
}

#[test]
fn result_of_foreign_task_is_its_artifact_parts() {
    let artifact = |text| json!({"artifactId": text, "parts": [{"kind": "text", "text": text}]});
    let mut task = json!({"kind": "task", "id": "t", "contextId": "s", "status": {"state": "completed"}, "artifacts": [artifact("one")]});
    assert_eq!(read(&task)["content"]["result"], "one");
    task["artifacts"] = json!([artifact("one"), artifact("two")]);
    assert_eq!(
        read(&task)["content"]["result"]["parts"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn artifact_chunk_is_an_event() {
    let update = json!({"kind": "artifact-update", "taskId": "t", "contextId": "s",
        "artifact": {"artifactId": "a", "name": "report.md", "parts": []}, "append": true});
    let frame = read(&update);
    assert_eq!(
        (&frame["type"], &frame["content"]["event"]),
        (&json!("event"), &json!("artifact"))
    );
    assert_eq!(write(frame), update);
}

#[test]
fn untranslatable_object_is_rejected_with_its_place() {
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]});
    let with = |name: &str, value: Value| {
        let mut message = message.clone();
        message[name] = value;
        message
    };
    use ErrorCode::{InvalidContent, InvalidType, MissingField, UnknownType};
    let stateless = json!({"kind": "task", "id": "t"});
    let priority = json!({"priority": 5});
    for (object, agent, code, expected) in [
        (json!([]), None, InvalidType, "object"),
        (json!({}), None, MissingField, "`kind`"),
        (with("kind", json!("card")), None, UnknownType, "`card`"),
        (message.clone(), None, MissingField, "`agent`"),
        (
            with("role", json!("robot")),
            Some("a"),
            InvalidContent,
            "`role`",
        ),
        (
            with("parts", json!("hi")),
            Some("a"),
            InvalidType,
            "`parts`",
        ),
        (
            with("metadata", priority),
            Some("a"),
            InvalidType,
            "`metadata.priority`",
        ),
        (
            with("messageId", json!("")),
            Some("a"),
            InvalidContent,
            "`id`",
        ),
        (
            with("parts", json!([])),
            Some("triad"),
            MissingField,
            "`content.proposal`",
        ),
        (stateless, None, MissingField, "`status.state`"),
    ] {
        let error = try_read(&object, agent).unwrap_err();
        assert_eq!(error.code, code, "{object}");
        assert!(error.message.contains(expected), "{}", error.message);
    }
}

#[test]
fn credential_is_not_translated() {
    let auth =
        Envelope::from_value(json!({"type": "auth", "content": {"token": "s3cret"}})).unwrap();
    let refused = filled(None, |fill| to_a2a(&auth, fill)).unwrap_err();
    assert!(!refused.message.contains("s3cret"));
    let extension = json!({"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "data", "data": {"token": "s3cret"}}],
        "metadata": {"a2a-v1": {"type": "auth"}}});
    assert_eq!(
        try_read(&extension, None).unwrap_err().code,
        ErrorCode::InvalidContent
    );
}

#[test]
fn mismatched_embedded_envelope_is_ignored() {
    let task = json!({"kind": "task", "id": "t", "contextId": "", "status": {"state": "failed"}, "metadata": {"a2a-v1": {"type": "message"}}});
    assert_eq!(read(&task)["type"], "error");
    let hollow = json!({"kind": "task", "id": "t", "status": {"state": "failed"}, "metadata": {"a2a-v1": {"type": "decision"}}});
    assert_eq!(
        try_read(&hollow, None).unwrap_err().code,
        ErrorCode::InvalidType
    );
}

#[test]
fn never_writes_empty_context_id() {
    let frames = [
        json!({"type": "vote", "id": "v", "content": {"proposalId": "p", "vote": "approve"}}),
        json!({"type": "decision", "content": {"proposalId": "p", "result": "approved"}}),
        json!({"type": "response", "content": {"result": "done"}, "metadata": {"correlationId": "p"}}),
        json!({"type": "error", "content": {"error": "AGENT_ERROR", "message": "no"}, "metadata": {"parentId": "p"}}),
    ];
    // All objects of one task have one context.
    let contexts = frames.map(|frame| write(frame)["contextId"].clone());
    assert_eq!(contexts, ["p", "p", "p", "p"]);
    let task = json!({"kind": "task", "id": "t", "contextId": "", "status": {"state": "working"}});
    assert_eq!(write(read(&task))["contextId"], "t");
    let message = json!({"kind": "message", "messageId": "m", "role": "user", "contextId": "", "parts": [{"kind": "text", "text": "x"}]});
    assert_eq!(write(read(&message)).get("contextId"), None);
}

proptest! {
    #[test]
    fn envelope_round_trips(frame in any_envelope()) {
        let written = write(frame.clone());
        prop_assert!(written["contextId"] != "", "{}", written);
        prop_assert_eq!(read(&written), frame);
    }

    #[test]
    fn foreign_message_is_returned_unchanged(
        text in "[a-z ]{0,9}",
        more in any::<bool>(),
        context in proptest::option::of("[a-z]{1,5}"),
        task in proptest::option::of("[a-z]{1,5}"),
        user in any::<bool>(),
        metadata in proptest::option::of("[a-z]{0,3}"),
    ) {
        let mut parts = vec![json!({"kind": "text", "text": text})];
        if more {
            parts.push(json!({"kind": "data", "data": {"n": 1}}));
        }
        let mut message = json!({"kind": "message", "messageId": "m", "role": if user { "user" } else { "agent" }, "parts": parts});
        for (name, value) in [("contextId", context), ("taskId", task)] {
            if let Some(value) = value {
                message[name] = json!(value);
            }
        }
        if let Some(value) = &metadata {
            message["metadata"] = if value.is_empty() { json!({}) } else { json!({"priority": "low", "own": value}) };
        }
        let mut back = plain(write(read(&message)));
        // The metadata of an envelope is kept; that of A2A may be absent.
        if metadata.is_none() {
            back.as_object_mut().unwrap().remove("metadata");
        }
        prop_assert_eq!(back, message);
    }
}
