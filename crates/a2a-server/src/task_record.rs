//! A task as it is kept, and what can happen to it.
//!
//! A record is what its changes made of it: whoever has the changes in order has the record. A change is kept before
//! anybody is told of it.

use std::collections::HashMap;

use a2a::v1_0::{Artifact, Message, PartContent, Role, Task, TaskState, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call_context::Version;

/// A task with what the server knows of it and shows nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// The task.
    pub task: Task,
    /// The client it belongs to. Nobody else sees it.
    pub owner: String,
    /// The agent that works on it; the executor's default where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The session of OpenClaw it is worked on in.
    pub session: String,
    /// The version that it was asked for in.
    pub version: Version,
    /// What the executor calls the run, so that it can be found again after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// When the message came, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// How many changes there have been.
    pub revision: u64,
}

/// What happens to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskChange {
    /// It stands elsewhere now.
    Status(TaskStatus),
    /// An artifact, or more of one.
    Artifact {
        /// The artifact, or what is added to it.
        artifact: Artifact,
        /// It is added to the artifact of that id.
        append: bool,
        /// Nothing more will be added to it.
        last_chunk: bool,
    },
    /// A message, of the client or the agent.
    Message(Message),
    /// More metadata; a key that was there is written over.
    Metadata(HashMap<String, Value>),
    /// The executor began a run of this name.
    Run(String),
}

impl TaskRecord {
    /// Applies a change that happened at `at_ms`. Its work does not grow with the task.
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
        }
    }

    fn set_status(&mut self, status: TaskStatus) {
        let before = std::mem::replace(&mut self.task.status, status);
        // A question stays readable beside its answer. What is only said on the way does not, or a task that talks much
        // would grow without end.
        if is_interrupted(&before.state)
            && let Some(question) = before.message
        {
            self.task.history.get_or_insert_default().push(question);
        }
    }

    fn apply_artifact(&mut self, artifact: Artifact, append: bool) {
        let all = self.task.artifacts.get_or_insert_default();
        // What is being added to is nearly always the newest.
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

    /// The beginning of what the client asked first.
    pub fn asked(&self) -> Option<String> {
        let mut history = self.task.history.iter().flatten();
        history
            .find(|message| message.role == Role::User)
            .map(excerpt)
    }

    /// Whether nothing more will come of it.
    pub fn is_terminal(&self) -> bool {
        self.task.status.state.is_terminal()
    }

    /// Whether it waits for the client, and nobody works on it until then.
    pub fn is_interrupted(&self) -> bool {
        is_interrupted(&self.task.status.state)
    }
}

/// Whether a task in this state waits for its client (1.0 §4.1.3).
pub fn is_interrupted(state: &TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// The most characters of an excerpt.
const EXCERPT_CHARS: usize = 240;

/// Returns the beginning of what a message says.
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

#[cfg(test)]
pub(crate) mod tests;
