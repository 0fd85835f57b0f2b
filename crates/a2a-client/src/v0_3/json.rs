//! The JSON of A2A 0.3 over JSON-RPC (§6, §7): the model's own shape, with `kind`.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use a2a::{Part, SendRequest};

/// `MessageSendParams` (§7.1.1).
#[derive(Serialize)]
pub(crate) struct SendParams<'a> {
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
}

/// `blocking` is always written: what its absence means differs from server to server.
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
    /// The parameters that say `outgoing`.
    pub(crate) fn of(outgoing: &'a SendRequest) -> Self {
        Self {
            message: Message {
                kind: "message",
                message_id: &outgoing.message_id,
                role: "user",
                parts: &outgoing.parts,
                task_id: outgoing.task_id.as_deref(),
                context_id: outgoing.context_id.as_deref(),
                reference_task_ids: &outgoing.reference_task_ids,
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
