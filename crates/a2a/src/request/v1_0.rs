//! Serializes requests as A2A 1.0 (§4.1, §9.4, §11.3) without copies.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Part, SendRequest};

/// `SendMessageRequest` (§3.2.1).
#[derive(Serialize)]
pub(super) struct SendParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    message: Message<'a>,
    configuration: Configuration<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    message_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    role: &'static str,
    parts: Parts<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    reference_task_ids: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extensions: &'a [String],
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: &'a Map<String, Value>,
}

/// `SendMessageConfiguration` (§3.2.2). Always contains `returnImmediately`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Configuration<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    accepted_output_modes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    task_push_notification_config: Option<PushConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u64>,
    return_immediately: bool,
}

impl<'a> SendParams<'a> {
    /// Returns the parameters for `outgoing`.
    pub(super) fn new(outgoing: &'a SendRequest, tenant: Option<&'a str>) -> Self {
        Self {
            tenant,
            message: Message {
                message_id: &outgoing.message_id,
                context_id: outgoing.context_id.as_deref(),
                task_id: outgoing.task_id.as_deref(),
                role: "ROLE_USER",
                parts: Parts(&outgoing.parts),
                reference_task_ids: &outgoing.reference_task_ids,
                extensions: &outgoing.extensions,
                metadata: &outgoing.message_metadata,
            },
            configuration: Configuration {
                accepted_output_modes: &outgoing.accepted_output_modes,
                task_push_notification_config: outgoing
                    .push_notification_config
                    .as_ref()
                    .map(PushConfig::new),
                history_length: outgoing.history_length,
                return_immediately: !outgoing.blocking,
            },
            metadata: outgoing.metadata.as_ref(),
        }
    }
}

/// `TaskPushNotificationConfig` (§4.3.1): one scheme where 0.3 has a list, so the first of them.
#[derive(Serialize)]
struct PushConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication<'a>>,
}

#[derive(Serialize)]
struct Authentication<'a> {
    scheme: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<&'a Value>,
}

impl<'a> PushConfig<'a> {
    fn new(config: &'a Value) -> Self {
        let authentication = config.get("authentication").and_then(|authentication| {
            Some(Authentication {
                scheme: authentication.pointer("/schemes/0")?,
                credentials: authentication.get("credentials"),
            })
        });
        Self {
            id: config.get("id"),
            url: config.get("url"),
            token: config.get("token"),
            authentication,
        }
    }
}

struct Parts<'a>(&'a [Part]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(OnePart))
    }
}

/// `Part` (§4.1.6): a member for the content, beside its properties.
struct OnePart<'a>(&'a Part);

impl Serialize for OnePart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = self.0;
        let mut out = serializer.serialize_map(None)?;
        match part.kind() {
            "file" => {
                for (field_name, key) in [
                    ("bytes", "raw"),
                    ("uri", "url"),
                    ("name", "filename"),
                    ("mimeType", "mediaType"),
                ] {
                    if let Some(text) = part.file_field(field_name) {
                        out.serialize_entry(key, text)?;
                    }
                }
            }
            kind => {
                if let Some(content) = part.json().get(kind) {
                    out.serialize_entry(kind, content)?;
                }
            }
        }
        if let Some(metadata) = part.json().get("metadata") {
            out.serialize_entry("metadata", metadata)?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn message_has_the_field_names_of_the_specification() {
        let outgoing = SendRequest {
            message_id: "m".into(),
            parts: vec![
                Part::text("t".into())
                    .with_metadata(Some(Map::from_iter([("k".to_owned(), json!(1))]))),
                Part::file(
                    Some("https://f/x".into()),
                    None,
                    None,
                    Some("image/png".into()),
                ),
                Part::file(None, Some("aGk=".into()), Some("x.png".into()), None),
                Part::data(Map::from_iter([("a".to_owned(), json!(1))])),
            ],
            task_id: Some("t-1".into()),
            context_id: Some("c-1".into()),
            reference_task_ids: vec!["other".into()],
            accepted_output_modes: vec!["text/plain".into()],
            blocking: true,
            followed: false,
            extensions: vec!["https://x/ext".into()],
            message_metadata: Map::from_iter([("m".to_owned(), json!(2))]),
            history_length: Some(0),
            push_notification_config: Some(json!({
                "url": "https://me/hook", "token": "tok", "id": "p",
                "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "cred"}
            })),
            metadata: Some(Map::from_iter([("trace".to_owned(), json!("x"))])),
        };
        assert_eq!(
            json!(SendParams::new(&outgoing, Some("acme"))),
            json!({
                "tenant": "acme",
                "message": {
                    "messageId": "m", "contextId": "c-1", "taskId": "t-1", "role": "ROLE_USER", "referenceTaskIds": ["other"],
                    "extensions": ["https://x/ext"], "metadata": {"m": 2},
                    "parts": [
                        {"text": "t", "metadata": {"k": 1}},
                        {"url": "https://f/x", "mediaType": "image/png"},
                        {"raw": "aGk=", "filename": "x.png"},
                        {"data": {"a": 1}}
                    ]
                },
                "configuration": {
                    "acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": false,
                    "taskPushNotificationConfig": {
                        "id": "p", "url": "https://me/hook", "token": "tok",
                        "authentication": {"scheme": "Bearer", "credentials": "cred"}
                    }
                },
                "metadata": {"trace": "x"}
            })
        );
    }

    #[test]
    fn absent_fields_are_not_written() {
        let outgoing = SendRequest {
            message_id: "m".into(),
            ..SendRequest::default()
        };
        assert_eq!(
            json!(SendParams::new(&outgoing, None)),
            json!({
                "message": {"messageId": "m", "role": "ROLE_USER", "parts": []},
                "configuration": {"returnImmediately": true}
            })
        );
    }
}
