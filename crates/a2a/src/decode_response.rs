//! Reads answers and events into the 0.3 form: the JSON that A2A 0.3 uses over JSON-RPC. A2A 0.3 over HTTP+JSON, and A2A
//! 1.0 over every binding, use ProtoJSON (A2A 1.0 §5.5).
//!
//! Converts responses of peers in place, and keeps unknown members and states. Accepts names in camelCase and snake_case, and
//! treats `null` and empty strings as absent.

mod v0_3;
mod v1_0;

use serde_json::{Map, Value, json};

use crate::{Dialect, Event, Reply, ShapeError, Task, TaskState, V03Dialect};

impl Dialect {
    /// Returns the reader of this dialect; `None` if it already is the 0.3 form.
    fn reader(self) -> Option<&'static Reader> {
        match self {
            Self::V0_3(V03Dialect::Rpc) => None,
            Self::V0_3(V03Dialect::Rest) => Some(&v0_3::READER),
            Self::V1_0 => Some(&v1_0::READER),
        }
    }

    /// Converts an answer or an event to the 0.3 form. A value without a known member stays unchanged.
    fn to_v0_3(self, answer: Value) -> Value {
        match self.reader() {
            Some(reader) => reader.reply(answer).unwrap_or_else(|unknown| unknown),
            None => answer,
        }
    }

    /// Reads the answer to a message.
    ///
    /// # Errors
    /// The first member with another type or value than in the specification.
    pub fn read_reply(self, answer: Value) -> Result<Reply, ShapeError> {
        Reply::read(self.to_v0_3(answer))
    }

    /// Reads an event of a stream.
    ///
    /// # Errors
    /// The first member with another type or value than in the specification.
    pub fn read_event(self, event: Value) -> Result<Event, ShapeError> {
        Event::read(self.to_v0_3(event))
    }

    /// Reads a task, bare or wrapped.
    ///
    /// # Errors
    /// The first member with another type or value than in the specification.
    pub fn read_task(self, task: Value) -> Result<Task, ShapeError> {
        Task::read(match self.reader() {
            Some(reader) => reader.task(task),
            None => task,
        })
    }
}

/// The differences between the dialects.
pub(super) struct Reader {
    /// Converts a part to the 0.3 form.
    pub(super) part: fn(Map<String, Value>) -> Value,
    /// Whether a status update of this state is the last event of its stream, if the peer does not mark it.
    pub(super) ends: fn(&TaskState) -> bool,
}

/// The type of a member.
enum MemberType {
    Task,
    Message,
    StatusUpdate,
    ArtifactUpdate,
}

/// The members that wrap an answer or an event.
const WRAPPERS: [(&str, &str, MemberType); 4] = [
    ("task", "task", MemberType::Task),
    ("message", "message", MemberType::Message),
    ("statusUpdate", "status_update", MemberType::StatusUpdate),
    (
        "artifactUpdate",
        "artifact_update",
        MemberType::ArtifactUpdate,
    ),
];

impl Reader {
    /// Converts the member of a `SendMessageResponse` or `StreamResponse` to the 0.3 form.
    ///
    /// # Errors
    /// The unchanged answer, if it has no known member.
    fn unwrap_member(&self, answer: Value) -> Result<Value, Value> {
        let Value::Object(mut answer) = answer else {
            return Err(answer);
        };
        for (camel, snake, member_type) in WRAPPERS {
            let key = if answer.contains_key(camel) {
                camel
            } else {
                snake
            };
            if answer.get(key).is_some_and(Value::is_object) {
                let inner = answer.remove(key).unwrap_or_default();
                return Ok(match member_type {
                    MemberType::Task => self.task(inner),
                    MemberType::Message => self.message(inner),
                    MemberType::StatusUpdate => self.status_update(inner),
                    MemberType::ArtifactUpdate => self.artifact_update(inner),
                });
            }
        }
        Err(Value::Object(answer))
    }

    /// Converts an answer to the 0.3 form. Without a wrapper, its fields decide its type.
    ///
    /// # Errors
    /// The unchanged answer, if its type is unknown.
    pub(super) fn reply(&self, answer: Value) -> Result<Value, Value> {
        self.unwrap_member(answer).or_else(|bare| {
            let has = |key: &str| bare.get(key).is_some();
            match () {
                () if has("artifact") => Ok(self.artifact_update(bare)),
                () if has("status") && (has("taskId") || has("task_id") || has("final")) => {
                    Ok(self.status_update(bare))
                }
                () if has("status") => Ok(self.task(bare)),
                () if has("parts") || has("content") => Ok(self.message(bare)),
                () => Err(bare),
            }
        })
    }

    /// Converts a bare or wrapped task to the 0.3 form.
    pub(super) fn task(&self, task: Value) -> Value {
        let Value::Object(mut task) = task else {
            return task;
        };
        if task.get("task").is_some_and(Value::is_object) {
            return self.task(task.remove("task").unwrap_or_default());
        }
        read_context_id(&mut task);
        self.status(&mut task);
        map_items(&mut task, "artifacts", |artifact| self.artifact(artifact));
        map_items(&mut task, "history", |message| self.message(message));
        kind(task, "task")
    }

    fn message(&self, message: Value) -> Value {
        let Value::Object(mut message) = message else {
            return message;
        };
        rename(&mut message, "message_id", "messageId");
        rename(&mut message, "reference_task_ids", "referenceTaskIds");
        read_task_id(&mut message);
        read_context_id(&mut message);
        // The name of the parts in the proto of 0.3.
        if let Some(Value::Array(_)) = message.get("content")
            && !message.get("parts").is_some_and(is_filled)
            && let Some(content) = message.remove("content")
        {
            message.insert("parts".into(), content);
        }
        self.parts(&mut message);
        let role = match message.get("role").and_then(Value::as_str) {
            Some("ROLE_AGENT") => Some("agent"),
            Some("ROLE_USER") => Some("user"),
            Some("ROLE_UNSPECIFIED" | "") => {
                message.remove("role");
                None
            }
            _ => None,
        };
        if let Some(role) = role {
            message.insert("role".into(), json!(role));
        }
        kind(message, "message")
    }

    fn status_update(&self, update: Value) -> Value {
        let Value::Object(mut update) = update else {
            return update;
        };
        read_task_id(&mut update);
        read_context_id(&mut update);
        self.status(&mut update);
        if !update.get("final").is_some_and(Value::is_boolean) {
            let state = update.get("status").and_then(|status| status.get("state"));
            let state = TaskState::from_name(state.and_then(Value::as_str).unwrap_or_default());
            update.insert("final".into(), Value::Bool((self.ends)(&state)));
        }
        kind(update, "status-update")
    }

    fn artifact_update(&self, update: Value) -> Value {
        let Value::Object(mut update) = update else {
            return update;
        };
        read_task_id(&mut update);
        read_context_id(&mut update);
        rename(&mut update, "last_chunk", "lastChunk");
        update.entry("lastChunk").or_insert(Value::Bool(false));
        if let Some(artifact) = update.get_mut("artifact") {
            *artifact = self.artifact(artifact.take());
        }
        kind(update, "artifact-update")
    }

    fn artifact(&self, artifact: Value) -> Value {
        let Value::Object(mut artifact) = artifact else {
            return artifact;
        };
        rename(&mut artifact, "artifact_id", "artifactId");
        drop_empty(&mut artifact, "name");
        drop_empty(&mut artifact, "description");
        self.parts(&mut artifact);
        Value::Object(artifact)
    }

    fn parts(&self, owner: &mut Map<String, Value>) {
        match owner.get_mut("parts") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    if let Value::Object(map) = part {
                        *part = (self.part)(std::mem::take(map));
                    }
                }
            }
            None | Some(Value::Null) => {
                owner.insert("parts".into(), Value::Array(Vec::new()));
            }
            Some(_) => {}
        }
    }

    fn status(&self, owner: &mut Map<String, Value>) {
        let Some(status) = owner.get_mut("status").and_then(Value::as_object_mut) else {
            return;
        };
        let state = match status.get("state") {
            None | Some(Value::Null) => Some("unknown".to_owned()),
            Some(Value::String(name)) => Some(state_0_3(name)),
            Some(_) => None,
        };
        if let Some(state) = state {
            status.insert("state".into(), Value::String(state));
        }
        if let Some(message) =
            take(status, "message", "update").filter(|message| !message.is_null())
        {
            status.insert("message".into(), self.message(message));
        }
    }
}

/// Returns the 0.3 name of a state. A name without the prefix stays unchanged.
fn state_0_3(name: &str) -> String {
    match name.strip_prefix("TASK_STATE_") {
        Some("CANCELLED" | "CANCELED") => "canceled".into(),
        Some("UNSPECIFIED") => "unknown".into(),
        Some(rest) => rest.to_ascii_lowercase().replace('_', "-"),
        None if name.is_empty() => "unknown".into(),
        None => name.to_owned(),
    }
}

/// Sets `kind` unless the object has one.
pub(super) fn kind(mut map: Map<String, Value>, name: &str) -> Value {
    map.entry("kind").or_insert_with(|| json!(name));
    Value::Object(map)
}

/// Removes and returns a member by either of its names.
pub(super) fn take(map: &mut Map<String, Value>, camel: &str, snake: &str) -> Option<Value> {
    map.remove(camel).or_else(|| map.remove(snake))
}

/// Renames a member, unless one with the new name exists.
pub(super) fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.entry(to).or_insert(value);
    }
}

/// Removes an empty string, which in ProtoJSON may mean an absent member.
pub(super) fn drop_empty(map: &mut Map<String, Value>, key: &str) {
    if map.get(key).is_some_and(|value| value == "") {
        map.remove(key);
    }
}

fn is_filled(list: &Value) -> bool {
    list.as_array().is_some_and(|items| !items.is_empty())
}

fn read_context_id(map: &mut Map<String, Value>) {
    rename(map, "context_id", "contextId");
    drop_empty(map, "contextId");
}

fn read_task_id(map: &mut Map<String, Value>) {
    rename(map, "task_id", "taskId");
    drop_empty(map, "taskId");
}

fn map_items(map: &mut Map<String, Value>, key: &str, read: impl Fn(Value) -> Value) {
    if let Some(Value::Array(items)) = map.get_mut(key) {
        for item in items {
            *item = read(item.take());
        }
    }
}
