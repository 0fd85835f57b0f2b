//! The JSON of A2A 0.3 over HTTP+JSON: ProtoJSON of the protocol's protobuf definition (package `a2a.v1`).
//!
//! It differs from the JSON-RPC dialect in nearly every name: `content` for a message's `parts`, `ROLE_USER`,
//! `TASK_STATE_CANCELLED`, no `kind`, members that wrap. A peer that writes the JSON-RPC dialect here is understood too.

use serde_json::{Map, Value, json};

use crate::proto_json::{Reader, kind, take};
use a2a::SendRequest;

/// How this dialect is read.
pub(crate) const READER: Reader = Reader {
    part: part_in,
    ends: |_| false,
};

/// The body of `message:send` and `message:stream`. Nothing is written that the definition does not know: servers refuse it.
pub(crate) fn send_body(outgoing: &SendRequest) -> Value {
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

fn part_in(mut part: Map<String, Value>) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;
    use a2a::Part;

    #[test]
    fn a_message_goes_out_in_the_names_of_the_definition() {
        let outgoing = SendRequest {
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
            ..SendRequest::default()
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
        assert_eq!(READER.task(camel), expected);
        assert_eq!(READER.task(snake), expected);
        assert_eq!(READER.task(json!({"task": expected.clone()})), expected);
    }

    #[test]
    fn flags_that_are_absent_are_false() {
        let update = READER.reply(
            json!({"statusUpdate": {"taskId": "t", "contextId": "", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}}),
        );
        assert_eq!(
            update,
            Ok(
                json!({"kind": "status-update", "taskId": "t", "final": false, "status": {"state": "input-required"}})
            )
        );
        assert_eq!(READER.reply(json!({})), Err(json!({})));
        assert_eq!(READER.reply(json!([])), Err(json!([])));
    }
}
