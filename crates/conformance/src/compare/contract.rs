//! Reduces answers to what the contract fixes, without wording and empty fields. Compares the places of two validation
//! errors, but not their texts.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Error details that are text for people, or depend on the implementation.
const FREE_TEXT_FIELDS: [&str; 10] = [
    "message",
    "hint",
    "retryHint",
    "errorName",
    "stack",
    "cause",
    "source",
    "suggested_action",
    "suggested_actions",
    "rpcData",
];

/// The terminal states.
const FINISHED: [&str; 4] = ["completed", "failed", "canceled", "rejected"];

/// Returns a result envelope.
pub(crate) fn envelope(answer: &Value) -> Value {
    let Value::Object(fields) = answer else {
        return answer.clone();
    };
    let mut stable = pick(fields, &["ok", "operation", "action"]);
    if let Some(reported) = fields.get("summary").filter(|value| truthy(value)) {
        stable.insert("summary".to_owned(), summary(reported));
    }
    if let Some(reported) = fields.get("error").filter(|value| truthy(value)) {
        stable.insert("error".to_owned(), error(reported));
    }
    // The `raw` of a list of targets repeats its summary.
    let listing = fields.get("action").and_then(Value::as_str) == Some("list_targets");
    if fields.get("ok").is_some_and(truthy)
        && !listing
        && let Some(raw) = fields.get("raw")
    {
        stable.insert("raw".to_owned(), prune(raw));
    }
    Value::Object(stable)
}

/// Returns one update: its event and the continuation; the rest of its summary repeats earlier events.
pub(crate) fn update(reported: &Value) -> Value {
    let Value::Object(fields) = reported else {
        return reported.clone();
    };
    let mut stable = pick(fields, &["ok", "action", "phase"]);
    if let Some(raw) = fields.get("raw") {
        stable.insert("raw".to_owned(), prune(raw));
    }
    let continuation = fields
        .get("summary")
        .map(summary)
        .and_then(|summary| summary.get("continuation").cloned());
    stable.insert(
        "summary".to_owned(),
        match continuation {
            Some(continuation) => json!({ "continuation": continuation }),
            None => json!({}),
        },
    );
    Value::Object(stable)
}

/// Returns a tool definition: the names of its fields, and the values of actions and aliases.
pub(crate) fn definition(reported: &Value) -> Value {
    let parameters = &reported["parameters"];
    let properties = &parameters["properties"];
    let fields: Map<String, Value> = properties
        .as_object()
        .map(|all| {
            all.keys()
                .map(|key| (key.clone(), Value::Bool(true)))
                .collect()
        })
        .unwrap_or_default();
    let mut stable = json!({"name": reported["name"], "parameters": {"fields": fields}});
    let places = [
        ("type", &parameters["type"]),
        ("required", &parameters["required"]),
        ("actions", &properties["action"]["enum"]),
        ("aliases", &properties["target_alias"]["enum"]),
    ];
    for (name, value) in places {
        if !value.is_null() {
            stable["parameters"][name] = value.clone();
        }
    }
    stable
}

fn error(reported: &Value) -> Value {
    let mut stable = Map::new();
    if let Some(code) = reported.get("code") {
        stable.insert("code".to_owned(), code.clone());
    }
    if let Some(Value::Object(details)) = reported.get("details") {
        let mut details: Map<String, Value> = details
            .iter()
            .filter(|(key, _)| !FREE_TEXT_FIELDS.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        // `compare_error_locations` compares the places of errors.
        if let Some(errors) = details.get_mut("errors").filter(|value| truthy(value)) {
            *errors = Value::from("<errors>");
        }
        if let Some(latest) = details
            .get_mut("latest_event_summary")
            .filter(|value| truthy(value))
        {
            *latest = summary(latest);
        }
        if !details.is_empty() {
            stable.insert("details".to_owned(), Value::Object(details));
        }
    }
    Value::Object(stable)
}

fn summary(reported: &Value) -> Value {
    let Value::Object(fields) = reported else {
        return reported.clone();
    };
    let mut stable = fields.clone();
    if stable.get("response_kind").and_then(Value::as_str) == Some("task") {
        stable.remove("message_text");
    }
    if let Some(task) = stable
        .get_mut("continuation")
        .and_then(|value| value.get_mut("task"))
        .and_then(Value::as_object_mut)
    {
        let finished = task
            .get("status")
            .and_then(Value::as_str)
            .is_some_and(|status| FINISHED.contains(&status));
        if finished {
            task.insert("can_watch".to_owned(), Value::Bool(false));
        }
    }
    if let Some(targets) = stable.get_mut("targets").and_then(Value::as_array_mut) {
        for target in targets {
            if let Some(failed) = target
                .get_mut("last_refresh_error")
                .filter(|value| truthy(value))
            {
                *failed = error(failed);
            }
        }
    }
    if let Some(artifacts) = stable.get_mut("artifacts") {
        *artifacts = prune(artifacts);
    }
    Value::Object(stable)
}

/// Removes fields that are null or empty, which are equivalent to absent ones.
fn prune(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(prune).collect(),
        Value::Object(fields) => {
            let stable = fields
                .iter()
                .map(|(key, item)| (key.clone(), prune(item)))
                .filter(|(_, item)| match item {
                    Value::Null => false,
                    Value::Array(items) => !items.is_empty(),
                    Value::Object(fields) => !fields.is_empty(),
                    _ => true,
                });
            Value::Object(stable.collect())
        }
        other => other.clone(),
    }
}

fn pick(fields: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), fields.get(*name)?.clone())))
        .collect()
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// Compares `error.details.errors` of a recording with that of an answer.
///
/// Places inside the request agree if one is within the other, because validators describe different branches. For
/// errors of the request as a whole, the comparison is of missing and additional fields.
///
/// # Errors
/// A missing or an unexpected place.
pub(crate) fn compare_error_locations(recorded: &Value, answer: &Value) -> Result<(), String> {
    const ERRORS_POINTER: &str = "/error/details/errors";
    let Some(Value::Array(recorded)) = recorded.pointer(ERRORS_POINTER) else {
        return Ok(());
    };
    let answers = match answer.pointer(ERRORS_POINTER) {
        Some(Value::Array(answers)) if !answers.is_empty() => answers,
        _ => {
            return Err(format!(
                "{ERRORS_POINTER}: a list of validation errors expected"
            ));
        }
    };
    let (places, blamed) = (places(recorded), places(answers));
    if let Some(place) = places.iter().find(|place| !near(place, &blamed)) {
        return Err(format!("{ERRORS_POINTER}: nothing blames `{place}`"));
    }
    if places.is_empty() {
        let named = subjects(answers);
        if let Some(missing) = subjects(recorded)
            .iter()
            .find(|subject| !named.contains(*subject))
        {
            return Err(format!(
                "{ERRORS_POINTER}: nothing at the root about {missing}"
            ));
        }
    } else if let Some(place) = blamed.iter().find(|place| !near(place, &places)) {
        return Err(format!(
            "{ERRORS_POINTER}: `{place}` is blamed, expected {places:?}"
        ));
    }
    let whole = |error: &Value| {
        ["keyword", "instancePath", "message"]
            .iter()
            .all(|name| error[*name].is_string())
    };
    if answers.iter().all(whole) {
        Ok(())
    } else {
        Err(format!(
            "{ERRORS_POINTER}: each needs `keyword`, `instancePath` and `message`"
        ))
    }
}

/// Returns the places of the errors, without those of the request as a whole.
fn places(errors: &[Value]) -> Vec<&str> {
    errors
        .iter()
        .map(path)
        .filter(|path| !path.is_empty())
        .collect()
}

fn path(error: &Value) -> &str {
    error["instancePath"].as_str().unwrap_or_default()
}

fn near(place: &str, others: &[&str]) -> bool {
    others
        .iter()
        .any(|other| place.starts_with(other) || other.starts_with(place))
}

/// Returns the subjects of errors at the root: a named field, or else the rule.
fn subjects(errors: &[Value]) -> BTreeSet<String> {
    let subject = |error: &Value| {
        let params = &error["params"];
        let named = ["additionalProperty", "property", "missingProperty"]
            .into_iter()
            .map(|name| &params[name])
            .find(|name| !name.is_null());
        named.unwrap_or(&error["keyword"]).to_string()
    };
    errors
        .iter()
        .filter(|error| path(error).is_empty())
        .map(subject)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wording_of_errors_is_ignored() {
        let reported = json!({"ok": false, "action": "send", "error": {"code": "X", "message": "m", "details":
            {"hint": "h", "rpcCode": -1, "errors": [{}], "latest_event_summary": {"response_kind": "task", "message_text": "t"}}}});
        let stable = json!({"ok": false, "action": "send", "error": {"code": "X", "details":
            {"rpcCode": -1, "errors": "<errors>", "latest_event_summary": {"response_kind": "task"}}}});
        assert_eq!(envelope(&reported), stable);
        let reported = json!({"error": {"code": "X", "details": {"hint": "h"}}});
        assert_eq!(envelope(&reported), json!({"error": {"code": "X"}}));
    }

    #[test]
    fn redundant_raw_is_pruned() {
        let raw = json!({"a": null, "b": [], "c": {"d": {}}, "e": [null, 0]});
        for (ok, action, raw, kept) in [
            (true, "send", raw, json!({"e": [null, 0]})),
            (true, "list_targets", json!([1]), Value::Null),
            (false, "send", json!({"a": 1}), Value::Null),
        ] {
            let reported = json!({"ok": ok, "action": action, "raw": raw});
            assert_eq!(envelope(&reported)["raw"], kept, "{action}");
        }
    }

    #[test]
    fn finished_task_cannot_be_watched() {
        let reported = |status: &str| json!({"ok": true, "summary": {"continuation": {"task": {"status": status, "can_watch": true}}}});
        let watch = |status| {
            envelope(&reported(status))["summary"]["continuation"]["task"]["can_watch"].clone()
        };
        assert_eq!(watch("completed"), json!(false));
        assert_eq!(watch("working"), json!(true));
    }

    #[test]
    fn message_keeps_its_text() {
        let reported =
            json!({"ok": true, "summary": {"response_kind": "message", "message_text": "t"}});
        assert_eq!(envelope(&reported)["summary"]["message_text"], "t");
    }

    #[test]
    fn update_is_its_event_and_the_continuation() {
        let reported = json!({"ok": true, "operation": "o", "action": "send", "phase": "update", "raw": {"kind": "task", "x": null},
            "summary": {"message_text": "t", "continuation": {"task": {"task_id": "1"}}}});
        let stable = json!({"ok": true, "action": "send", "phase": "update", "raw": {"kind": "task"},
            "summary": {"continuation": {"task": {"task_id": "1"}}}});
        assert_eq!(update(&reported), stable);
    }

    #[test]
    fn definition_is_its_fields_actions_and_aliases() {
        let reported = json!({"name": "n", "description": "d", "parameters": {"type": "object", "required": ["action"], "properties":
            {"action": {"enum": ["a"], "description": "x"}, "parts": {"type": "array"}}}});
        let stable = json!({"name": "n", "parameters": {"type": "object", "required": ["action"], "actions": ["a"],
            "fields": {"action": true, "parts": true}}});
        assert_eq!(definition(&reported), stable);
    }
}

#[cfg(test)]
mod error_locations_tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn at(path: &str, params: Value) -> Value {
        json!({"keyword": "k", "message": "m", "instancePath": path, "params": params})
    }

    fn envelope(errors: &[Value]) -> Value {
        json!({"error": {"details": {"errors": errors}}})
    }

    #[test]
    fn places_agree_if_each_names_the_same_fault() {
        let place = |path: &str| at(path, json!({}));
        let field = |params: Value| at("", params);
        let no_place = json!({"keyword": "k", "message": "m"});
        for (recorded, answer, problem) in [
            (place("/parts/0/text"), &[place("/parts/0")][..], ""),
            (place("/parts"), &[place("/parts/0/text")], ""),
            (place("/a"), &[place("/b")], "nothing blames `/a`"),
            (place("/a"), &[place("/a"), place("/b")], "`/b` is blamed"),
            (
                field(json!({"property": "task_id", "action": "send"})),
                &[field(json!({"additionalProperty": "task_id"}))],
                "",
            ),
            (
                field(json!({"property": "task_id"})),
                &[field(json!({"property": "other"}))],
                "nothing at the root about",
            ),
            (no_place.clone(), &[no_place], "each needs `keyword`"),
        ] {
            let compared = compare_error_locations(&envelope(&[recorded]), &envelope(answer));
            match problem {
                "" => assert_eq!(compared, Ok(())),
                problem => assert!(compared.unwrap_err().contains(problem), "{answer:?}"),
            }
        }
        let none = json!({"error": {}});
        assert!(compare_error_locations(&envelope(&[place("/a")]), &none).is_err());
        assert_eq!(compare_error_locations(&none, &json!({})), Ok(()));
    }
}
