//! Reads answers and events into the 0.3 form: the JSON that A2A 0.3 uses over JSON-RPC. A2A 0.3 over HTTP+JSON, and A2A
//! 1.0 over every binding, use ProtoJSON (A2A 1.0 §5.5).
//!
//! One reader serves every version, binding and request, because servers mix them: it recognizes states, roles, kinds and
//! members by their value, in any spelling of either version. It converts responses in place and keeps unknown members. It
//! accepts names in camelCase and snake_case and the numbers of enums, as ProtoJSON does, and treats `null` and empty
//! strings as absent. The dialect decides only what an absent member means. A part becomes text, file or data by the member
//! that holds its content.

pub(crate) mod part;

use std::borrow::Cow;

pub use part::data_url;
use part::read;
use serde_json::{Map, Value, json};

use crate::event::EventKind;
use crate::text::{spell, text_part};
use crate::{Dialect, Event, Reply, ShapeError, Task, TaskState, V03Dialect};

impl Dialect {
    /// Reads the answer to a message.
    ///
    /// # Errors
    /// The first member with another type or value than in the specification.
    pub fn read_reply(self, answer: Value) -> Result<Reply, ShapeError> {
        let answer = Reader(self).reply(answer, None);
        Reply::read(answer.unwrap_or_else(|unknown| unknown))
    }

    /// Reads an event of a stream. Returns `None` if the value is no event of A2A, such as `null`, `{}` or
    /// `{"type": "heartbeat"}`: servers send these to keep a connection open. An object with an unknown `kind` is
    /// [`Event::Unknown`].
    ///
    /// # Errors
    /// The first member with another type or value than in the specification.
    pub fn read_event(self, event: Value) -> Result<Option<Event>, ShapeError> {
        match Reader(self).reply(event, None) {
            Ok(event) => Event::read(event).map(Some),
            Err(unknown) if unknown.get("kind").is_some_and(Value::is_string) => {
                Event::read(unknown).map(Some)
            }
            Err(_) => Ok(None),
        }
    }

    /// Reads a task, bare or wrapped.
    ///
    /// # Errors
    /// The first member with another type or value than in the specification.
    pub fn read_task(self, task: Value) -> Result<Task, ShapeError> {
        let task = Reader(self).reply(task, Some(EventKind::Task));
        Task::read(task.unwrap_or_else(|unknown| unknown))
    }
}

/// Splits an object that wraps several events of a stream, and returns any other value alone. The change of the state comes last:
/// it may end the task.
pub fn split_event(event: Value) -> Vec<Value> {
    let Value::Object(mut members) = event else {
        return vec![event];
    };
    let mut wrappers = WRAPPERS;
    wrappers.sort_by_key(|(_, kind)| *kind == EventKind::StatusUpdate);
    // Some servers write the other members empty, or one event under both of its names.
    let mut events: Vec<(&str, EventKind)> = Vec::new();
    for (key, kind) in wrappers {
        let event = members.get(key).and_then(Value::as_object);
        let is_event = event.is_some_and(|event| !event.is_empty());
        if is_event && events.iter().all(|(_, known)| *known != kind) {
            events.push((key, kind));
        }
    }
    if events.len() < 2 || members.contains_key("kind") || is_bare(&members) {
        return vec![Value::Object(members)];
    }
    let keys = events.into_iter().map(|(key, _)| key);
    keys.filter_map(|key| Some(json!({ key: members.remove(key)? })))
        .collect()
}

/// The reader of a dialect.
#[derive(Clone, Copy)]
struct Reader(Dialect);

/// The members that wrap an answer or an event. `msg` is the field of 0.3's proto.
const WRAPPERS: [(&str, EventKind); 7] = [
    ("task", EventKind::Task),
    ("message", EventKind::Message),
    ("msg", EventKind::Message),
    ("statusUpdate", EventKind::StatusUpdate),
    ("status_update", EventKind::StatusUpdate),
    ("artifactUpdate", EventKind::ArtifactUpdate),
    ("artifact_update", EventKind::ArtifactUpdate),
];

impl Reader {
    /// Converts an answer or event to the 0.3 form. The member that wraps it decides its type, whatever the wrapped `kind`
    /// is. A bare one has the type of its `kind`, else that of its place, `bare`, else that of its fields.
    ///
    /// # Errors
    /// The unchanged value, if its type is unknown.
    fn reply(self, answer: Value, bare: Option<EventKind>) -> Result<Value, Value> {
        let Value::Object(mut answer) = answer else {
            return Err(answer);
        };
        // The frequent form: the wrapper is the only member.
        let only = match answer.iter().next() {
            Some((key, Value::Object(_))) if answer.len() == 1 => {
                WRAPPERS.into_iter().find(|(name, _)| name == key)
            }
            _ => None,
        };
        if let Some((_, kind)) = only {
            let inner = answer.into_iter().next().map(|(_, inner)| inner);
            return Ok(self.of_wrapped().read(kind, inner.unwrap_or_default()));
        }
        unwrap_case(&mut answer, "payload");
        let name = answer.get("kind").and_then(Value::as_str);
        let name = name.filter(|name| !name.trim().is_empty());
        let named = name.map(EventKind::from_name);
        // Some servers name the type beside what they wrap.
        let wrapper = WRAPPERS.into_iter().find(|(key, kind)| {
            named.flatten().is_none_or(|named| named == *kind)
                && answer.get(*key).is_some_and(Value::is_object)
        });
        if let Some((key, kind)) = wrapper.filter(|_| !is_bare(&answer)) {
            let inner = answer.remove(key).unwrap_or_default();
            return Ok(self.of_wrapped().read(kind, inner));
        }
        let kind = match named {
            Some(named) => named,
            None => bare.or_else(|| EventKind::from_fields(&answer)),
        };
        match kind {
            Some(kind) => Ok(self.read(kind, Value::Object(answer))),
            None => Err(Value::Object(answer)),
        }
    }

    fn read(self, kind: EventKind, value: Value) -> Value {
        match kind {
            EventKind::Task => self.task(value),
            EventKind::Message => self.message(value),
            EventKind::StatusUpdate => self.status_update(value),
            EventKind::ArtifactUpdate => self.artifact_update(value),
        }
    }

    /// Returns the reader of a wrapped value. 0.3 wraps none over JSON-RPC, so one that is wrapped has the form of 1.0.
    fn of_wrapped(self) -> Self {
        match self.0 {
            Dialect::V0_3(V03Dialect::Rpc) => Self(Dialect::V1_0),
            _ => self,
        }
    }

    /// Returns whether the form is ProtoJSON, which omits members with the default value.
    fn omits_defaults(self) -> bool {
        self.0 != Dialect::V0_3(V03Dialect::Rpc)
    }

    /// Returns whether a status update of this state is the last event of its stream, if the peer does not mark it. The
    /// streams of 1.0 mark none: they close at a terminal or interrupted state.
    fn ends(self, state: &TaskState) -> bool {
        self.0 == Dialect::V1_0 && state.is_terminal_or_interrupted()
    }

    fn task(self, task: Value) -> Value {
        let Value::Object(mut task) = task else {
            return task;
        };
        read_context_id(&mut task);
        self.status(&mut task);
        map_items(&mut task, "artifacts", |artifact| self.artifact(artifact));
        map_items(&mut task, "history", |message| self.message(message));
        kind(task, "task")
    }

    fn message(self, message: Value) -> Value {
        let mut message = match message {
            Value::Object(message) => message,
            // A text in the place of a message.
            Value::String(text) => Map::from_iter([("content".to_owned(), Value::String(text))]),
            other => return other,
        };
        if !is_canonical(&message) {
            rename(&mut message, "message_id", "messageId");
            rename(&mut message, "reference_task_ids", "referenceTaskIds");
            read_task_id(&mut message);
            read_context_id(&mut message);
        }
        self.parts(&mut message);
        match message.get("role").and_then(role_0_3) {
            Some("") => {
                message.remove("role");
            }
            Some(role) => set_text(&mut message, "role", role),
            None => {}
        }
        kind(message, "message")
    }

    fn status_update(self, update: Value) -> Value {
        let Value::Object(mut update) = update else {
            return update;
        };
        if !is_canonical(&update) {
            read_task_id(&mut update);
            read_context_id(&mut update);
        }
        self.status(&mut update);
        if self.omits_defaults() && !update.get("final").is_some_and(Value::is_boolean) {
            let state = update.get("status").and_then(|status| status.get("state"));
            let state = TaskState::from_name(state.and_then(Value::as_str).unwrap_or_default());
            update.insert("final".into(), Value::Bool(self.ends(&state)));
        }
        kind(update, "status-update")
    }

    fn artifact_update(self, update: Value) -> Value {
        let Value::Object(mut update) = update else {
            return update;
        };
        if !is_canonical(&update) {
            read_task_id(&mut update);
            read_context_id(&mut update);
            rename(&mut update, "last_chunk", "lastChunk");
        }
        if self.omits_defaults() {
            update.entry("lastChunk").or_insert(Value::Bool(false));
        }
        for name in ["append", "lastChunk"] {
            let Some(flag) = update.get_mut(name) else {
                continue;
            };
            // Any other value stays as the peer sent it.
            for (value, text, number) in [(true, "true", "1"), (false, "false", "0")] {
                let is_value = match &*flag {
                    Value::String(flag) => flag.eq_ignore_ascii_case(text) || flag == number,
                    Value::Number(flag) => flag.to_string() == number,
                    _ => false,
                };
                if is_value {
                    *flag = Value::Bool(value);
                }
            }
        }
        if let Some(artifact) = update.get_mut("artifact") {
            *artifact = self.artifact(artifact.take());
        }
        kind(update, "artifact-update")
    }

    fn artifact(self, artifact: Value) -> Value {
        let Value::Object(mut artifact) = artifact else {
            return artifact;
        };
        if !is_canonical(&artifact) {
            rename(&mut artifact, "artifact_id", "artifactId");
            if self.omits_defaults() {
                drop_empty(&mut artifact, "name");
                drop_empty(&mut artifact, "description");
            }
        }
        self.parts(&mut artifact);
        Value::Object(artifact)
    }

    /// Reads the parts of a message or artifact. Their name is `content` in the proto of 0.3, where some servers write a
    /// text.
    fn parts(self, owner: &mut Map<String, Value>) {
        for name in ["content", "text"] {
            if owner.get(name).is_some_and(is_filled)
                && !owner.get("parts").is_some_and(is_filled)
                && let Some(content) = owner.remove(name)
            {
                let parts = match content {
                    Value::String(text) => json!([text_part(text)]),
                    parts => parts,
                };
                owner.insert("parts".into(), parts);
            }
        }
        match owner.get_mut("parts") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    if let Value::Object(map) = part {
                        *part = read(std::mem::take(map), self.0);
                    }
                }
            }
            None | Some(Value::Null) if self.omits_defaults() => {
                owner.insert("parts".into(), Value::Array(Vec::new()));
            }
            _ => {}
        }
    }

    fn status(self, owner: &mut Map<String, Value>) {
        let Some(Value::Object(status)) = owner.get_mut("status") else {
            return;
        };
        let unknown = || self.omits_defaults().then_some(Cow::Borrowed("unknown"));
        let state = match status.get("state") {
            None | Some(Value::Null) => unknown(),
            Some(state) => state_0_3(state),
        };
        if let Some(state) = state.map(Cow::into_owned) {
            set_text(status, "state", &state);
        }
        match status.get_mut("message") {
            Some(message) if !message.is_null() => *message = self.message(message.take()),
            _ => {
                let message = take(status, "message", "update");
                if let Some(message) = message.filter(|message| !message.is_null()) {
                    status.insert("message".into(), self.message(message));
                }
            }
        }
    }
}

/// Returns the 0.3 name of a state: of its name in either version, or of its number in the proto, which is the same in
/// both. Returns `None` if the value can be no state.
fn state_0_3(state: &Value) -> Option<Cow<'_, str>> {
    match state {
        Value::String(name) => Some(match name.trim().parse() {
            Ok(number) => {
                return state_0_3(&Value::Number(number)).map(|name| name.into_owned().into());
            }
            Err(_) => TaskState::canonical_name(name),
        }),
        // Some servers write numbers with a fraction. A number that is none of a state is an unknown name.
        Value::Number(number) => {
            let mut states = STATES.iter().zip(0_u8..);
            let known = states.find(|(_, at)| number.as_f64() == Some(f64::from(*at)));
            Some(known.map_or_else(|| number.to_string().into(), |(name, _)| (*name).into()))
        }
        _ => None,
    }
}

/// The states by their number in the proto (A2A 1.0 §4.1.3).
const STATES: [&str; 9] = [
    "unknown",
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "input-required",
    "rejected",
    "auth-required",
];

/// Returns the 0.3 name of a role; an empty one if the peer names none. Returns `None` if the role is unknown.
fn role_0_3(role: &Value) -> Option<&'static str> {
    let name = match role {
        // The names of both versions need no copy.
        Value::String(name) if matches!(&**name, "agent" | "ROLE_AGENT") => return Some("agent"),
        Value::String(name) => spell(name),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    match name.strip_prefix("role").unwrap_or(&name) {
        "agent" | "assistant" | "2" => Some("agent"),
        "user" | "1" => Some("user"),
        "unspecified" | "" | "0" => Some(""),
        _ => None,
    }
}

/// Sets a text, unless it is there already.
fn set_text(map: &mut Map<String, Value>, key: &str, text: &str) {
    match map.get_mut(key) {
        Some(Value::String(current)) if current == text => {}
        Some(current) => *current = text.into(),
        None => {
            map.insert(key.into(), text.into());
        }
    }
}

/// Replaces the form that a TypeScript type of the proto has, `{"payload": {"$case": "task", "value": …}}`, by that of
/// ProtoJSON.
fn unwrap_case(map: &mut Map<String, Value>, key: &str) {
    let Some(Value::Object(one_of)) = map.get_mut(key) else {
        return;
    };
    if one_of.get("$case").is_some_and(Value::is_string)
        && let Some(value) = one_of.remove("value")
        && let Some(Value::String(case)) = one_of.remove("$case")
    {
        map.remove(key);
        map.insert(case, value);
    }
}

/// Sets `kind`.
fn kind(mut map: Map<String, Value>, name: &str) -> Value {
    set_text(&mut map, "kind", name);
    Value::Object(map)
}

/// Removes and returns a member by either of its names.
fn take(map: &mut Map<String, Value>, camel: &str, snake: &str) -> Option<Value> {
    map.remove(camel).or_else(|| map.remove(snake))
}

/// Renames a member, unless one with the new name exists.
fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.entry(to).or_insert(value);
    }
}

/// Returns whether every member has a name in camelCase and a value that is not an empty string: such an object needs neither
/// [`rename`] nor [`drop_empty`].
fn is_canonical(map: &Map<String, Value>) -> bool {
    map.iter()
        .all(|(key, value)| !key.contains('_') && value != "")
}

/// Removes an empty string, which in ProtoJSON may mean an absent member.
fn drop_empty(map: &mut Map<String, Value>, key: &str) {
    if map.get(key).is_some_and(|value| value == "") {
        map.remove(key);
    }
}

/// Returns whether an answer has a content of its own. A member of it that looks like a wrapper then is an extra.
fn is_bare(answer: &Map<String, Value>) -> bool {
    let is_object = |key| answer.get(key).is_some_and(Value::is_object);
    let is_list = |key| answer.get(key).is_some_and(is_filled);
    ["status", "artifact"].into_iter().any(is_object)
        || ["parts", "content"].into_iter().any(is_list)
}

/// Returns whether a value has parts: a list of them, or a text.
fn is_filled(parts: &Value) -> bool {
    match parts {
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    }
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

#[cfg(test)]
mod tests;
