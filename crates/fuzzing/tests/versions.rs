//! A task that A2A 0.3 and A2A 1.0 write differently gives one envelope.
#![allow(clippy::unwrap_used)]

use openclaw_remote_agent_fuzzing::envelope;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A value as A2A 0.3 and as A2A 1.0 write it.
type Both = (Value, Value);

/// The task states as 0.3 writes them. 1.0 writes `TASK_STATE_` and the word in capitals.
const STATES: &[&str] = &[
    "submitted",
    "working",
    "input-required",
    "completed",
    "canceled",
    "failed",
    "rejected",
    "auth-required",
];

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec(("[a-z]{1,6}", inner), 0..4)
                .prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    vec(("[a-z]{1,6}", data()), 1..3)
        .prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into())
}

fn part() -> impl Strategy<Value = Both> {
    prop_oneof![
        "\\PC{0,30}".prop_map(|text| (json!({"kind": "text", "text": text}), json!({"text": text}))),
        object().prop_map(|data| (json!({"kind": "data", "data": data}), json!({"data": data}))),
        ("[a-z]{1,8}\\.txt", "(QUJD){1,5}").prop_map(|(name, bytes)| (
            json!({"kind": "file", "file": {"bytes": bytes, "mimeType": "text/plain", "name": name}}),
            json!({"raw": bytes, "mediaType": "text/plain", "filename": name}),
        )),
        "[a-z]{1,8}".prop_map(|path| {
            let url = format!("https://files.example/{path}");
            (
                json!({"kind": "file", "file": {"uri": url, "mimeType": "image/png"}}),
                json!({"url": url, "mediaType": "image/png"}),
            )
        }),
    ]
}

/// Writes a list of values in both versions.
fn list(values: Vec<Both>) -> Both {
    let (old, new): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    (old.into(), new.into())
}

fn message() -> impl Strategy<Value = Both> {
    (vec(part(), 1..4), "[a-z]{1,8}", any::<bool>()).prop_map(|(parts, id, agent)| {
        let (old, new) = list(parts);
        let (role, role_1_0) = if agent {
            ("agent", "ROLE_AGENT")
        } else {
            ("user", "ROLE_USER")
        };
        (
            json!({"kind": "message", "role": role, "messageId": id, "parts": old}),
            json!({"role": role_1_0, "messageId": id, "parts": new}),
        )
    })
}

fn artifact() -> impl Strategy<Value = Both> {
    (vec(part(), 1..4), "[a-z]{1,8}", option::of("[a-z ]{1,12}")).prop_map(|(parts, id, name)| {
        let (old, new) = list(parts);
        let mut both = (
            json!({"artifactId": id, "parts": old}),
            json!({"artifactId": id, "parts": new}),
        );
        if let Some(name) = name {
            both.0["name"] = json!(name);
            both.1["name"] = json!(name);
        }
        both
    })
}

fn task() -> impl Strategy<Value = Both> {
    let state = proptest::sample::select(STATES);
    let parts = (
        state,
        option::of(message()),
        vec(artifact(), 0..3),
        vec(message(), 0..3),
        option::of(object()),
    );
    parts.prop_map(|(state, message, artifacts, history, metadata)| {
        let state_1_0 = format!("TASK_STATE_{}", state.to_uppercase().replace('-', "_"));
        let (artifacts, artifacts_1_0) = list(artifacts);
        let (history, history_1_0) = list(history);
        let mut old = json!({
            "kind": "task", "id": "task-1", "contextId": "context-1", "status": {"state": state},
            "artifacts": artifacts, "history": history,
        });
        let mut new = json!({
            "id": "task-1", "contextId": "context-1", "status": {"state": state_1_0},
            "artifacts": artifacts_1_0, "history": history_1_0,
        });
        if let Some((message, message_1_0)) = message {
            old["status"]["message"] = message;
            new["status"]["message"] = message_1_0;
        }
        if let Some(metadata) = metadata {
            old["metadata"] = metadata.clone();
            new["metadata"] = metadata;
        }
        (old, new)
    })
}

/// The part of an envelope that does not depend on the version: all but the peer's own words, the name of the version and
/// what is random.
fn without_version(text: &str) -> Value {
    let mut envelope: Value = serde_json::from_str(text).unwrap();
    assert_eq!(envelope["ok"], true, "{text}");
    envelope.as_object_mut().unwrap().remove("raw");
    let summary = envelope["summary"].as_object_mut().unwrap();
    summary.remove("protocol_version");
    summary.remove("task_handle");
    let continuation = summary.get_mut("continuation");
    if let Some(task) = continuation.and_then(|continuation| continuation.get_mut("task")) {
        task.as_object_mut().unwrap().remove("task_handle");
    }
    envelope
}

fn response(result: &Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": "1", "result": result})
        .to_string()
        .into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn task_envelope_is_equal_in_both_versions((old, new) in task()) {
        let old = envelope("0.3", &response(&old));
        let new = envelope("1.0", &response(&json!({"task": new})));
        prop_assert_eq!(without_version(&old), without_version(&new));
    }

    #[test]
    fn message_envelope_is_equal_in_both_versions((old, new) in message()) {
        let old = envelope("0.3", &response(&old));
        let new = envelope("1.0", &response(&json!({"message": new})));
        prop_assert_eq!(without_version(&old), without_version(&new));
    }
}
