//! The JSON of A2A 0.3 over HTTP+JSON: ProtoJSON of the protocol's protobuf definition (package `a2a.v1`).
//!
//! It differs from the JSON-RPC dialect in nearly every name: `content` for a message's `parts`, `ROLE_USER`,
//! `TASK_STATE_CANCELLED`, no `kind`, members that wrap. The reader accepts the JSON-RPC dialect too.

use serde_json::{Map, Value};

use super::{Reader, kind, take};

/// The reader of this dialect.
pub(super) const READER: Reader = Reader {
    part: read_part,
    ends: |_| false,
};

fn read_part(mut part: Map<String, Value>) -> Value {
    if part.contains_key("kind") {
        return Value::Object(part);
    }
    if part.contains_key("text") {
        return kind(part, "text");
    }
    if let Some(Value::Object(mut file)) = part.remove("file") {
        for (camel, snake, canonical) in [
            ("fileWithUri", "file_with_uri", "uri"),
            ("fileWithBytes", "file_with_bytes", "bytes"),
            ("mimeType", "mime_type", "mimeType"),
        ] {
            if let Some(value) = take(&mut file, camel, snake)
                .filter(|v| v.as_str() != Some("") || canonical == "bytes")
            {
                file.insert(canonical.into(), value);
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
    use serde_json::json;

    #[test]
    fn task_is_read_in_camel_and_snake_case() {
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
