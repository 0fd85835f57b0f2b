//! Serializers for servers: they write the types of A2A 1.0 as A2A 0.3 JSON, without copies.
//!
//! A2A 0.3 has two dialects of JSON: over JSON-RPC that of its TypeScript types (`kind`, `parts`, `completed`), over
//! HTTP+JSON that of its proto (`content`, `TASK_STATE_CANCELLED`). Clients of 0.3 parse the latter strictly, so the
//! serializers write no member that the proto lacks. They omit members that 0.3 lacks, such as a text's media type.

use std::collections::HashMap;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use crate::V03Dialect as Dialect;
use crate::v1_0::{
    Artifact, AuthenticationInfo, Message, Part, PartContent, Role, SendMessageResponse,
    StreamResponse, Task, TaskArtifactUpdateEvent, TaskPushNotificationConfig, TaskState,
    TaskStatus, TaskStatusUpdateEvent,
};

/// The metadata key of data that is not an object and is wrapped in `value`, as in the official SDKs.
pub const WRAPPED: &str = "data_part_compat";

/// Serializes a type of 1.0 as 0.3.
#[derive(Debug, Clone, Copy)]
pub struct V03<'a, T: ?Sized> {
    value: &'a T,
    dialect: Dialect,
}

/// Returns a value that serializes as A2A 0.3 in `dialect`. The body of a push notification uses the JSON-RPC dialect.
pub fn as_v0_3<T: ?Sized>(value: &T, dialect: Dialect) -> V03<'_, T>
where
    for<'a> V03<'a, T>: Serialize,
{
    V03 { value, dialect }
}

/// Returns a value that serializes as A2A 0.3 over JSON-RPC.
pub fn rpc<T: ?Sized>(value: &T) -> V03<'_, T>
where
    for<'a> V03<'a, T>: Serialize,
{
    as_v0_3(value, Dialect::Rpc)
}

/// Returns whether the task is terminal, or waits for its client. A stream of 0.3 ends there, and `final` says so.
pub fn is_terminal_or_interrupted(state: &TaskState) -> bool {
    state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

impl<'a, T: ?Sized> V03<'a, T> {
    fn part<U: ?Sized>(&self, value: &'a U) -> V03<'a, U> {
        V03 {
            value,
            dialect: self.dialect,
        }
    }

    /// Writes which type the object has, which only the dialect of JSON-RPC says.
    fn kind<M: SerializeMap>(&self, map: &mut M, kind: &str) -> Result<(), M::Error> {
        match self.dialect {
            Dialect::Rpc => map.serialize_entry("kind", kind),
            Dialect::Rest => Ok(()),
        }
    }
}

/// A list whose items serialize as A2A 0.3.
struct V03Seq<'a, T>(&'a [T], Dialect);

impl<'a, T> Serialize for V03Seq<'a, T>
where
    V03<'a, T>: Serialize,
{
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|value| V03 {
            value,
            dialect: self.1,
        }))
    }
}

impl Serialize for V03<'_, TaskStatusUpdateEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.value;
        let mut map = serializer.serialize_map(None)?;
        self.kind(&mut map, "status-update")?;
        map.serialize_entry("taskId", &event.task_id)?;
        map.serialize_entry("contextId", &event.context_id)?;
        map.serialize_entry("status", &self.part(&event.status))?;
        map.serialize_entry("final", &is_terminal_or_interrupted(&event.status.state))?;
        let metadata = event.metadata.as_ref();
        filled(&mut map, "metadata", metadata, HashMap::is_empty)?;
        map.end()
    }
}

impl Serialize for V03<'_, TaskArtifactUpdateEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.value;
        let mut map = serializer.serialize_map(None)?;
        self.kind(&mut map, "artifact-update")?;
        map.serialize_entry("taskId", &event.task_id)?;
        map.serialize_entry("contextId", &event.context_id)?;
        map.serialize_entry("artifact", &self.part(&event.artifact))?;
        map.serialize_entry("append", &event.append.unwrap_or_default())?;
        map.serialize_entry("lastChunk", &event.last_chunk.unwrap_or_default())?;
        let metadata = event.metadata.as_ref();
        filled(&mut map, "metadata", metadata, HashMap::is_empty)?;
        map.end()
    }
}

/// Serializes a value bare over JSON-RPC, where it has a `kind`, and below its name over HTTP+JSON.
fn named<S: Serializer, T: Serialize>(
    serializer: S,
    dialect: Dialect,
    name: &'static str,
    value: T,
) -> Result<S::Ok, S::Error> {
    match dialect {
        Dialect::Rpc => value.serialize(serializer),
        Dialect::Rest => {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry(name, &value)?;
            map.end()
        }
    }
}

impl Serialize for V03<'_, StreamResponse> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dialect = self.dialect;
        match self.value {
            StreamResponse::Task(task) => named(serializer, dialect, "task", self.part(task)),
            StreamResponse::Message(message) => {
                named(serializer, dialect, "message", self.part(message))
            }
            StreamResponse::StatusUpdate(event) => {
                named(serializer, dialect, "statusUpdate", self.part(event))
            }
            StreamResponse::ArtifactUpdate(event) => {
                named(serializer, dialect, "artifactUpdate", self.part(event))
            }
        }
    }
}

impl Serialize for V03<'_, SendMessageResponse> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            SendMessageResponse::Task(task) => {
                named(serializer, self.dialect, "task", self.part(task))
            }
            SendMessageResponse::Message(message) => {
                named(serializer, self.dialect, "message", self.part(message))
            }
        }
    }
}

impl Serialize for V03<'_, Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = self.value;
        let mut map = serializer.serialize_map(None)?;
        if self.dialect == Dialect::Rpc {
            let kind = match part.content {
                PartContent::Text(_) => "text",
                PartContent::Raw(_) | PartContent::Url(_) => "file",
                PartContent::Data(_) => "data",
            };
            map.serialize_entry("kind", kind)?;
        }
        let mut wrapped = false;
        match &part.content {
            PartContent::Text(text) => map.serialize_entry("text", text)?,
            PartContent::Raw(_) | PartContent::Url(_) => {
                map.serialize_entry("file", &File(part, self.dialect))?;
            }
            PartContent::Data(data) => {
                wrapped = !data.is_object();
                let data = Data { data, wrapped };
                match self.dialect {
                    Dialect::Rpc => map.serialize_entry("data", &data)?,
                    Dialect::Rest => map.serialize_entry("data", &DataMember { data })?,
                }
            }
        }
        let metadata = part
            .metadata
            .as_ref()
            .filter(|metadata| !metadata.is_empty());
        if wrapped || metadata.is_some() {
            map.serialize_entry("metadata", &Metadata(metadata, wrapped))?;
        }
        map.end()
    }
}

struct File<'a>(&'a Part, Dialect);

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(part, dialect) = self;
        let rpc = *dialect == Dialect::Rpc;
        let mut map = serializer.serialize_map(None)?;
        match &part.content {
            PartContent::Raw(bytes) => {
                let name = if rpc { "bytes" } else { "fileWithBytes" };
                map.serialize_entry(name, &Text(Base64Display::new(bytes, &STANDARD)))?;
            }
            PartContent::Url(url) => {
                map.serialize_entry(if rpc { "uri" } else { "fileWithUri" }, url)?;
            }
            PartContent::Text(_) | PartContent::Data(_) => {}
        }
        if let Some(name) = &part.filename {
            map.serialize_entry("name", name)?;
        }
        if let Some(media_type) = &part.media_type {
            map.serialize_entry("mimeType", media_type)?;
        }
        map.end()
    }
}

/// Serializes a displayable value as a string.
struct Text<T>(T);

impl<T: std::fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct DataMember<'a> {
    data: Data<'a>,
}

struct Data<'a> {
    data: &'a Value,
    wrapped: bool,
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.wrapped {
            let mut map = serializer.serialize_map(Some(1))?;
            map.serialize_entry("value", self.data)?;
            map.end()
        } else {
            self.data.serialize(serializer)
        }
    }
}

struct Metadata<'a>(Option<&'a HashMap<String, Value>>, bool);

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.into_iter().flatten() {
            if !(self.1 && name == WRAPPED) {
                map.serialize_entry(name, value)?;
            }
        }
        if self.1 {
            map.serialize_entry(WRAPPED, &true)?;
        }
        map.end()
    }
}

impl Serialize for V03<'_, TaskPushNotificationConfig> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let config = self.value;
        let mut map = serializer.serialize_map(Some(2))?;
        match self.dialect {
            Dialect::Rpc => map.serialize_entry("taskId", &config.task_id)?,
            Dialect::Rest => {
                let id = config.id.as_deref().unwrap_or_default();
                let name = format_args!("tasks/{}/pushNotificationConfigs/{id}", config.task_id);
                map.serialize_entry("name", &name)?;
            }
        }
        map.serialize_entry("pushNotificationConfig", &Inner(config))?;
        map.end()
    }
}

/// Serializes the configurations of a task: a bare list over JSON-RPC.
impl Serialize for V03<'_, [TaskPushNotificationConfig]> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let each = V03Seq(self.value, self.dialect);
        match self.dialect {
            Dialect::Rpc => each.serialize(serializer),
            Dialect::Rest => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("configs", &each)?;
                map.serialize_entry("nextPageToken", "")?;
                map.end()
            }
        }
    }
}

struct Inner<'a>(&'a TaskPushNotificationConfig);

impl Serialize for Inner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "id", self.0.id.as_ref())?;
        map.serialize_entry("url", &self.0.url)?;
        entry(&mut map, "token", self.0.token.as_ref())?;
        let authentication = self.0.authentication.as_ref().map(Authentication);
        entry(&mut map, "authentication", authentication.as_ref())?;
        map.end()
    }
}

struct Authentication<'a>(&'a AuthenticationInfo);

impl Serialize for Authentication<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schemes", &[&self.0.scheme])?;
        entry(&mut map, "credentials", self.0.credentials.as_ref())?;
        map.end()
    }
}

impl Serialize for V03<'_, Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.value;
        let mut map = serializer.serialize_map(None)?;
        let rpc = self.dialect == Dialect::Rpc;
        if rpc {
            map.serialize_entry("kind", "message")?;
        }
        map.serialize_entry("messageId", &message.message_id)?;
        entry(&mut map, "contextId", message.context_id.as_ref())?;
        entry(&mut map, "taskId", message.task_id.as_ref())?;
        let role = match (&message.role, rpc) {
            (Role::User, true) => "user",
            // JSON-RPC has no third role.
            (Role::Agent | Role::Unspecified, true) => "agent",
            (Role::User, false) => "ROLE_USER",
            (Role::Agent, false) => "ROLE_AGENT",
            (Role::Unspecified, false) => "ROLE_UNSPECIFIED",
        };
        map.serialize_entry("role", role)?;
        let parts = if rpc { "parts" } else { "content" };
        map.serialize_entry(parts, &V03Seq(&message.parts, self.dialect))?;
        let metadata = message.metadata.as_ref();
        filled(&mut map, "metadata", metadata, HashMap::is_empty)?;
        let extensions = message.extensions.as_ref();
        filled(&mut map, "extensions", extensions, Vec::is_empty)?;
        if rpc {
            let ids = message.reference_task_ids.as_ref();
            filled(&mut map, "referenceTaskIds", ids, Vec::is_empty)?;
        }
        map.end()
    }
}

impl Serialize for V03<'_, Artifact> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let artifact = self.value;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("artifactId", &artifact.artifact_id)?;
        entry(&mut map, "name", artifact.name.as_ref())?;
        entry(&mut map, "description", artifact.description.as_ref())?;
        map.serialize_entry("parts", &V03Seq(&artifact.parts, self.dialect))?;
        let metadata = artifact.metadata.as_ref();
        filled(&mut map, "metadata", metadata, HashMap::is_empty)?;
        let extensions = artifact.extensions.as_ref();
        filled(&mut map, "extensions", extensions, Vec::is_empty)?;
        map.end()
    }
}

/// Returns the name of a state in 0.3 (0.3 §6.3).
pub fn state_name(state: &TaskState) -> &'static str {
    match state {
        TaskState::Unspecified => "unknown",
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::InputRequired => "input-required",
        TaskState::Rejected => "rejected",
        TaskState::AuthRequired => "auth-required",
    }
}

impl Serialize for V03<'_, TaskState> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match (self.value, self.dialect) {
            (state, Dialect::Rpc) => state_name(state),
            // Two Ls in 0.3's proto.
            (TaskState::Canceled, Dialect::Rest) => "TASK_STATE_CANCELLED",
            (state, Dialect::Rest) => return state.serialize(serializer),
        };
        serializer.serialize_str(name)
    }
}

impl Serialize for V03<'_, TaskStatus> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let status = self.value;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", &self.part(&status.state))?;
        let message = status.message.as_ref().map(|message| self.part(message));
        entry(&mut map, "message", message.as_ref())?;
        entry(&mut map, "timestamp", status.timestamp.as_ref())?;
        map.end()
    }
}

impl Serialize for V03<'_, Task> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let task = self.value;
        let mut map = serializer.serialize_map(None)?;
        self.kind(&mut map, "task")?;
        map.serialize_entry("id", &task.id)?;
        map.serialize_entry("contextId", &task.context_id)?;
        map.serialize_entry("status", &self.part(&task.status))?;
        if let Some(artifacts) = unless_empty(task.artifacts.as_ref(), Vec::is_empty) {
            map.serialize_entry("artifacts", &V03Seq(artifacts, self.dialect))?;
        }
        if let Some(history) = unless_empty(task.history.as_ref(), Vec::is_empty) {
            map.serialize_entry("history", &V03Seq(history, self.dialect))?;
        }
        let metadata = task.metadata.as_ref();
        filled(&mut map, "metadata", metadata, HashMap::is_empty)?;
        map.end()
    }
}

/// Writes a member if it has a value.
pub(super) fn entry<M: SerializeMap, T: Serialize + ?Sized>(
    map: &mut M,
    name: &'static str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, value),
        None => Ok(()),
    }
}

/// Writes a member if it has a value that is not empty.
fn filled<M: SerializeMap, T: Serialize>(
    map: &mut M,
    name: &'static str,
    value: Option<&T>,
    is_empty: impl Fn(&T) -> bool,
) -> Result<(), M::Error> {
    entry(map, name, unless_empty(value, is_empty))
}

/// Returns a value unless it is empty.
pub(super) fn unless_empty<T>(value: Option<&T>, is_empty: impl Fn(&T) -> bool) -> Option<&T> {
    value.filter(|value| !is_empty(value))
}

#[cfg(test)]
mod tests;
