use crate::v1_0::{
    SendMessageResponse, StreamResponse, TaskArtifactUpdateEvent, TaskStatusUpdateEvent,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::task::{entry, unless_empty};
use super::{Dialect, V03, is_terminal_or_interrupted};

impl Serialize for V03<'_, TaskStatusUpdateEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.value;
        let mut map = serializer.serialize_map(None)?;
        if self.dialect == Dialect::Rpc {
            map.serialize_entry("kind", "status-update")?;
        }
        map.serialize_entry("taskId", &event.task_id)?;
        map.serialize_entry("contextId", &event.context_id)?;
        map.serialize_entry("status", &self.part(&event.status))?;
        map.serialize_entry("final", &is_terminal_or_interrupted(&event.status.state))?;
        entry(
            &mut map,
            "metadata",
            unless_empty(event.metadata.as_ref(), |all| all.is_empty()),
        )?;
        map.end()
    }
}

impl Serialize for V03<'_, TaskArtifactUpdateEvent> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.value;
        let mut map = serializer.serialize_map(None)?;
        if self.dialect == Dialect::Rpc {
            map.serialize_entry("kind", "artifact-update")?;
        }
        map.serialize_entry("taskId", &event.task_id)?;
        map.serialize_entry("contextId", &event.context_id)?;
        map.serialize_entry("artifact", &self.part(&event.artifact))?;
        map.serialize_entry("append", &event.append.unwrap_or_default())?;
        map.serialize_entry("lastChunk", &event.last_chunk.unwrap_or_default())?;
        entry(
            &mut map,
            "metadata",
            unless_empty(event.metadata.as_ref(), |all| all.is_empty()),
        )?;
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
