//! Requests of A2A 0.3: over JSON-RPC (§6, §7) in the model's own shape, with `kind`; over HTTP+JSON as ProtoJSON of the
//! protocol's protobuf definition (package `a2a.v1`).

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::{Part, SendRequest};

/// `MessageSendParams` (§7.1.1).
#[derive(Serialize)]
pub(super) struct SendParams<'a> {
    message: Message<'a>,
    configuration: Configuration<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    kind: &'static str,
    message_id: &'a str,
    role: &'static str,
    #[serde(serialize_with = "parts")]
    parts: &'a [Part],
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    reference_task_ids: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extensions: &'a [String],
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
}

/// Always contains `blocking`, because servers differ in its default.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration<'a> {
    accepted_output_modes: &'a [String],
    blocking: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notification_config: Option<&'a Value>,
}

impl<'a> SendParams<'a> {
    /// Creates the parameters for `outgoing`.
    pub(super) fn new(outgoing: &'a SendRequest) -> Self {
        Self {
            message: Message {
                kind: "message",
                message_id: &outgoing.message_id,
                role: "user",
                parts: &outgoing.parts,
                task_id: outgoing.task_id.as_deref(),
                context_id: outgoing.context_id.as_deref(),
                reference_task_ids: &outgoing.reference_task_ids,
                extensions: &outgoing.extensions,
                metadata: &outgoing.message_metadata,
            },
            configuration: Configuration {
                accepted_output_modes: &outgoing.accepted_output_modes,
                blocking: outgoing.blocking,
                history_length: outgoing.history_length,
                push_notification_config: outgoing.push_notification_config.as_ref(),
            },
            metadata: outgoing.metadata.as_ref(),
        }
    }
}

fn parts<S: Serializer>(parts: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(parts.iter().map(Part::json))
}

/// Returns the body of `message:send` and `message:stream`, without fields that the proto lacks: servers refuse them.
pub(super) fn send_body(outgoing: &SendRequest) -> Value {
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
    if !outgoing.extensions.is_empty() {
        message.insert("extensions".into(), json!(outgoing.extensions));
    }
    if !outgoing.message_metadata.is_empty() {
        message.insert("metadata".into(), json!(outgoing.message_metadata));
    }
    // Always written, because some servers default to false.
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
            for (field_name, key) in [
                ("/file/uri", "fileWithUri"),
                ("/file/bytes", "fileWithBytes"),
                ("/file/mimeType", "mimeType"),
                ("/file/name", "name"),
            ] {
                if let Some(value) = field(field_name) {
                    file.insert(key.into(), value);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_has_the_field_names_of_the_specification() {
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
}
