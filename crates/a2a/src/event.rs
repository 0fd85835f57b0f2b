//! Replies and events of a peer.

use serde_json::Value;

use super::artifact::{self, Artifact};
use super::json::{self, ShapeError};
use super::task::{self, Message, Task, TaskState};

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
        match kind_of(&value) {
            Kind::Task => Task::read(value).map(Self::Task),
            Kind::Message => Message::read(value).map(Self::Message),
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
    /// An event of an unknown kind, unchanged and without effect.
    Unknown(Value),
}

impl Event {
    /// Parses an event by its `kind`, or by its shape without one.
    ///
    /// # Errors
    /// The first place with the wrong shape.
    pub fn read(value: Value) -> Result<Self, ShapeError> {
        Ok(match kind_of(&value) {
            Kind::Message => Self::Message(Message::read(value)?),
            Kind::Task => Self::Task(Task::read(value)?),
            Kind::Status => Self::Status(StatusUpdate::read(value)?),
            Kind::Artifact => Self::Artifact(ArtifactUpdate::read(value)?),
            Kind::Unknown => {
                json::object(&value)?;
                Self::Unknown(value)
            }
        })
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

enum Kind {
    Message,
    Task,
    Status,
    Artifact,
    Unknown,
}

fn kind_of(value: &Value) -> Kind {
    match json::str_at(value, "kind") {
        Some("message") => Kind::Message,
        Some("task") => Kind::Task,
        Some("status-update") => Kind::Status,
        Some("artifact-update") => Kind::Artifact,
        Some(_) => Kind::Unknown,
        None => {
            let has = |key: &str| value.get(key).is_some();
            match () {
                () if has("artifact") => Kind::Artifact,
                () if has("status") && (has("taskId") || has("final")) => Kind::Status,
                () if has("status") => Kind::Task,
                () if has("parts") => Kind::Message,
                () => Kind::Unknown,
            }
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
}
