//! What a peer has said so far in one call, put together.
//!
//! Work per event is constant and memory is bounded: artifacts grow in place, and of the events the newest are kept.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};

use crate::config::Limits;
use crate::peer::{Artifact, Event, Message, Task, TaskState};

use super::error::{Reason, ToolError};

/// What a peer has said so far.
#[derive(Debug)]
pub(super) struct Collected {
    /// The task it speaks of.
    pub task_id: Option<String>,
    /// The conversation it speaks in.
    pub context_id: Option<String>,
    /// Where the task stands; `None` until the peer has shown one.
    pub state: Option<TaskState>,
    /// What it says about where the task stands.
    pub status_text: Option<String>,
    /// The text of its last message, in the stream or in a task's history.
    pub message_text: Option<String>,
    /// What kind of answer it has been so far.
    pub(super) kind: Option<Kind>,
    artifacts: Vec<Artifact>,
    by_id: HashMap<String, usize>,
    /// What the pieces of each artifact take, beside `artifacts`. A snapshot's count for none of them alone.
    piece_bytes: Vec<usize>,
    artifact_bytes: usize,
    log: VecDeque<(Value, usize)>,
    log_bytes: usize,
    count: usize,
    limits: Limits,
}

/// What kind of answer a peer gave (`summary.response_kind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Messages and nothing else.
    Message,
    /// Something of a task.
    Task,
}

impl Collected {
    /// Nothing yet.
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            task_id: None,
            context_id: None,
            state: None,
            status_text: None,
            message_text: None,
            kind: None,
            artifacts: Vec::new(),
            by_id: HashMap::new(),
            piece_bytes: Vec::new(),
            artifact_bytes: 0,
            log: VecDeque::new(),
            log_bytes: 0,
            count: 0,
            limits: limits.clone(),
        }
    }

    /// How many events have come.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The artifacts, in the order in which they first came.
    pub(super) fn artifacts(&self) -> &[Artifact] {
        &self.artifacts
    }

    /// The newest event.
    pub(super) fn newest(&self) -> Option<&Value> {
        self.log.back().map(|(event, _)| event)
    }

    /// Nothing more is to be expected: the task is finished, or waits for its caller.
    pub(super) fn is_settled(&self) -> bool {
        self.state.as_ref().is_some_and(TaskState::is_settled)
    }

    /// Takes in one event that came in `bytes` bytes of JSON.
    ///
    /// # Errors
    /// [`Reason::TooLarge`] when the artifacts outgrow the limits; what was collected before stays.
    pub(super) fn absorb(&mut self, event: Event, bytes: usize) -> Result<(), ToolError> {
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
                self.message(message);
                Ok(())
            }
            Event::Task(task) => self.task(task, bytes),
            Event::Status(update) => {
                self.ids(Some(update.task_id()), update.context_id());
                self.state = Some(update.state());
                self.status_text = update.status_text();
                Ok(())
            }
            Event::Artifact(update) => {
                self.ids(Some(update.task_id()), update.context_id());
                self.artifact(update.artifact(), update.append(), bytes)
            }
            Event::Unknown(_) => Ok(()),
        };
        self.keep(event.into_json(), bytes);
        fits
    }

    fn message(&mut self, message: &Message) {
        self.ids(message.task_id(), message.context_id());
        if let Some(text) = message.text() {
            self.message_text = Some(text.into_owned());
        }
    }

    /// A snapshot replaces what it shows. One without artifacts does not take back those that came before.
    fn task(&mut self, task: &Task, bytes: usize) -> Result<(), ToolError> {
        self.ids(Some(task.id()), task.context_id());
        self.state = Some(task.state());
        self.status_text = task.status_text();
        if let Some(text) = task.last_agent_text() {
            self.message_text = Some(text);
        }
        let artifacts: Vec<Artifact> = task.artifacts().take(self.limits.artifacts + 1).collect();
        if artifacts.is_empty() {
            return Ok(());
        }
        if artifacts.len() > self.limits.artifacts {
            return Err(self.too_many());
        }
        self.by_id = (0..)
            .zip(&artifacts)
            .map(|(i, artifact): (usize, &Artifact)| (artifact.id().to_owned(), i))
            .collect();
        self.piece_bytes = vec![0; artifacts.len()];
        self.artifacts = artifacts;
        self.artifact_bytes = bytes;
        Ok(())
    }

    fn too_many(&self) -> ToolError {
        let message = format!("the task has more than {} artifacts", self.limits.artifacts);
        ToolError::new(Reason::TooLarge, message)
    }

    fn artifact(&mut self, piece: Artifact, append: bool, bytes: usize) -> Result<(), ToolError> {
        let at = self.by_id.get(piece.id()).copied();
        let replaced = at.filter(|_| !append).map_or(0, |i| self.piece_bytes[i]);
        let all = self.artifact_bytes + bytes - replaced;
        if all > self.limits.response_bytes {
            let message = format!(
                "the artifacts are larger than {} bytes together",
                self.limits.response_bytes
            );
            return Err(ToolError::new(Reason::TooLarge, message));
        }
        match at {
            Some(i) if append => {
                self.artifacts[i].append(piece);
                self.piece_bytes[i] += bytes;
            }
            Some(i) => {
                self.artifacts[i] = piece;
                self.piece_bytes[i] = bytes;
            }
            None if self.artifacts.len() == self.limits.artifacts => {
                return Err(self.too_many());
            }
            None => {
                self.by_id
                    .insert(piece.id().to_owned(), self.artifacts.len());
                self.artifacts.push(piece);
                self.piece_bytes.push(bytes);
            }
        }
        self.artifact_bytes = all;
        Ok(())
    }

    fn ids(&mut self, task_id: Option<&str>, context_id: Option<&str>) {
        for (have, new) in [
            (&mut self.task_id, task_id),
            (&mut self.context_id, context_id),
        ] {
            if let Some(new) = new
                && have.as_deref() != Some(new)
            {
                *have = Some(new.to_owned());
            }
        }
    }

    fn keep(&mut self, event: Value, bytes: usize) {
        self.log.push_back((event, bytes));
        self.log_bytes += bytes;
        while self.log.len() > self.limits.stream_events
            || (self.log.len() > 1 && self.log_bytes > self.limits.response_bytes)
        {
            let dropped = self.log.pop_front().map_or(0, |(_, bytes)| bytes);
            self.log_bytes -= dropped;
        }
    }

    /// What the peer said, in text: a task's artifacts, else what it says about its state, else its last message.
    pub(super) fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.artifacts.iter().filter_map(Artifact::text).collect();
        if !texts.is_empty() {
            return Some(texts.join("\n\n"));
        }
        self.status_text
            .as_ref()
            .or(self.message_text.as_ref())
            .cloned()
    }

    /// The artifacts, which are no longer held.
    pub(super) fn take_artifacts(&mut self) -> Vec<Artifact> {
        self.by_id.clear();
        self.piece_bytes.clear();
        self.artifact_bytes = 0;
        std::mem::take(&mut self.artifacts)
    }

    /// Lets go of the events, which an error does not show. Everything put together from them stays.
    pub(super) fn forget_events(&mut self) {
        self.log = VecDeque::new();
        self.log_bytes = 0;
    }

    /// `raw` of a result that followed a stream.
    pub(super) fn take_raw(&mut self) -> Value {
        let dropped = self.count - self.log.len();
        let last = self.newest().cloned().unwrap_or_default();
        let mut raw = Map::new();
        raw.insert(
            "events".into(),
            self.log.drain(..).map(|(event, _)| event).collect(),
        );
        raw.insert("finalEvent".into(), last);
        if dropped > 0 {
            raw.insert("dropped_events".into(), json!(dropped));
        }
        Value::Object(raw)
    }

    /// `raw` of a result that had one answer.
    pub(super) fn take_answer(&mut self) -> Value {
        self.log
            .pop_back()
            .map(|(event, _)| event)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn chunk(id: &str, text: &str, append: bool) -> Event {
        Event::read(
            json!({"kind": "artifact-update", "taskId": "t", "append": append,
            "artifact": {"artifactId": id, "parts": [{"kind": "text", "text": text}]}}),
        )
        .unwrap()
    }

    fn task(extra: Value) -> Event {
        let mut task = json!({"kind": "task", "id": "t", "status": {"state": "working"}});
        task.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        Event::read(task).unwrap()
    }

    fn collected(events: Vec<Event>) -> Collected {
        let mut all = Collected::new(&Limits::default());
        for event in events {
            all.absorb(event, 1).unwrap();
        }
        all
    }

    #[test]
    fn chunks_of_one_artifact_join_with_nothing_between_and_artifacts_with_a_blank_line() {
        let all = collected(vec![
            chunk("a", "one ", false),
            chunk("b", "other", true),
            chunk("a", "two", true),
        ]);
        assert_eq!(all.text().unwrap(), "one two\n\nother");
    }

    #[test]
    fn a_chunk_that_does_not_append_replaces() {
        assert_eq!(
            collected(vec![chunk("a", "old", false), chunk("a", "new", false)])
                .text()
                .unwrap(),
            "new"
        );
    }

    #[test]
    fn a_snapshot_without_artifacts_takes_none_back() {
        let all = collected(vec![
            chunk("a", "kept", false),
            task(json!({"artifacts": []})),
        ]);
        assert_eq!(all.text().unwrap(), "kept");
    }

    #[test]
    fn a_snapshot_with_artifacts_replaces_them() {
        let snapshot = task(
            json!({"artifacts": [{"artifactId": "z", "parts": [{"kind": "text", "text": "zz"}]}]}),
        );
        let all = collected(vec![
            chunk("a", "1", false),
            snapshot,
            chunk("a", "2", true),
        ]);
        assert_eq!(all.text().unwrap(), "zz\n\n2");
    }

    #[test]
    fn without_artifacts_the_status_speaks_and_never_the_user() {
        let history = json!([{"role": "user", "parts": [{"kind": "text", "text": "q"}]}, {"role": "agent", "parts": [{"kind": "text", "text": "a"}]}]);
        assert_eq!(
            collected(vec![task(json!({"history": history}))])
                .text()
                .unwrap(),
            "a"
        );
        let asks = json!({"history": history, "status": {"state": "input-required", "message": {"role": "agent", "parts": [{"kind": "text", "text": "which?"}]}}});
        assert_eq!(collected(vec![task(asks)]).text().unwrap(), "which?");
    }

    #[test]
    fn the_newest_events_are_kept_and_the_others_counted() {
        let mut all = Collected::new(&Limits {
            stream_events: 2,
            ..Limits::default()
        });
        for i in 0..5 {
            all.absorb(chunk("a", &i.to_string(), true), 1).unwrap();
        }
        assert_eq!(all.text().unwrap(), "01234");
        let raw = all.take_raw();
        assert_eq!(raw["dropped_events"], 3);
        assert_eq!(raw["events"].as_array().unwrap().len(), 2);
        assert_eq!(raw["finalEvent"], raw["events"][1]);
    }

    #[test]
    fn what_a_piece_replaced_does_not_count_against_the_limit() {
        let mut all = Collected::new(&Limits {
            response_bytes: 100,
            ..Limits::default()
        });
        for _ in 0..10 {
            all.absorb(chunk("a", "again", false), 60).unwrap();
        }
        all.absorb(chunk("a", " more", true), 40).unwrap();
        let one_too_many = all.absorb(chunk("a", "!", true), 1);
        assert_eq!(one_too_many.unwrap_err().reason, Reason::TooLarge);
        assert_eq!(all.text().unwrap(), "again more");
    }

    #[test]
    fn artifacts_beyond_the_limits_are_refused_and_the_others_stay() {
        let mut all = Collected::new(&Limits {
            artifacts: 1,
            ..Limits::default()
        });
        all.absorb(chunk("a", "kept", false), 1).unwrap();
        assert_eq!(
            all.absorb(chunk("b", "no", false), 1).unwrap_err().reason,
            Reason::TooLarge
        );
        assert_eq!(all.text().unwrap(), "kept");
    }
}
