//! The JSON of A2A 0.3 over HTTP+JSON: ProtoJSON of the protocol's protobuf definition (package `a2a.v1`).
//!
//! It differs from the JSON-RPC dialect in nearly every name: `content` for a message's `parts`, `ROLE_USER`,
//! `TASK_STATE_CANCELLED`, no `kind`, members that wrap. What a peer sends is turned into the model's shape and
//! otherwise left as it is. Names are taken in camelCase and in snake_case, as ProtoJSON demands; a peer that writes the
//! JSON-RPC dialect here is understood too.

use serde_json::{Map, Value, json};

use crate::peer::Outgoing;

/// The body of `message:send` and `message:stream`. Nothing is written that the definition does not know: servers refuse it.
pub(crate) fn send_body(outgoing: &Outgoing) -> Value {
    let mut message = Map::new();
    message.insert("messageId".into(), json!(outgoing.message_id));
    message.insert("role".into(), json!("ROLE_USER"));
    message.insert(
        "content".into(),
        outgoing
            .parts
            .iter()
            .map(|part| part_out(part.json()))
            .collect(),
    );
    for (key, value) in [
        ("taskId", &outgoing.task_id),
        ("contextId", &outgoing.context_id),
    ] {
        if let Some(value) = value {
            message.insert(key.into(), json!(value));
        }
    }
    // Always written: some servers take its absence for false.
    let mut configuration = Map::new();
    configuration.insert("blocking".into(), json!(outgoing.blocking));
    if !outgoing.accepted_output_modes.is_empty() {
        configuration.insert(
            "acceptedOutputModes".into(),
            json!(outgoing.accepted_output_modes),
        );
    }
    if let Some(length) = outgoing.history_length {
        configuration.insert("historyLength".into(), json!(length));
    }
    if let Some(push) = &outgoing.push_notification_config {
        configuration.insert("pushNotification".into(), push.clone());
    }
    let mut body = json!({ "message": message, "configuration": configuration });
    if let (Some(metadata), Some(body)) = (&outgoing.metadata, body.as_object_mut()) {
        body.insert("metadata".into(), json!(metadata));
    }
    body
}

fn part_out(part: &Value) -> Value {
    let field = |key: &str| part.pointer(key).cloned();
    let mut out = Map::new();
    match part.get("kind").and_then(Value::as_str) {
        Some("file") => {
            let mut file = Map::new();
            for (ours, theirs) in [
                ("/file/uri", "fileWithUri"),
                ("/file/bytes", "fileWithBytes"),
                ("/file/mimeType", "mimeType"),
                ("/file/name", "name"),
            ] {
                if let Some(value) = field(ours) {
                    file.insert(theirs.into(), value);
                }
            }
            out.insert("file".into(), Value::Object(file));
        }
        Some("data") => {
            out.insert("data".into(), json!({ "data": field("/data") }));
        }
        _ => {
            out.insert("text".into(), field("/text").unwrap_or_default());
        }
    }
    if let Some(metadata) = field("/metadata") {
        out.insert("metadata".into(), metadata);
    }
    Value::Object(out)
}

/// A `SendMessageResponse` or `StreamResponse`, unwrapped and in the model's shape.
///
/// # Errors
/// The answer as it came, where it holds nothing known.
pub(crate) fn unwrap_in(answer: Value) -> Result<Value, Value> {
    let Value::Object(mut answer) = answer else {
        return Err(answer);
    };
    type Read = fn(Value) -> Value;
    let readers: [(&str, &str, Read); 4] = [
        ("task", "task", task_in),
        ("message", "message", message_in),
        ("statusUpdate", "status_update", status_update_in),
        ("artifactUpdate", "artifact_update", artifact_update_in),
    ];
    for (camel, snake, read) in readers {
        let key = if answer.contains_key(camel) {
            camel
        } else {
            snake
        };
        if answer.get(key).is_some_and(Value::is_object) {
            return Ok(read(answer.remove(key).unwrap_or_default()));
        }
    }
    Err(Value::Object(answer))
}

/// A bare task, or a wrapped one, in the model's shape.
pub(crate) fn task_in(task: Value) -> Value {
    let Value::Object(mut task) = task else {
        return task;
    };
    if let Some(inner) = task.remove("task") {
        return task_in(inner);
    }
    context_in(&mut task);
    status_in(&mut task);
    each(&mut task, "artifacts", artifact_in);
    each(&mut task, "history", message_in);
    kind(task, "task")
}

fn message_in(message: Value) -> Value {
    let Value::Object(mut message) = message else {
        return message;
    };
    rename(&mut message, "message_id", "messageId");
    task_id_in(&mut message);
    context_in(&mut message);
    if let Some(content) = message.remove("content") {
        message.insert("parts".into(), content);
    }
    message
        .entry("parts")
        .or_insert_with(|| Value::Array(Vec::new()));
    each(&mut message, "parts", part_in);
    let role = match message.get("role").and_then(Value::as_str) {
        Some("ROLE_AGENT") => Some("agent"),
        Some("ROLE_USER") => Some("user"),
        _ => None,
    };
    if let Some(role) = role {
        message.insert("role".into(), json!(role));
    }
    kind(message, "message")
}

fn status_update_in(update: Value) -> Value {
    let Value::Object(mut update) = update else {
        return update;
    };
    task_id_in(&mut update);
    context_in(&mut update);
    status_in(&mut update);
    update.entry("final").or_insert(Value::Bool(false));
    kind(update, "status-update")
}

fn artifact_update_in(update: Value) -> Value {
    let Value::Object(mut update) = update else {
        return update;
    };
    task_id_in(&mut update);
    context_in(&mut update);
    rename(&mut update, "last_chunk", "lastChunk");
    update.entry("lastChunk").or_insert(Value::Bool(false));
    if let Some(artifact) = update.remove("artifact") {
        update.insert("artifact".into(), artifact_in(artifact));
    }
    kind(update, "artifact-update")
}

fn artifact_in(artifact: Value) -> Value {
    let Value::Object(mut artifact) = artifact else {
        return artifact;
    };
    rename(&mut artifact, "artifact_id", "artifactId");
    artifact
        .entry("parts")
        .or_insert_with(|| Value::Array(Vec::new()));
    each(&mut artifact, "parts", part_in);
    Value::Object(artifact)
}

fn status_in(owner: &mut Map<String, Value>) {
    let Some(status) = owner.get_mut("status").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(word) = status.get("state").and_then(Value::as_str).map(state_in) {
        status.insert("state".into(), json!(word));
    }
    if let Some(message) = take(status, "message", "update").filter(|message| !message.is_null()) {
        status.insert("message".into(), message_in(message));
    }
}

/// The model's word for a state. A name without the prefix is left alone.
fn state_in(name: &str) -> String {
    match name.strip_prefix("TASK_STATE_") {
        Some("CANCELLED" | "CANCELED") => "canceled".into(),
        Some("UNSPECIFIED") => "unknown".into(),
        Some(rest) => rest.to_ascii_lowercase().replace('_', "-"),
        None => name.to_owned(),
    }
}

fn part_in(part: Value) -> Value {
    let Value::Object(mut part) = part else {
        return part;
    };
    if part.contains_key("kind") {
        return Value::Object(part);
    }
    if part.contains_key("text") {
        return kind(part, "text");
    }
    if let Some(Value::Object(mut file)) = part.remove("file") {
        for (camel, snake, ours) in [
            ("fileWithUri", "file_with_uri", "uri"),
            ("fileWithBytes", "file_with_bytes", "bytes"),
            ("mimeType", "mime_type", "mimeType"),
        ] {
            if let Some(value) =
                take(&mut file, camel, snake).filter(|v| v.as_str() != Some("") || ours == "bytes")
            {
                file.insert(ours.into(), value);
            }
        }
        part.insert("file".into(), Value::Object(file));
        return kind(part, "file");
    }
    if let Some(data) = part.remove("data") {
        let inner = match data {
            Value::Object(mut wrapped) if wrapped.len() == 1 && wrapped.contains_key("data") => {
                wrapped.remove("data").unwrap_or_default()
            }
            other => other,
        };
        part.insert("data".into(), inner);
        return kind(part, "data");
    }
    Value::Object(part)
}

fn kind(mut map: Map<String, Value>, name: &str) -> Value {
    map.entry("kind").or_insert_with(|| json!(name));
    Value::Object(map)
}

fn context_in(map: &mut Map<String, Value>) {
    rename(map, "context_id", "contextId");
    drop_empty(map, "contextId");
}

fn task_id_in(map: &mut Map<String, Value>) {
    rename(map, "task_id", "taskId");
    drop_empty(map, "taskId");
}

/// An empty string is how ProtoJSON may write that nothing is set.
fn drop_empty(map: &mut Map<String, Value>, key: &str) {
    if map.get(key).is_some_and(|value| value == "") {
        map.remove(key);
    }
}

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.entry(to).or_insert(value);
    }
}

fn take(map: &mut Map<String, Value>, camel: &str, snake: &str) -> Option<Value> {
    map.remove(camel).or_else(|| map.remove(snake))
}

fn each(map: &mut Map<String, Value>, key: &str, read: fn(Value) -> Value) {
    if let Some(Value::Array(items)) = map.get_mut(key) {
        for item in items {
            *item = read(item.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Part;

    #[test]
    fn a_message_goes_out_in_the_names_of_the_definition() {
        let outgoing = Outgoing {
            message_id: "m".into(),
            parts: vec![
                Part::text("t".into()),
                Part::file(
                    Some("https://f/x".into()),
                    None,
                    None,
                    Some("image/png".into()),
                ),
                Part::data(Map::from_iter([("a".to_owned(), json!(1))])),
            ],
            reference_task_ids: vec!["other".into()],
            ..Outgoing::default()
        };
        assert_eq!(
            send_body(&outgoing),
            json!({
                "message": {"messageId": "m", "role": "ROLE_USER", "content": [
                    {"text": "t"},
                    {"file": {"fileWithUri": "https://f/x", "mimeType": "image/png"}},
                    {"data": {"data": {"a": 1}}}
                ]},
                "configuration": {"blocking": false}
            })
        );
    }

    #[test]
    fn a_task_comes_in_the_models_shape_in_either_case() {
        let expected = json!({
            "kind": "task", "id": "t", "contextId": "c",
            "status": {"state": "canceled", "message": {"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "why"}]}},
            "artifacts": [{"artifactId": "a", "parts": [{"kind": "file", "file": {"bytes": "aGk=", "mimeType": "x/y"}}, {"kind": "data", "data": {"k": 1}}]}]
        });
        let camel = json!({
            "id": "t", "contextId": "c",
            "status": {"state": "TASK_STATE_CANCELLED", "message": {"messageId": "m", "role": "ROLE_AGENT", "content": [{"text": "why"}]}},
            "artifacts": [{"artifactId": "a", "parts": [{"file": {"fileWithBytes": "aGk=", "mimeType": "x/y"}}, {"data": {"data": {"k": 1}}}]}]
        });
        let snake = json!({
            "id": "t", "context_id": "c",
            "status": {"state": "TASK_STATE_CANCELLED", "update": {"message_id": "m", "role": "ROLE_AGENT", "content": [{"text": "why"}]}},
            "artifacts": [{"artifact_id": "a", "parts": [{"file": {"file_with_bytes": "aGk=", "mime_type": "x/y"}}, {"data": {"data": {"k": 1}}}]}]
        });
        assert_eq!(task_in(camel), expected);
        assert_eq!(task_in(snake), expected);
        assert_eq!(task_in(json!({"task": expected.clone()})), expected);
    }

    #[test]
    fn flags_that_are_absent_are_false() {
        let update = unwrap_in(
            json!({"statusUpdate": {"taskId": "t", "contextId": "", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}}),
        );
        assert_eq!(
            update,
            Ok(
                json!({"kind": "status-update", "taskId": "t", "final": false, "status": {"state": "input-required"}})
            )
        );
        assert_eq!(unwrap_in(json!({})), Err(json!({})));
        assert_eq!(unwrap_in(json!([])), Err(json!([])));
    }
}
