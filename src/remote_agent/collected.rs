//! Everything that a peer has answered so far in one call.
//!
//! Work per event is constant and memory is bounded: artifacts grow in place, and only the newest events are kept. An event
//! counts by the memory of its parsed values, which take up to 320 times that of their text.

use std::collections::{HashMap, VecDeque};

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;

use crate::config::Limits;
use a2a::{Artifact, Event, MESSAGES_KEY, Message, Task, TaskState, member_at, text_at, texts_mut};
use base::json;
use base::redact::{MARK, Secrets};

use super::artifacts::{Artifacts, Gap, Source};
use super::error::ToolError;

/// Up to this many bytes of a secret's start are shown at the end of a message, because no later piece completes it.
pub(super) const MAX_SHOWN_PREFIX_BYTES: usize = 3;

/// What became of a message to a working task (`summary.message_state`).
const MESSAGE_STATES: [&str; 3] = ["queued", "started", "dropped"];

#[derive(Debug)]
pub(super) struct Collected {
    /// The task of the answers.
    pub task_id: Option<String>,
    /// The conversation of the answers.
    pub context_id: Option<String>,
    /// The state of the task; `None` until the peer has sent one.
    pub state: Option<TaskState>,
    /// The text of the task's status message.
    pub status_text: Option<String>,
    /// Whether a state without a message has replaced one with a text, which may have been the answer.
    has_lost_text: bool,
    /// The text of its last message, in the stream or in a task's history; once the call ends, that of all messages of an answer
    /// without a task.
    pub message_text: Option<String>,
    /// The kind of answer so far.
    pub(super) kind: Option<Kind>,
    /// The id of the message to a task, and what the agent says became of it.
    pub(super) sent: Option<(String, Option<&'static str>)>,
    artifacts: Artifacts,
    /// The newest events, each with its memory in bytes.
    log: VecDeque<(Value, usize)>,
    log_bytes: usize,
    count: usize,
    limits: Limits,
}

/// `raw` of a result that followed a task. Its last event may be large, so it is written twice, and not copied.
#[derive(Debug)]
pub(super) struct RawEvents {
    dropped: usize,
    events: Vec<Value>,
}

impl Serialize for RawEvents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut raw = serializer.serialize_map(None)?;
        if self.dropped > 0 {
            raw.serialize_entry("dropped_events", &self.dropped)?;
        }
        raw.serialize_entry("events", &self.events)?;
        if let Some(last) = self.events.last() {
            raw.serialize_entry("finalEvent", last)?;
        }
        raw.end()
    }
}

/// The kind of a peer's answer (`summary.response_kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only messages.
    Message,
    /// A task, or events of one.
    Task,
}

impl Collected {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            task_id: None,
            context_id: None,
            state: None,
            status_text: None,
            has_lost_text: false,
            message_text: None,
            kind: None,
            sent: None,
            artifacts: Artifacts::new(limits),
            log: VecDeque::new(),
            log_bytes: 0,
            count: 0,
            limits: limits.clone(),
        }
    }

    /// Returns the number of events.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the size of what was collected, in bytes: the memory of the events, and the JSON of the artifacts.
    pub(super) fn bytes(&self) -> usize {
        self.log_bytes + self.artifacts.bytes()
    }

    /// Returns what a replay of earlier events leaves as it is: the state, the number of artifacts, and their bytes.
    pub(super) fn progress(&self) -> (Option<TaskState>, usize, usize) {
        let artifacts = &self.artifacts;
        (
            self.state.clone(),
            artifacts.iter().count(),
            artifacts.bytes(),
        )
    }

    pub(super) fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        self.artifacts.iter()
    }

    /// Records that events may be missing from here on, as likely as `gap` says.
    pub(super) fn open_gap(&mut self, gap: Gap) {
        self.artifacts.open_gap(gap);
    }

    /// Records that a query has shown all that the ended task has.
    pub(super) fn set_whole(&mut self) {
        self.artifacts.close_gap();
        self.has_lost_text = false;
    }

    /// Returns whether events may be missing that no snapshot has shown since.
    pub(super) fn gap(&self) -> Gap {
        self.artifacts.gap()
    }

    pub(super) fn last_event(&self) -> Option<&Value> {
        self.log.back().map(|(event, _)| event)
    }

    /// Returns the parts of the task's status message.
    pub(super) fn status_parts(&self) -> &[Value] {
        let mut events = self.log.iter().rev().map(|(event, _)| event);
        let newest = events.find(|event| event.get("status").is_some());
        newest.map_or(&[], parts_of)
    }

    /// Lets the task go on after it has waited: the question is over, and its words are none of the next one.
    pub(super) fn resume(&mut self) {
        self.state = Some(TaskState::Working);
        self.status_text = None;
        self.message_text = None;
    }

    /// Returns whether the task is terminal or waits for its caller.
    pub(super) fn is_terminal_or_interrupted(&self) -> bool {
        self.state
            .as_ref()
            .is_some_and(TaskState::is_terminal_or_interrupted)
    }

    /// Returns whether a completed task has shown nothing, and said something only before.
    pub(super) fn lacks_answer(&self) -> bool {
        self.has_lost_text
            && self.state == Some(TaskState::Completed)
            && self.message_text.is_none()
            && self.artifacts().next().is_none()
            && self.status_parts().is_empty()
    }

    /// Returns whether an event of a task that is terminal reports another state.
    pub(super) fn contradicts_end(&self, event: &Event) -> bool {
        let state = match event {
            Event::Task(task) => task.state(),
            Event::Status(update) => update.state(),
            _ => return false,
        };
        let known = self.state.as_ref();
        known.is_some_and(|known| known.is_terminal() && *known != state)
    }

    /// Adds one event that came in `bytes` bytes of JSON.
    ///
    /// # Errors
    /// `Reason::TooManyArtifacts` or `Reason::ArtifactsTooLarge`; earlier events stay.
    pub(super) fn apply(&mut self, event: Event, bytes: usize) -> Result<(), ToolError> {
        self.count += 1;
        match &event {
            Event::Message(_) => {
                self.kind.get_or_insert(Kind::Message);
            }
            Event::Task(_) | Event::Status(_) | Event::Artifact(_) => self.kind = Some(Kind::Task),
            Event::Unknown(_) => {}
        }
        let fits = match &event {
            Event::Message(message) => {
                self.apply_message(message);
                Ok(())
            }
            Event::Task(task) => self.apply_task(task, Source::Streamed).map(|_| ()),
            Event::Status(update) => {
                self.set_ids(update.task_id(), update.context_id());
                self.state = Some(update.state());
                let text = update.status_text();
                self.has_lost_text |= self.status_text.is_some() && text.is_none();
                self.status_text = text;
                Ok(())
            }
            Event::Artifact(update) => {
                self.set_ids(update.task_id(), update.context_id());
                self.artifacts
                    .add_piece(update.artifact(), update.append(), bytes)
            }
            Event::Unknown(_) => {
                // What it says of a known task is not known.
                if self.task_id.is_none() {
                    self.set_ids(event.task_id(), event.context_id());
                }
                Ok(())
            }
        };
        self.push_event(event.into_json());
        fits
    }

    fn apply_message(&mut self, message: &Message) {
        self.set_ids(message.task_id(), message.context_id());
        if let Some(text) = message.text() {
            self.message_text = Some(text.into_owned());
        }
    }

    /// Adds a snapshot, and returns whether it adds anything.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(super) fn apply_snapshot(&mut self, task: Task, source: Source) -> Result<bool, ToolError> {
        let first = self.kind != Some(Kind::Task);
        let changed = self.apply_task(&task, source)? || first;
        if changed {
            self.kind = Some(Kind::Task);
            self.count += 1;
            self.push_event(task.into_json());
        }
        Ok(changed)
    }

    /// Applies a snapshot to the state. Returns whether it changed anything. A snapshot that was requested, and that is
    /// older than the stream, does not take a state from terminal back to interrupted, or from either back to working.
    fn apply_task(&mut self, task: &Task, source: Source) -> Result<bool, ToolError> {
        self.set_ids(task.id(), task.context_id());
        let state = task.state();
        let stale = source == Source::Polled
            && self.state.as_ref().is_some_and(|known| {
                (known.is_terminal_or_interrupted() && !state.is_terminal_or_interrupted())
                    || (known.is_terminal() && !state.is_terminal())
            });
        let mut changed = false;
        if !stale {
            let text = task.last_agent_text();
            changed |= replace(&mut self.state, Some(state));
            changed |= replace(&mut self.status_text, task.status_text());
            changed |= text.is_some() && replace(&mut self.message_text, text);
            // A question may change in its form only.
            changed |=
                task.state().is_interrupted() && self.status_parts() != parts_of(task.json());
        }
        Ok(self.artifacts.apply_snapshot(task, source)? || changed)
    }

    fn set_ids(&mut self, task_id: Option<&str>, context_id: Option<&str>) {
        set_id(&mut self.task_id, task_id);
        set_id(&mut self.context_id, context_id);
    }

    fn push_event(&mut self, event: Value) {
        if let Some((id, state)) = &mut self.sent {
            let said = event.get("metadata").and_then(|all| all.get(MESSAGES_KEY));
            let said = said.and_then(|states| states.get(&**id));
            let known = MESSAGE_STATES.iter();
            *state = known
                .copied()
                .find(|known| said.is_some_and(|said| said == known))
                .or(*state);
        }
        let bytes = json::memory(&event);
        self.log.push_back((event, bytes));
        self.log_bytes += bytes;
        while self.log.len() > self.limits.stream_events
            || (self.log.len() > 1 && self.log_bytes > self.limits.response_bytes)
        {
            let dropped = self.log.pop_front().map_or(0, |(_, bytes)| bytes);
            self.log_bytes -= dropped;
        }
    }

    /// Returns the peer's answer as text: a task's artifacts, else its status message, else its last message.
    pub(super) fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.artifacts().filter_map(Artifact::text).collect();
        if !texts.is_empty() {
            return Some(texts.join("\n\n"));
        }
        self.status_text
            .as_ref()
            .or(self.message_text.as_ref())
            .cloned()
    }

    /// Redacts secrets that span several pieces or events. Each single one is redacted already.
    pub(super) fn redact(&mut self, secrets: &Secrets) {
        if secrets.is_empty() {
            return;
        }
        self.artifacts.redact(secrets);
        // Whether the cached texts are those of an event, which may change.
        let newest_with = |path: &[&str], text: &Option<String>| {
            let mut events = self.log.iter().rev().map(|(event, _)| event);
            text.is_some() && events.find_map(|event| text_at(event, path)) == *text
        };
        let (status, message) = (&["status", "message", "parts"][..], &["parts"][..]);
        let has_status = newest_with(status, &self.status_text);
        let has_message = newest_with(message, &self.message_text);
        let last_event = self.log.len().saturating_sub(1);
        let mut collected = Vec::new();
        let mut pieces: HashMap<String, Vec<&mut String>> = HashMap::new();
        for (i, (event, _)) in self.log.iter_mut().enumerate() {
            let id = event
                .get("artifact")
                .and_then(|artifact| artifact.get("artifactId"));
            if let Some(id) = id.and_then(Value::as_str).map(str::to_owned) {
                pieces.entry(id).or_default().extend(texts_mut(event));
            } else if let Some(Value::Array(artifacts)) = event.get_mut("artifacts") {
                // A snapshot separates the pieces before it from those after it.
                let artifacts = artifacts.iter_mut().filter(|_| i < last_event);
                for text in artifacts.filter_map(|artifact| texts_mut(artifact).pop()) {
                    let start = secrets.incomplete_from(text);
                    if text.len() - start >= MAX_SHOWN_PREFIX_BYTES {
                        text.truncate(start);
                        text.push_str(MARK);
                    }
                }
            } else {
                collected.extend(texts_mut(event));
            }
        }
        secrets.redact_joined(&mut collected);
        for texts in pieces.values_mut() {
            secrets.redact_joined(texts);
        }
        let newest_text = |path| {
            let mut events = self.log.iter().rev();
            events.find_map(|(event, _)| text_at(event, path))
        };
        if has_status {
            self.status_text = newest_text(status);
        }
        if has_message {
            self.message_text = newest_text(message);
        }
    }

    /// Joins the texts of an answer of several messages, of those that are kept.
    pub(super) fn join_messages(&mut self) {
        if self.kind != Some(Kind::Message) {
            return;
        }
        let events = self.log.iter();
        let texts = events.filter_map(|(event, _)| text_at(event, &["parts"]));
        let mut texts: Vec<_> = texts.collect();
        texts.dedup();
        if texts.len() > 1 {
            self.message_text = Some(texts.join("\n\n"));
        }
    }

    /// Removes and returns the artifacts.
    pub(super) fn take_artifacts(&mut self) -> Vec<Artifact> {
        self.artifacts.take()
    }

    /// Removes the events, which an error does not show, but keeps everything assembled from them.
    pub(super) fn clear_events(&mut self) {
        self.log = VecDeque::new();
        self.log_bytes = 0;
    }

    /// Returns `raw` of a result that followed a task. Without events it has no final event.
    pub(super) fn take_raw(&mut self) -> RawEvents {
        RawEvents {
            dropped: self.count - self.log.len(),
            events: self.log.drain(..).map(|(event, _)| event).collect(),
        }
    }

    /// Returns `raw` of a result that had one answer.
    pub(super) fn take_answer(&mut self) -> Value {
        self.log
            .pop_back()
            .map(|(event, _)| event)
            .unwrap_or_default()
    }
}

/// Returns the parts of the status message of a task, or of a change of its state.
fn parts_of(task: &Value) -> &[Value] {
    let parts = member_at(task, &["status", "message", "parts"]);
    parts.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets `current` to `new`, if there is one. Most events repeat the id, which then is not copied.
pub(super) fn set_id(current: &mut Option<String>, new: Option<&str>) {
    if let Some(new) = new
        && current.as_deref() != Some(new)
    {
        *current = Some(new.to_owned());
    }
}

/// Sets `current` to `new`, and returns whether that changed it.
fn replace<T: PartialEq>(current: &mut T, new: T) -> bool {
    let other = *current != new;
    *current = new;
    other
}

#[cfg(test)]
mod tests;
