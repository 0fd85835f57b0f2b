//! Replies and events of a peer.

use serde_json::{Map, Value};

use super::artifact::{self, Artifact};
use super::json::{self, ShapeError};
use super::task::{self, Message, Task, TaskState};
use super::text::spell;

/// The answer to a message: another message, or a task (A2A 0.3 §7.1).
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A message: the interaction is complete.
    Message(Message),
    /// A task.
    Task(Task),
}

impl Reply {
    /// Parses an answer by its `kind`, or by its shape without one: a status makes a task, parts a message.
    ///
    /// # Errors
    /// The first place with the wrong shape.
    pub fn read(value: Value) -> Result<Self, ShapeError> {
        match EventKind::of(&value) {
            Some(EventKind::Task) => Task::read(value).map(Self::Task),
            Some(EventKind::Message) => Message::read(value).map(Self::Message),
            _ => Err(ShapeError::here("a task or a message", Some(&value))),
        }
    }
}

/// One event of a stream (A2A 0.3 §7.2).
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// The task as a whole.
    Task(Task),
    /// The task's state changed.
    Status(StatusUpdate),
    /// An artifact, or a piece of one.
    Artifact(ArtifactUpdate),
    /// An event of an unknown kind, unchanged. It has no effect, but may name its task.
    Unknown(Value),
}

impl Event {
    /// Parses an event by its `kind`, or by its shape without one.
    ///
    /// # Errors
    /// The first place with the wrong shape.
    pub fn read(value: Value) -> Result<Self, ShapeError> {
        Ok(match EventKind::of(&value) {
            Some(EventKind::Message) => Self::Message(Message::read(value)?),
            Some(EventKind::Task) => Self::Task(Task::read(value)?),
            Some(EventKind::StatusUpdate) => Self::Status(StatusUpdate::read(value)?),
            Some(EventKind::ArtifactUpdate) => Self::Artifact(ArtifactUpdate::read(value)?),
            None => {
                json::object(&value)?;
                Self::Unknown(value)
            }
        })
    }

    /// Returns the id of its task; `None` if only its stream names it.
    pub fn task_id(&self) -> Option<&str> {
        match self {
            Self::Message(message) => message.task_id(),
            Self::Task(task) => task.id(),
            Self::Status(update) => update.task_id(),
            Self::Artifact(update) => update.task_id(),
            Self::Unknown(value) => json::unchecked_id(value, "taskId"),
        }
    }

    /// Returns the conversation of its task.
    pub fn context_id(&self) -> Option<&str> {
        match self {
            Self::Message(message) => message.context_id(),
            Self::Task(task) => task.context_id(),
            Self::Status(update) => update.context_id(),
            Self::Artifact(update) => update.context_id(),
            Self::Unknown(value) => json::unchecked_id(value, "contextId"),
        }
    }

    /// Returns the event as JSON.
    pub fn json(&self) -> &Value {
        match self {
            Self::Message(message) => message.json(),
            Self::Task(task) => task.json(),
            Self::Status(update) => &update.0,
            Self::Artifact(update) => &update.0,
            Self::Unknown(value) => value,
        }
    }

    /// Returns the event as JSON.
    pub fn into_json(self) -> Value {
        match self {
            Self::Message(message) => message.into_json(),
            Self::Task(task) => task.into_json(),
            Self::Status(update) => update.0,
            Self::Artifact(update) => update.0,
            Self::Unknown(value) => value,
        }
    }
}

impl From<Reply> for Event {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Message(message) => Self::Message(message),
            Reply::Task(task) => Self::Task(task),
        }
    }
}

/// A change of a task's state (A2A 0.3 §7.2.2).
#[derive(Debug, Clone, PartialEq)]
pub struct StatusUpdate(Value);

impl StatusUpdate {
    fn read(value: Value) -> Result<Self, ShapeError> {
        let map = json::object(&value)?;
        for key in ["taskId", "contextId"] {
            json::optional_id(map, key)?;
        }
        task::check_status(map)?;
        Ok(Self(value))
    }

    /// Returns the id of its task; `None` if only its stream names it.
    pub fn task_id(&self) -> Option<&str> {
        json::id_at(&self.0, "taskId")
    }

    /// Returns the conversation of the task.
    pub fn context_id(&self) -> Option<&str> {
        json::id_at(&self.0, "contextId")
    }

    /// Returns the new state.
    pub fn state(&self) -> TaskState {
        task::state_of(&self.0)
    }

    /// Returns the status text.
    pub fn status_text(&self) -> Option<String> {
        task::status_text_of(&self.0)
    }

    /// Returns whether the peer marks this as the stream's last event. A mark on a state that continues is ignored.
    pub fn is_final(&self) -> bool {
        self.0
            .get("final")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }
}

/// An artifact, or a piece of one (A2A 0.3 §7.2.3).
#[derive(Debug, Clone, PartialEq)]
pub struct ArtifactUpdate(Value);

impl ArtifactUpdate {
    fn read(value: Value) -> Result<Self, ShapeError> {
        let map = json::object(&value)?;
        for key in ["taskId", "contextId"] {
            json::optional_id(map, key)?;
        }
        let artifact = map.get("artifact").unwrap_or(&Value::Null);
        artifact::check(artifact).map_err(|e| e.under("artifact"))?;
        Ok(Self(value))
    }

    /// Returns the id of its task; `None` if only its stream names it.
    pub fn task_id(&self) -> Option<&str> {
        json::id_at(&self.0, "taskId")
    }

    /// Returns the conversation of the task.
    pub fn context_id(&self) -> Option<&str> {
        json::id_at(&self.0, "contextId")
    }

    /// Returns the artifact or piece.
    pub fn artifact(&self) -> Artifact {
        Artifact::new(self.0.get("artifact").unwrap_or(&Value::Null))
    }

    /// Returns whether it continues the artifact of the same id. Otherwise, it replaces that artifact.
    pub fn append(&self) -> bool {
        self.0
            .get("append")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }
}

/// The type of a reply or event.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum EventKind {
    Task,
    Message,
    StatusUpdate,
    ArtifactUpdate,
}

impl EventKind {
    const ALL: [Self; 4] = [
        Self::Task,
        Self::Message,
        Self::StatusUpdate,
        Self::ArtifactUpdate,
    ];

    /// Returns the kind of this name: of a `kind`, of a member that wraps, or of a class.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        // The names of 0.3 need no copy.
        if let Some(kind) = Self::ALL.into_iter().find(|kind| kind.as_str() == name) {
            return Some(kind);
        }
        Some(match spell(name.trim()).as_str() {
            "task" => Self::Task,
            "message" | "msg" => Self::Message,
            "statusupdate" | "taskstatusupdate" | "taskstatusupdateevent" => Self::StatusUpdate,
            "artifactupdate" | "taskartifactupdate" | "taskartifactupdateevent" => {
                Self::ArtifactUpdate
            }
            _ => return None,
        })
    }

    /// Returns its `kind` in 0.3.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Message => "message",
            Self::StatusUpdate => "status-update",
            Self::ArtifactUpdate => "artifact-update",
        }
    }

    /// Returns the kind of a bare object by its fields.
    pub(super) fn from_fields(fields: &Map<String, Value>) -> Option<Self> {
        let has = |key: &str| fields.contains_key(key);
        Some(match () {
            () if has("artifact") => Self::ArtifactUpdate,
            () if has("status") && (has("taskId") || has("task_id") || has("final")) => {
                Self::StatusUpdate
            }
            () if has("status") => Self::Task,
            () if has("parts") || has("content") => Self::Message,
            () => return None,
        })
    }

    /// Returns the kind of a value in the 0.3 form: by its `kind`, or by its fields without one.
    fn of(value: &Value) -> Option<Self> {
        match json::str_at(value, "kind") {
            Some(name) => Self::from_name(name),
            None => Self::from_fields(value.as_object()?),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn place(value: Value) -> String {
        Event::read(value).unwrap_err().pointer
    }

    #[test]
    fn shape_error_has_its_path() {
        assert_eq!(
            place(json!({"kind":"task","id":"t","status":{"state":7}})),
            "/status/state"
        );
        assert_eq!(
            place(
                json!({"kind":"task","id":"t","status":{"state":"working"},"artifacts":[{"artifactId":7}]})
            ),
            "/artifacts/0/artifactId"
        );
        assert_eq!(place(json!({"kind":"message","parts":["x"]})), "/parts/0");
        assert_eq!(
            place(
                json!({"kind":"message","parts":[{"kind":"data","text":7},{"kind":"text","text":7}]})
            ),
            "/parts/1/text"
        );
        assert_eq!(
            place(json!({"kind":"status-update","taskId":"t"})),
            "/status"
        );
        assert_eq!(
            place(json!({"kind":"artifact-update","taskId":"t","artifact":{"parts":{}}})),
            "/artifact/parts"
        );
        assert_eq!(place(json!("text")), "");
    }

    #[test]
    fn missing_kind_follows_from_the_fields() {
        assert!(matches!(
            Reply::read(json!({"id":"t","status":{"state":"working"}})).unwrap(),
            Reply::Task(_)
        ));
        assert!(matches!(
            Reply::read(json!({"parts":[]})).unwrap(),
            Reply::Message(_)
        ));
        assert!(Reply::read(json!(null)).is_err());
    }

    #[test]
    fn status_with_final_flag_is_an_update() {
        for (value, is_update) in [
            (json!({"status":{"state":"working"},"final":false}), true),
            (json!({"status":{"state":"working"},"taskId":"t"}), true),
            (json!({"status":{"state":"working"}}), false),
        ] {
            let event = Event::read(value.clone()).unwrap();
            assert_eq!(matches!(event, Event::Status(_)), is_update, "{value}");
        }
    }

    #[test]
    fn event_of_unknown_kind_is_unchanged() {
        let value = json!({"kind":"weather","sky":"blue"});
        assert_eq!(Event::read(value.clone()).unwrap().json(), &value);
    }

    #[test]
    fn event_of_unknown_kind_names_its_task() {
        for (value, task_id) in [
            (json!({"kind":"weather","taskId":"t"}), Some("t")),
            (json!({"kind":"weather","task_id":"t"}), Some("t")),
            (json!({"kind":"weather","taskId":""}), None),
            (json!({"kind":"weather","taskId":7}), None),
            (json!({"kind":"weather","taskId":"t".repeat(1025)}), None),
            (json!({"kind":"weather"}), None),
        ] {
            let event = Event::read(value).unwrap();
            assert_eq!(event.task_id(), task_id, "{}", event.json());
        }
    }
}
