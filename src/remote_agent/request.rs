//! The typed request. It is parsed after it passed the schema.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use a2a::Part;
use base::validation;

use super::continuation::ReceivedContinuation;

/// The action of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// List the targets.
    ListTargets,
    /// Send a message.
    Send,
    /// Follow a task.
    Watch,
    /// Query a task's state.
    Status,
    /// Cancel a task.
    Cancel,
}

impl Action {
    pub(super) fn named(word: &str) -> Option<Self> {
        use Action::{Cancel, ListTargets, Send, Status, Watch};
        [ListTargets, Send, Watch, Status, Cancel]
            .into_iter()
            .find(|action| action.as_str() == word)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ListTargets => "list_targets",
            Self::Send => "send",
            Self::Watch => "watch",
            Self::Status => "status",
            Self::Cancel => "cancel",
        }
    }
}

/// A request (openclaw-a2a-outbound, "Unified Tool Contract").
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub action: Action,
    /// The target's alias.
    pub target_alias: Option<String>,
    /// The target's base URL.
    pub target_url: Option<String>,
    /// The parts of the message.
    pub parts: Option<Vec<PartRequest>>,
    /// The handle of a task.
    pub task_handle: Option<String>,
    /// A continuation from an earlier result.
    pub continuation: Option<ReceivedContinuation>,
    /// The message's id, if the caller sets it.
    pub message_id: Option<String>,
    /// The task's id at the peer.
    pub task_id: Option<String>,
    /// The conversation.
    pub context_id: Option<String>,
    /// Tasks that the message refers to.
    #[serde(default)]
    pub reference_task_ids: Vec<String>,
    /// Whether the answer must be a task.
    #[serde(default)]
    pub task_requirement: TaskRequirement,
    /// Whether to stream updates while the peer works.
    #[serde(default)]
    pub follow_updates: bool,
    /// Whether to wake the calling session when the task ends or asks; `None` means the setting of the target.
    pub notify: Option<bool>,
    /// The media types that the caller accepts.
    pub accepted_output_modes: Option<Vec<String>>,
    /// Whether the peer should answer when it is done.
    pub blocking: Option<bool>,
    /// How many of the newest messages the peer should return at most.
    #[serde(default, deserialize_with = "validation::optional_integer")]
    pub history_length: Option<u64>,
    /// The artifact whose text to return.
    pub artifact_id: Option<String>,
    /// The start in that text, in characters.
    #[serde(default, deserialize_with = "validation::optional_integer")]
    pub offset: Option<u64>,
    /// The timeout of the call.
    #[serde(default, deserialize_with = "validation::optional_integer")]
    pub timeout_ms: Option<u64>,
    /// Extra HTTP headers.
    #[serde(default)]
    pub service_parameters: BTreeMap<String, String>,
    /// Extra data for the peer.
    pub metadata: Option<Map<String, Value>>,
    /// The push notification config for the peer.
    pub push_notification_config: Option<Value>,
}

impl Request {
    /// Returns whether the call follows a task for as long as its caller waits. Any other call ends with one answer.
    pub(super) fn follows(&self) -> bool {
        self.action == Action::Watch || (self.action == Action::Send && self.follow_updates)
    }
}

/// Whether a send must create a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskRequirement {
    /// A message will do.
    #[default]
    Optional,
    Required,
}

/// A part of a message.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PartRequest {
    Text {
        text: String,
        /// Metadata of the part.
        metadata: Option<Map<String, Value>>,
    },
    File {
        /// Its URL.
        uri: Option<String>,
        /// Its content, in base64.
        bytes: Option<String>,
        name: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
        /// Metadata of the part.
        metadata: Option<Map<String, Value>>,
    },
    Data {
        data: Map<String, Value>,
        /// Metadata of the part.
        metadata: Option<Map<String, Value>>,
    },
}

impl PartRequest {
    /// Converts the part to the peer's type.
    pub(super) fn into_part(self) -> Part {
        match self {
            Self::Text { text, metadata } => Part::text(text).with_metadata(metadata),
            Self::File {
                uri,
                bytes,
                name,
                mime_type,
                metadata,
            } => Part::file(uri, bytes, name, mime_type).with_metadata(metadata),
            Self::Data { data, metadata } => Part::data(data).with_metadata(metadata),
        }
    }
}

/// Converts a push notification config to the peer's names, which differ in case only.
pub(super) fn push_config(request: &Value) -> Value {
    let mut config = json!({});
    for key in ["url", "id", "token", "authentication"] {
        if let (Some(value), Some(config)) = (request.get(key), config.as_object_mut()) {
            config.insert(key.to_owned(), value.clone());
        }
    }
    config
}
