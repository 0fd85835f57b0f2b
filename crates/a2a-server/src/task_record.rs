//! The stored form of a task, and the changes to it.
//!
//! A record results from its changes in order. The server stores a change before clients receive it.

use std::collections::HashMap;

use a2a::v1_0::{Artifact, Message, Part, PartContent, Role, Task, TaskState, TaskStatus};
use base::json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use a2a::Version;

/// A task with the data that only the server uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// The task in the form that clients receive.
    pub task: Task,
    /// The client that owns the task. Only it can see the task.
    pub owner: String,
    /// The agent of the task; `None` for the executor's default agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The executor's session of the task.
    pub session: String,
    /// The version of the request that created the task.
    pub version: Version,
    /// The name of the run in the executor, for reattaching after a restart. [`NOT_STARTED`] if a stopped server left
    /// the task before its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The time of the first message, in milliseconds since 1970.
    pub created_ms: i64,
    /// The time of the last change, in milliseconds since 1970.
    pub changed_ms: i64,
    /// The number of changes since the creation.
    pub revision: u64,
}

/// The name of a run that has not started.
pub const NOT_STARTED: &str = "";

/// A change of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskChange {
    /// A new status.
    Status(TaskStatus),
    /// An artifact, or a chunk of one.
    Artifact {
        /// The artifact or chunk.
        artifact: Artifact,
        /// Whether the chunk is appended to the artifact of the same id.
        append: bool,
        /// Whether this is the last chunk of the artifact.
        last_chunk: bool,
    },
    /// A message of the client or the agent.
    Message(Message),
    /// Metadata to merge. New values replace old values of the same key.
    Metadata(HashMap<String, Value>),
    /// The name of the run in the executor.
    Run(String),
    /// A run that an earlier process left before its start has started, and has no name yet.
    Started,
}

impl TaskRecord {
    /// Applies a change made at `at_ms`. The cost does not grow with the size of the task.
    pub fn apply(&mut self, change: TaskChange, at_ms: i64) {
        self.revision += 1;
        self.changed_ms = at_ms;
        match change {
            TaskChange::Status(status) => self.set_status(status),
            TaskChange::Artifact {
                artifact, append, ..
            } => self.apply_artifact(artifact, append),
            TaskChange::Message(message) => {
                self.task.history.get_or_insert_default().push(message);
            }
            TaskChange::Metadata(more) => {
                self.task.metadata.get_or_insert_default().extend(more);
            }
            TaskChange::Run(run) => self.run = Some(run),
            TaskChange::Started => self.run = None,
        }
    }

    fn set_status(&mut self, status: TaskStatus) {
        let before = std::mem::replace(&mut self.task.status, status);
        // The history keeps the questions of the agent. Without dropping other status messages it would grow without
        // bound.
        if is_interrupted(&before.state)
            && let Some(question) = before.message
        {
            self.task.history.get_or_insert_default().push(question);
        }
    }

    fn apply_artifact(&mut self, artifact: Artifact, append: bool) {
        let all = self.task.artifacts.get_or_insert_default();
        // Search from the end, because chunks mostly extend the newest artifact.
        let known = all
            .iter_mut()
            .rev()
            .find(|known| known.artifact_id == artifact.artifact_id);
        match known {
            Some(known) if append => {
                known.parts.extend(artifact.parts);
                if let Some(more) = artifact.metadata {
                    known.metadata.get_or_insert_default().extend(more);
                }
            }
            Some(known) => *known = artifact,
            None => all.push(artifact),
        }
    }

    /// Returns an excerpt of the client's first message.
    pub fn request_excerpt(&self) -> Option<String> {
        let mut history = self.task.history.iter().flatten();
        history
            .find(|message| message.role == Role::User)
            .map(excerpt)
    }

    /// Returns whether the task is in a terminal state.
    pub fn is_terminal(&self) -> bool {
        self.task.status.state.is_terminal()
    }

    /// Returns whether the task waits for the client.
    pub fn is_interrupted(&self) -> bool {
        is_interrupted(&self.task.status.state)
    }
}

/// Returns whether the state is interrupted: the task waits for its client (A2A 1.0 §4.1.3).
pub fn is_interrupted(state: &TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// The maximum length of an excerpt, in characters.
const EXCERPT_CHARS: usize = 240;

/// Returns an excerpt of the text of a message.
pub fn excerpt(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.content {
        PartContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let mut all = texts.flat_map(|text| text.chars().chain(['\n']));
    let mut short: String = all.by_ref().take(EXCERPT_CHARS).collect();
    short.truncate(short.trim_end().len());
    if all.any(|c| !c.is_whitespace()) {
        short.push('…');
    }
    short
}

/// Estimates the memory that a copy of a task with its last changes takes, in bytes, without encoding it. An executor decides how
/// many parts and artifacts a task has, and how small they are.
pub(crate) fn copied_bytes(task: &Task, changes: &[TaskChange]) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let texts = |all: Option<&Vec<String>>| {
        let bytes = |text: &String| size_of::<String>() + text.len();
        all.into_iter().flatten().map(bytes).sum::<usize>()
    };
    let metadata = |all: Option<&HashMap<String, Value>>| {
        let entries = all.into_iter().flatten();
        entries
            .map(|(key, value)| json::entry_memory(key, value))
            .sum::<usize>()
    };
    let part = |part: &Part| {
        let content = match &part.content {
            PartContent::Text(text) | PartContent::Url(text) => text.len(),
            PartContent::Raw(bytes) => bytes.len(),
            PartContent::Data(data) => json::memory(data),
        };
        let names = text(&part.filename) + text(&part.media_type);
        size_of::<Part>() + content + names + metadata(part.metadata.as_ref())
    };
    let parts = |parts: &[Part]| parts.iter().map(part).sum::<usize>();
    let message = |message: &Message| {
        let ids = message.message_id.len() + text(&message.context_id) + text(&message.task_id);
        let lists = texts(message.extensions.as_ref()) + texts(message.reference_task_ids.as_ref());
        let metadata = metadata(message.metadata.as_ref());
        size_of::<Message>() + ids + lists + parts(&message.parts) + metadata
    };
    let artifact = |artifact: &Artifact| {
        let names = artifact.artifact_id.len() + text(&artifact.name) + text(&artifact.description);
        let metadata = metadata(artifact.metadata.as_ref()) + texts(artifact.extensions.as_ref());
        size_of::<Artifact>() + names + parts(&artifact.parts) + metadata
    };
    let status = |status: &TaskStatus| status.message.as_ref().map_or(0, message);
    let change = |change: &TaskChange| match change {
        TaskChange::Status(changed) => status(changed),
        TaskChange::Artifact { artifact: more, .. } => artifact(more),
        TaskChange::Message(more) => message(more),
        TaskChange::Metadata(more) => metadata(Some(more)),
        TaskChange::Run(_) | TaskChange::Started => 0,
    };
    let history = task.history.iter().flatten().map(message);
    let artifacts = task.artifacts.iter().flatten().map(artifact);
    let fixed = status(&task.status) + metadata(task.metadata.as_ref());
    fixed
        + history.sum::<usize>()
        + artifacts.sum::<usize>()
        + changes.iter().map(change).sum::<usize>()
}

#[cfg(test)]
pub(crate) mod tests;
