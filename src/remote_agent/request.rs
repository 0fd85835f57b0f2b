//! The request, typed. Read only after it passed the schema.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use a2a::{Part, Transport};
use common::validation;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// Show the targets.
    ListTargets,
    /// Hand over a message.
    Send,
    /// Follow a task.
    Watch,
    /// Ask how a task stands.
    Status,
    /// Ask for a task to be stopped.
    Cancel,
}

impl Action {
    /// The action that `word` asks for.
    pub(super) fn named(word: &str) -> Option<Self> {
        use Action::{Cancel, ListTargets, Send, Status, Watch};
        [ListTargets, Send, Watch, Status, Cancel]
            .into_iter()
            .find(|action| action.as_str() == word)
    }

    /// The word that requests and results use.
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

/// A request (spec: "Unified Tool Contract").
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    /// What to do.
    pub action: Action,
    /// The target's name.
    pub target_alias: Option<String>,
    /// The target's base URL.
    pub target_url: Option<String>,
    /// What to hand over.
    pub parts: Option<Vec<PartRequest>>,
    /// A task of an earlier result.
    pub task_handle: Option<String>,
    /// What an earlier result said about going on.
    pub continuation: Option<Continuation>,
    /// The caller's own id for the message.
    pub message_id: Option<String>,
    /// The task's id at the peer.
    pub task_id: Option<String>,
    /// The conversation.
    pub context_id: Option<String>,
    /// Tasks referred to without continuing them.
    #[serde(default)]
    pub reference_task_ids: Vec<String>,
    /// Whether a task is required.
    #[serde(default)]
    pub task_requirement: TaskRequirement,
    /// Listen while the peer works.
    #[serde(default)]
    pub follow_updates: bool,
    /// Media types the caller can take.
    pub accepted_output_modes: Option<Vec<String>>,
    /// The peer should answer when it is done, not before.
    pub blocking: Option<bool>,
    /// At most so many of the newest messages should come back.
    #[serde(default, deserialize_with = "validation::optional_whole")]
    pub history_length: Option<u64>,
    /// The artifact whose text is asked for.
    pub artifact_id: Option<String>,
    /// Where in its text to begin, in characters.
    #[serde(default, deserialize_with = "validation::optional_whole")]
    pub offset: Option<u64>,
    /// How long the call may take.
    #[serde(default, deserialize_with = "validation::optional_whole")]
    pub timeout_ms: Option<u64>,
    /// Extra HTTP headers.
    #[serde(default)]
    pub service_parameters: BTreeMap<String, String>,
    /// Extra data for the peer.
    pub metadata: Option<Map<String, Value>>,
    /// Where the peer should report progress.
    pub push_notification_config: Option<Value>,
}

impl Request {
    /// It listens to a task for as long as its caller waits. Any other is over with its one answer.
    pub(super) fn follows(&self) -> bool {
        self.action == Action::Watch || (self.action == Action::Send && self.follow_updates)
    }
}

/// Whether a send must become a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskRequirement {
    /// A message will do.
    #[default]
    Optional,
    /// Nothing but a task will do.
    Required,
}

/// What to hand over.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PartRequest {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Extra data about it.
        metadata: Option<Map<String, Value>>,
    },
    /// A file.
    File {
        /// Where it is.
        uri: Option<String>,
        /// The file itself, in base64.
        bytes: Option<String>,
        /// Its name.
        name: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
        /// Extra data about it.
        metadata: Option<Map<String, Value>>,
    },
    /// Data.
    Data {
        /// The data.
        data: Map<String, Value>,
        /// Extra data about it.
        metadata: Option<Map<String, Value>>,
    },
}

impl PartRequest {
    /// The part as peers know it.
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

/// What an earlier result said about going on (spec: "Reading Output Continuations").
#[derive(Debug, Deserialize)]
pub(super) struct Continuation {
    /// The peer.
    pub target: ContinuationTarget,
    /// The task.
    pub task: Option<ContinuationTask>,
    /// The conversation.
    pub conversation: Option<ContinuationConversation>,
}

/// The peer of a continuation.
#[derive(Debug, Deserialize)]
pub(super) struct ContinuationTarget {
    /// Its base URL.
    pub target_url: String,
    /// The path of its card.
    pub card_path: String,
    /// The transports it was reached by.
    pub preferred_transports: Vec<String>,
    /// Its name.
    pub target_alias: Option<String>,
}

impl ContinuationTarget {
    /// The transports, as far as they are known by name.
    pub(super) fn transports(&self) -> Vec<Transport> {
        self.preferred_transports
            .iter()
            .filter_map(|name| name.parse().ok())
            .collect()
    }
}

/// The task of a continuation.
#[derive(Debug, Deserialize)]
pub(super) struct ContinuationTask {
    /// Its handle.
    pub task_handle: Option<String>,
    /// Its id at the peer.
    pub task_id: String,
}

/// The conversation of a continuation.
#[derive(Debug, Deserialize)]
pub(super) struct ContinuationConversation {
    /// Its id.
    pub context_id: String,
}

/// A push configuration as peers know it: the request's names are already theirs but for their case.
pub(super) fn push_config(request: &Value) -> Value {
    let mut config = json!({});
    for key in ["url", "id", "token", "authentication"] {
        if let (Some(value), Some(config)) = (request.get(key), config.as_object_mut()) {
            config.insert(key.to_owned(), value.clone());
        }
    }
    config
}
