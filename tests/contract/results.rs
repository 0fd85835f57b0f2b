//! `schema/result.schema.json` accepts every result and rejects anything else.

use std::collections::{BTreeMap, BTreeSet};

use base::validation;
use openclaw_remote_agent::remote_agent::{Reason, RemoteAgent};
use serde_json::{Value, json};

use crate::contract::{in_process::check_result, json};

#[test]
fn every_reason_fits_the_result_schema() {
    for reason in Reason::ALL {
        let envelope = RemoteAgent::failure(r#"{"action":"send"}"#, *reason, "it failed");
        check_result(&serde_json::from_str(&envelope).unwrap());
    }
}

#[test]
fn closed_sets_match_the_table() {
    let error = &json("schema/result.schema.json")["definitions"]["error"];
    let set = |schema: &Value| -> BTreeSet<String> {
        let schema = schema["enum"].as_array().unwrap();
        schema
            .iter()
            .map(|value| value.as_str().unwrap().to_owned())
            .collect()
    };
    let mut table: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for reason in Reason::ALL {
        let code = reason.code().as_str().to_owned();
        table
            .entry(code)
            .or_default()
            .insert(reason.as_str().to_owned());
    }
    let codes: BTreeSet<String> = table.keys().cloned().collect();
    let reasons: BTreeSet<String> = table.values().flatten().cloned().collect();
    assert_eq!(set(&error["properties"]["code"]), codes);
    assert_eq!(set(&error["properties"]["reason"]), reasons);

    let branches = error["allOf"].as_array().unwrap().iter().map(|branch| {
        let code = &branch["if"]["properties"]["code"]["const"];
        let reasons = set(&branch["then"]["properties"]["reason"]);
        (code.as_str().unwrap().to_owned(), reasons)
    });
    assert_eq!(branches.collect::<BTreeMap<_, _>>(), table);
}

/// Returns a valid envelope of each kind, which tests make invalid.
fn good() -> Vec<Value> {
    let target = json!({"target_url": "https://x.example/", "card_path": "/card", "preferred_transports": ["JSONRPC"]});
    let task = json!({
        "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0", "task_id": "t", "status": "working",
        "can_resume_send": true, "can_send": true, "can_status": true, "can_cancel": true, "can_watch": true,
    });
    let summary = json!({"target_url": "https://x.example/", "continuation": {"target": target, "task": task}});
    let raw = json!({"kind": "task", "id": "t", "status": {"state": "working"}});
    let error = json!({"code": "A2A_SDK_ERROR", "reason": "timeout", "retryable": true, "message": "late", "details": {"hint": "Wait."}});
    let of = |action: &str, raw: &Value| json!({"ok": true, "operation": "remote_agent", "action": action, "summary": summary, "raw": raw});
    let mut update = of("watch", &raw);
    update["phase"] = json!("update");
    vec![
        json!({"ok": true, "operation": "remote_agent", "action": "list_targets", "summary": {"targets": []}, "raw": []}),
        of("send", &raw),
        of("watch", &json!({"events": [raw], "finalEvent": raw})),
        of("status", &raw),
        of("cancel", &raw),
        update,
        json!({"ok": false, "operation": "remote_agent", "action": "send", "error": error}),
    ]
}

#[test]
fn schema_rejects_invalid_results() {
    let schema = validation::compile_value(&json("schema/result.schema.json")).unwrap();
    for envelope in good() {
        check_result(&envelope);
        for pointer in places(&envelope) {
            // Objects of the tool allow no other field. Objects of a peer do.
            if pointer.starts_with("/raw") {
                continue;
            }
            let mut spoilt = envelope.clone();
            spoilt.pointer_mut(&pointer).unwrap()["more"] = json!(1);
            assert!(!schema.is_valid(&spoilt), "`more` at `{pointer}`: {spoilt}");
        }
        for field in envelope.as_object().unwrap().keys() {
            let mut spoilt = envelope.clone();
            spoilt.as_object_mut().unwrap().remove(field);
            // Without its phase, only `raw` distinguishes an update, and the peer controls `raw`.
            let still = field == "phase" && envelope["action"] != "watch";
            assert_eq!(
                schema.is_valid(&spoilt),
                still,
                "without `{field}`: {spoilt}"
            );
        }
    }
}

#[test]
fn error_reason_belongs_to_its_code() {
    let schema = validation::compile_value(&json("schema/result.schema.json")).unwrap();
    let mut envelope = good().pop().unwrap();
    envelope["error"]["code"] = json!("VALIDATION_ERROR");
    assert!(!schema.is_valid(&envelope));
    envelope["error"]["reason"] = json!("invalid_request");
    assert!(schema.is_valid(&envelope));
}

/// Returns a JSON Pointer to each object in a value.
fn places(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if let Value::Object(fields) = value {
        all.push(String::new());
        for (name, field) in fields {
            all.extend(places(field).iter().map(|below| format!("/{name}{below}")));
        }
    }
    all
}
