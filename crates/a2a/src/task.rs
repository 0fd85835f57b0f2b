//! Messages, parts and tasks with the member names of the contract (A2A 0.3 §6).
//!
//! Each type wraps its JSON, so that it keeps every member of the peer, and accessors do not copy. The constructor checks
//! the members that the tool uses.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::artifact::{self, Artifact};
use super::json::{self, ShapeError};
use super::text::{joined, spell, text_part, texts};

/// The state of a task (A2A 0.3 §6.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Accepted, but not started.
    Submitted,
    /// Running.
    Working,
    /// Waiting for an answer of the client.
    InputRequired,
    /// Waiting for credentials of the client.
    AuthRequired,
    /// Completed.
    Completed,
    /// Canceled on request.
    Canceled,
    /// Failed.
    Failed,
    /// Rejected by the agent.
    Rejected,
    /// Any other name, such as `unknown`, in at most 64 characters. Neither terminal nor interrupted.
    Other(Box<str>),
}

impl TaskState {
    /// Parses the name of a state, in any spelling of either version.
    pub fn from_name(name: &str) -> Self {
        match &*Self::canonical_name(name) {
            "submitted" => Self::Submitted,
            "working" => Self::Working,
            "input-required" => Self::InputRequired,
            "auth-required" => Self::AuthRequired,
            "completed" => Self::Completed,
            "canceled" => Self::Canceled,
            "failed" => Self::Failed,
            "rejected" => Self::Rejected,
            other => Self::Other(other.into()),
        }
    }

    /// Returns the 0.3 name of the state `name`, in any spelling of either version: `TASK_STATE_CANCELLED`, `Canceled`,
    /// `inputRequired`, `a2a.TaskState.STATE_WORKING`. A name of neither version keeps its words, up to 64 characters.
    pub(crate) fn canonical_name(name: &str) -> Cow<'_, str> {
        // The frequent names need no copy.
        match name {
            "working" | "completed" | "submitted" | "unknown" => return Cow::Borrowed(name),
            "TASK_STATE_WORKING" => return Cow::Borrowed("working"),
            "TASK_STATE_COMPLETED" => return Cow::Borrowed("completed"),
            _ => {}
        }
        // Some languages write the path of an enum before the name of its value.
        let value = name.trim().rsplit(['.', ':']).next().unwrap_or(name);
        let spelled = spell(value);
        let value = spelled.strip_prefix("task").unwrap_or(&spelled);
        Cow::Borrowed(match value.strip_prefix("state").unwrap_or(value) {
            "submitted" => "submitted",
            "working" => "working",
            "inputrequired" => "input-required",
            "authrequired" => "auth-required",
            "completed" => "completed",
            "canceled" | "cancelled" => "canceled",
            "failed" => "failed",
            "rejected" => "rejected",
            "unknown" | "unspecified" | "" => "unknown",
            _ => return unknown_name(name),
        })
    }

    /// Returns whether the name is none of the protocol, so that the client cannot tell whether the task continues.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Other(name) if &**name != "unknown")
    }

    /// Returns its 0.3 name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::AuthRequired => "auth-required",
            Self::Completed => "completed",
            Self::Canceled => "canceled",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Other(name) => name,
        }
    }

    /// Returns whether the task has ended.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Canceled | Self::Failed | Self::Rejected
        )
    }

    /// Returns whether no more events follow for now: the task has ended, or waits for the client.
    pub fn is_terminal_or_interrupted(&self) -> bool {
        self.is_terminal() || self.is_interrupted()
    }

    /// Returns whether the task waits for its caller.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// The metadata key of a task of `remote-agent serve` for what became of the messages that the task received while it was
/// working: an object with the state of each message id, `queued`, `started` or `dropped`.
pub const MESSAGES_KEY: &str = "openclaw-remote-agent/messages";

/// The metadata key of a message for its position in a chain of delegations: `{"hop", "chain"}`.
pub const DELEGATION_KEY: &str = "openclaw-remote-agent/delegation";

/// The maximum length of the id of a chain of delegations, in bytes.
pub const MAX_CHAIN_BYTES: usize = 128;

/// Returns whether a text is the id of a chain of delegations. Others are not passed on.
pub fn is_chain_id(text: &str) -> bool {
    (1..=MAX_CHAIN_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The maximum length of a state that the protocol does not have, in characters. Peers choose it.
const MAX_UNKNOWN_STATE_CHARS: usize = 64;

/// Returns a name that the protocol does not have, in the spelling of 0.3 and bounded.
fn unknown_name(name: &str) -> Cow<'_, str> {
    let shown = |name: &str| name.chars().take(MAX_UNKNOWN_STATE_CHARS).collect();
    match name.strip_prefix("TASK_STATE_") {
        Some(rest) => Cow::Owned(shown(&rest.to_ascii_lowercase().replace('_', "-"))),
        None if name.len() <= MAX_UNKNOWN_STATE_CHARS => Cow::Borrowed(name),
        None => Cow::Owned(shown(name)),
    }
}

/// A part to send: text, a file, or data (A2A 0.3 §6.5).
#[derive(Debug, Clone, PartialEq)]
pub struct Part(Value);

impl Part {
    /// Creates a text part.
    pub fn text(text: String) -> Self {
        Self(text_part(text))
    }

    /// Creates a file part, with the URL `uri` or the content `bytes` in base64.
    pub fn file(
        uri: Option<String>,
        bytes: Option<String>,
        name: Option<String>,
        mime_type: Option<String>,
    ) -> Self {
        let fields = [
            ("uri", uri),
            ("bytes", bytes),
            ("name", name),
            ("mimeType", mime_type),
        ];
        let file: Map<String, Value> = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), Value::String(value?))))
            .collect();
        Self(json!({ "kind": "file", "file": file }))
    }

    /// Creates a data part.
    pub fn data(data: Map<String, Value>) -> Self {
        Self(json!({ "kind": "data", "data": data }))
    }

    /// Returns the part with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Option<Map<String, Value>>) -> Self {
        if let (Some(part), Some(metadata)) = (self.0.as_object_mut(), metadata) {
            part.insert("metadata".into(), Value::Object(metadata));
        }
        self
    }

    /// Returns `text`, `file` or `data`.
    pub fn kind(&self) -> &str {
        json::str_at(&self.0, "kind").unwrap_or("text")
    }

    /// Returns a field of a file part: `uri`, `bytes`, `name` or `mimeType`.
    pub fn file_field(&self, field: &str) -> Option<&str> {
        self.0
            .get("file")
            .and_then(|file| json::str_at(file, field))
    }

    /// Returns the part as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

/// A message (A2A 0.3 §6.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Message(Value);

impl Message {
    /// Parses a message. Its parts must be an array of objects.
    ///
    /// # Errors
    /// The first place with the wrong shape.
    pub fn read(value: Value) -> Result<Self, ShapeError> {
        check_message(&value)?;
        Ok(Self(value))
    }

    /// Returns its id, which the sender chose.
    pub fn message_id(&self) -> Option<&str> {
        json::str_at(&self.0, "messageId")
    }

    /// Returns its task.
    pub fn task_id(&self) -> Option<&str> {
        json::id_at(&self.0, "taskId")
    }

    /// Returns its conversation.
    pub fn context_id(&self) -> Option<&str> {
        json::id_at(&self.0, "contextId")
    }

    /// Returns the text of its text parts, separated by blank lines; `None` without a text part.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        joined(texts(json::items_at(&self.0, "parts")), "\n\n")
    }

    /// Returns the message as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// Returns the message as JSON.
    pub fn into_json(self) -> Value {
        self.0
    }
}

/// A task (A2A 0.3 §6.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Task(Value);

impl Task {
    /// Parses a task. It must have a state, and its artifacts must have parts.
    ///
    /// # Errors
    /// The first place with the wrong shape.
    pub fn read(value: Value) -> Result<Self, ShapeError> {
        let map = json::object(&value)?;
        if let Some(kind) = json::optional_string(map, "kind")?.filter(|kind| *kind != "task") {
            let found = if kind == "message" {
                "a message"
            } else {
                "something else"
            };
            return Err(ShapeError {
                pointer: "/kind".into(),
                expected: "a task",
                found,
            });
        }
        for key in ["id", "contextId"] {
            json::optional_id(map, key)?;
        }
        check_status(map)?;
        json::objects(map, "artifacts")?;
        for (i, artifact) in json::items_at(&value, "artifacts").iter().enumerate() {
            artifact::check(artifact).map_err(|e| e.under(i).under("artifacts"))?;
        }
        Ok(Self(value))
    }

    /// Returns its id, unique at the peer; `None` if only the request contains it.
    pub fn id(&self) -> Option<&str> {
        json::id_at(&self.0, "id")
    }

    /// Returns its conversation.
    pub fn context_id(&self) -> Option<&str> {
        json::id_at(&self.0, "contextId")
    }

    /// Returns the state.
    pub fn state(&self) -> TaskState {
        state_of(&self.0)
    }

    /// Returns the status text: the question of a task that requires input, or the reason of a failure.
    pub fn status_text(&self) -> Option<String> {
        status_text_of(&self.0)
    }

    /// Returns the artifacts so far. Artifacts without an id are numbered by position.
    pub fn artifacts(&self) -> impl Iterator<Item = Artifact> {
        json::items_at(&self.0, "artifacts")
            .iter()
            .enumerate()
            .map(|(i, artifact)| Artifact::new(artifact).numbered(i))
    }

    /// Returns the text of the newest message of the peer in the history.
    pub fn last_agent_text(&self) -> Option<String> {
        json::items_at(&self.0, "history")
            .iter()
            .rev()
            .filter(|message| json::str_at(message, "role") == Some("agent"))
            .find_map(|message| joined(texts(json::items_at(message, "parts")), "\n\n"))
            .map(Cow::into_owned)
    }

    /// Returns the task as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// Returns the task as JSON.
    pub fn into_json(self) -> Value {
        self.0
    }
}

pub(super) fn state_of(value: &Value) -> TaskState {
    let status = value.get("status");
    let state = status.and_then(|status| json::str_at(status, "state"));
    TaskState::from_name(state.unwrap_or_default())
}

pub(super) fn status_text_of(value: &Value) -> Option<String> {
    let message = value.get("status")?.get("message")?;
    joined(texts(json::items_at(message, "parts")), "\n\n").map(Cow::into_owned)
}

pub(super) fn check_message(value: &Value) -> Result<(), ShapeError> {
    let map = json::object(value)?;
    for key in ["messageId", "taskId", "contextId", "role"] {
        json::optional_id(map, key)?;
    }
    json::parts(map)
}

pub(super) fn check_status(map: &Map<String, Value>) -> Result<(), ShapeError> {
    let status = map
        .get("status")
        .ok_or_else(|| ShapeError::here("an object", None).under("status"))?;
    let check = || {
        let status = json::object(status)?;
        json::name(status, "state")?;
        match status.get("message") {
            None | Some(Value::Null) => Ok(()),
            Some(message) => check_message(message).map_err(|e| e.under("message")),
        }
    };
    check().map_err(|e: ShapeError| e.under("status"))
}
