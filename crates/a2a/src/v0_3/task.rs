use crate::v1_0::{Artifact, Message, Role, Task, TaskState, TaskStatus};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Dialect, V03, V03Seq};

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
        entry(
            &mut map,
            "metadata",
            unless_empty(message.metadata.as_ref(), |all| all.is_empty()),
        )?;
        entry(
            &mut map,
            "extensions",
            unless_empty(message.extensions.as_ref(), Vec::is_empty),
        )?;
        if rpc {
            let ids = unless_empty(message.reference_task_ids.as_ref(), Vec::is_empty);
            entry(&mut map, "referenceTaskIds", ids)?;
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
        entry(
            &mut map,
            "metadata",
            unless_empty(artifact.metadata.as_ref(), |all| all.is_empty()),
        )?;
        entry(
            &mut map,
            "extensions",
            unless_empty(artifact.extensions.as_ref(), Vec::is_empty),
        )?;
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
        if self.dialect == Dialect::Rpc {
            map.serialize_entry("kind", "task")?;
        }
        map.serialize_entry("id", &task.id)?;
        map.serialize_entry("contextId", &task.context_id)?;
        map.serialize_entry("status", &self.part(&task.status))?;
        if let Some(artifacts) = unless_empty(task.artifacts.as_ref(), Vec::is_empty) {
            map.serialize_entry("artifacts", &V03Seq(artifacts, self.dialect))?;
        }
        if let Some(history) = unless_empty(task.history.as_ref(), Vec::is_empty) {
            map.serialize_entry("history", &V03Seq(history, self.dialect))?;
        }
        entry(
            &mut map,
            "metadata",
            unless_empty(task.metadata.as_ref(), |all| all.is_empty()),
        )?;
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

/// Returns a value unless it is empty.
pub(super) fn unless_empty<T>(value: Option<&T>, is_empty: impl Fn(&T) -> bool) -> Option<&T> {
    value.filter(|value| !is_empty(value))
}
