//! Messages, parts, artifacts and tasks, as the contract shows them (A2A 0.3 §6).
//!
//! Each wraps the JSON it came as: nothing that a peer said is lost, and nothing is copied to look at it. What the tool
//! relies on is checked once, when the value is read.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::json::{self, Misshape};

/// Where a task stands (A2A 0.3 §6.3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskState {
    /// Accepted, not begun.
    Submitted,
    /// Under way.
    Working,
    /// Waits for an answer from us.
    InputRequired,
    /// Waits for credentials from us.
    AuthRequired,
    /// Done.
    Completed,
    /// Stopped on request.
    Canceled,
    /// Given up.
    Failed,
    /// Refused.
    Rejected,
    /// A word we do not know, `unknown` among them. Neither terminal nor interrupted.
    Other(Box<str>),
}

impl TaskState {
    /// The state that a 0.3 word stands for.
    pub fn from_word(word: &str) -> Self {
        match word {
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

    /// The 0.3 word.
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
            Self::Other(word) => word,
        }
    }

    /// Nothing more will come of the task.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Canceled | Self::Failed | Self::Rejected
        )
    }

    /// Nothing more is to be expected for now: the task is finished, or waits for its caller.
    pub fn is_settled(&self) -> bool {
        self.is_terminal() || self.is_interrupted()
    }

    /// The task waits for its caller.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

/// A part to send: text, a file, or data (A2A 0.3 §6.5).
#[derive(Debug, Clone, PartialEq)]
pub struct Part(Value);

impl Part {
    /// A text part.
    pub fn text(text: String) -> Self {
        Self(json!({ "kind": "text", "text": text }))
    }

    /// A file part; the file is named by `uri` or carried in `bytes` (base64).
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

    /// A data part.
    pub fn data(data: Map<String, Value>) -> Self {
        Self(json!({ "kind": "data", "data": data }))
    }

    /// The same part with metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Option<Map<String, Value>>) -> Self {
        if let (Some(part), Some(metadata)) = (self.0.as_object_mut(), metadata) {
            part.insert("metadata".into(), Value::Object(metadata));
        }
        self
    }

    /// `text`, `file` or `data`.
    pub fn kind(&self) -> &str {
        json::str_at(&self.0, "kind").unwrap_or("text")
    }

    /// What a file part says about its file: `uri`, `bytes`, `name` or `mimeType`.
    pub fn file_field(&self, field: &str) -> Option<&str> {
        self.0
            .get("file")
            .and_then(|file| json::str_at(file, field))
    }

    /// The part as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

/// A message (A2A 0.3 §6.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Message(Value);

impl Message {
    /// Reads a message; its parts must be an array of objects.
    ///
    /// # Errors
    /// The first place that is not as it should be.
    pub fn read(value: Value) -> Result<Self, Misshape> {
        check_message(&value)?;
        Ok(Self(value))
    }

    /// The id its author gave it.
    pub fn message_id(&self) -> Option<&str> {
        json::str_at(&self.0, "messageId")
    }

    /// The task it belongs to.
    pub fn task_id(&self) -> Option<&str> {
        json::str_at(&self.0, "taskId").filter(|id| !id.is_empty())
    }

    /// The conversation it belongs to.
    pub fn context_id(&self) -> Option<&str> {
        json::str_at(&self.0, "contextId").filter(|id| !id.is_empty())
    }

    /// What it says in text, its parts apart by a blank line; `None` where it has no text part.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        joined(texts(json::items_at(&self.0, "parts")), "\n\n")
    }

    /// The message as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// The message as JSON.
    pub fn into_json(self) -> Value {
        self.0
    }
}

/// An artifact (A2A 0.3 §6.7).
#[derive(Debug, Clone, PartialEq)]
pub struct Artifact {
    id: String,
    name: Option<Value>,
    description: Option<Value>,
    metadata: Option<Value>,
    extensions: Option<Value>,
    parts: Vec<Value>,
}

impl Artifact {
    /// Takes an artifact out of JSON that was checked when it was read.
    pub(super) fn of(value: &Value) -> Self {
        let field = |key: &str| value.get(key).filter(|v| !v.is_null()).cloned();
        Self {
            id: json::str_at(value, "artifactId")
                .unwrap_or_default()
                .to_owned(),
            name: field("name"),
            description: field("description"),
            metadata: field("metadata"),
            extensions: field("extensions"),
            parts: json::items_at(value, "parts").to_vec(),
        }
    }

    /// Its id, unique within the task.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its parts, as the peer gave them.
    pub fn parts(&self) -> &[Value] {
        &self.parts
    }

    /// Whether it ends with the parts of `other` from the one at `from` on, as they are or, for text, put together.
    pub fn ends_with(&self, other: &Artifact, from: usize) -> bool {
        let end = other.parts.get(from..).unwrap_or_default();
        if self.parts.ends_with(end) {
            return true;
        }
        let all_text = texts(end).count() == end.len();
        let (Some(text), Some(end)) = (self.text(), joined(texts(end), "")) else {
            return false;
        };
        all_text && text.ends_with(&*end)
    }

    /// The artifact with the parts that `other` has from the one at `from` on, each once, where it ends with each of them
    /// several times over: the official Python server of 0.3 adds a piece once for each of its listeners.
    #[must_use]
    pub fn once_each(mut self, other: &Artifact, from: usize) -> Self {
        let (known, end) = other.parts.split_at(from.min(other.parts.len()));
        if end.is_empty() || !self.parts.starts_with(known) {
            return self;
        }
        let tail = |times: usize| self.parts.len() - times * end.len();
        let repeats = |times: &usize| {
            let mut groups = self.parts[tail(*times)..].chunks(*times).zip(end);
            groups.all(|(group, part)| group.iter().all(|shown| shown == part))
        };
        let most = (self.parts.len() - known.len()) / end.len();
        if let Some(times) = (2..=most).rev().find(repeats) {
            self.parts.truncate(tail(times));
            self.parts.extend_from_slice(end);
        }
        self
    }

    /// Adds another piece at the end (A2A 0.3 §7.2.3, `append`). What the piece says of the whole replaces what was said before.
    pub fn append(&mut self, piece: Artifact) {
        self.parts.extend(piece.parts);
        for (have, new) in [
            (&mut self.name, piece.name),
            (&mut self.description, piece.description),
            (&mut self.metadata, piece.metadata),
            (&mut self.extensions, piece.extensions),
        ] {
            if new.is_some() {
                *have = new;
            }
        }
    }

    /// The artifact as JSON.
    pub fn into_json(self) -> Value {
        let fields = [
            ("artifactId", Some(self.id.into())),
            ("name", self.name),
            ("description", self.description),
            ("parts", Some(self.parts.into())),
            ("metadata", self.metadata),
            ("extensions", self.extensions),
        ];
        let known = fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Value::Object(known.collect())
    }

    /// Its text: the pieces as one, nothing between them.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        joined(texts(&self.parts), "")
    }
}

/// As [`Artifact::into_json`], without taking it apart.
impl Serialize for Artifact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct View<'a> {
            artifact_id: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            description: Option<&'a Value>,
            parts: &'a [Value],
            #[serde(skip_serializing_if = "Option::is_none")]
            metadata: Option<&'a Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            extensions: Option<&'a Value>,
        }
        View {
            artifact_id: &self.id,
            name: self.name.as_ref(),
            description: self.description.as_ref(),
            parts: &self.parts,
            metadata: self.metadata.as_ref(),
            extensions: self.extensions.as_ref(),
        }
        .serialize(serializer)
    }
}

/// A task (A2A 0.3 §6.1).
#[derive(Debug, Clone, PartialEq)]
pub struct Task(Value);

impl Task {
    /// Reads a task: an id, a state, and artifacts with ids and parts where it has any.
    ///
    /// # Errors
    /// The first place that is not as it should be.
    pub fn read(value: Value) -> Result<Self, Misshape> {
        let map = json::object(&value)?;
        if let Some(kind) = json::optional_string(map, "kind")?.filter(|kind| *kind != "task") {
            let found = if kind == "message" {
                "a message"
            } else {
                "something else"
            };
            return Err(Misshape {
                pointer: "/kind".into(),
                expected: "a task",
                found,
            });
        }
        json::name(map, "id")?;
        json::optional_id(map, "contextId")?;
        check_status(map)?;
        json::objects(map, "artifacts")?;
        for (i, artifact) in json::items_at(&value, "artifacts").iter().enumerate() {
            check_artifact(artifact).map_err(|e| e.under(i).under("artifacts"))?;
        }
        Ok(Self(value))
    }

    /// Its id, unique at the peer.
    pub fn id(&self) -> &str {
        json::str_at(&self.0, "id").unwrap_or_default()
    }

    /// The conversation it belongs to.
    pub fn context_id(&self) -> Option<&str> {
        json::str_at(&self.0, "contextId").filter(|id| !id.is_empty())
    }

    /// Where it stands.
    pub fn state(&self) -> TaskState {
        state_of(&self.0)
    }

    /// What the peer says about where it stands: the question of a task that waits for input, the reason of a failure.
    pub fn status_text(&self) -> Option<String> {
        status_text_of(&self.0)
    }

    /// What it has produced so far.
    pub fn artifacts(&self) -> impl Iterator<Item = Artifact> {
        json::items_at(&self.0, "artifacts")
            .iter()
            .map(Artifact::of)
    }

    /// The text of the newest message of the peer in the history.
    pub fn last_agent_text(&self) -> Option<String> {
        json::items_at(&self.0, "history")
            .iter()
            .rev()
            .filter(|message| json::str_at(message, "role") == Some("agent"))
            .find_map(|message| joined(texts(json::items_at(message, "parts")), "\n\n"))
            .map(Cow::into_owned)
    }

    /// The task as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// The task as JSON.
    pub fn into_json(self) -> Value {
        self.0
    }
}

pub(super) fn state_of(value: &Value) -> TaskState {
    TaskState::from_word(
        value
            .pointer("/status/state")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}

pub(super) fn status_text_of(value: &Value) -> Option<String> {
    let message = value.pointer("/status/message")?;
    joined(texts(json::items_at(message, "parts")), "\n\n").map(Cow::into_owned)
}

pub(super) fn check_message(value: &Value) -> Result<(), Misshape> {
    let map = json::object(value)?;
    for key in ["messageId", "taskId", "contextId", "role"] {
        json::optional_id(map, key)?;
    }
    json::parts(map)
}

pub(super) fn check_status(map: &Map<String, Value>) -> Result<(), Misshape> {
    let status = map
        .get("status")
        .ok_or_else(|| Misshape::here("an object", None).under("status"))?;
    let check = || {
        let status = json::object(status)?;
        json::name(status, "state")?;
        match status.get("message") {
            None | Some(Value::Null) => Ok(()),
            Some(message) => check_message(message).map_err(|e| e.under("message")),
        }
    };
    check().map_err(|e: Misshape| e.under("status"))
}

pub(super) fn check_artifact(value: &Value) -> Result<(), Misshape> {
    let map = json::object(value)?;
    json::name(map, "artifactId")?;
    json::parts(map)
}

/// The text parts among `parts`.
fn texts(parts: &[Value]) -> impl Iterator<Item = &str> {
    parts
        .iter()
        .filter(|part| json::str_at(part, "kind").is_none_or(|kind| kind == "text"))
        .filter_map(|part| json::str_at(part, "text"))
}

fn joined<'a>(mut texts: impl Iterator<Item = &'a str>, between: &str) -> Option<Cow<'a, str>> {
    let first = texts.next()?;
    let mut all = Cow::Borrowed(first);
    for text in texts {
        let all = all.to_mut();
        all.push_str(between);
        all.push_str(text);
    }
    Some(all)
}
