//! One proposal under vote: a task that continues without subscribers.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::TRIAD;
use crate::client::Ballot;
use a2a::{Event, ShapeError, Task, text_part};
use collective::Decision;
use peer::{EventStream, NextEvent};

/// The id of the artifact with the decision.
const ARTIFACT_ID: &str = "decision";

/// A proposal under vote, or decided.
pub(super) struct Deliberation {
    id: String,
    context: String,
    /// The text of the proposal. It distinguishes a repetition from another proposal.
    pub text: String,
    /// Cancelled to stop the vote.
    pub stop: CancellationToken,
    state: Mutex<DeliberationState>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct DeliberationState {
    events: Vec<Event>,
    status: Value,
    artifact: Option<Value>,
    ended: bool,
}

impl Deliberation {
    /// Creates a proposal without votes.
    pub(super) fn new(id: &str, context: &str, text: &str, members: &[String]) -> Self {
        let status_text = format!("Asked {} for their votes.", members.join(", "));
        Self {
            id: id.to_owned(),
            context: context.to_owned(),
            text: text.to_owned(),
            stop: CancellationToken::new(),
            state: Mutex::new(DeliberationState {
                status: json!({ "state": "working", "message": message(&[text_part(status_text)]) }),
                ..DeliberationState::default()
            }),
            count: watch::Sender::new(0),
        }
    }

    /// Returns the task in its current state.
    ///
    /// # Errors
    /// The task id or context id is invalid.
    pub(super) fn task(&self) -> Result<Task, ShapeError> {
        Task::read(self.snapshot(&self.state.lock()))
    }

    /// Returns whether the proposal is decided or canceled.
    pub(super) fn is_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Resolves when the vote has ended.
    pub(super) async fn wait_for_end(&self) {
        let mut count = self.count.subscribe();
        while !self.is_ended() {
            if count.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reports a vote.
    pub(super) fn add_vote(&self, member: &str, ballot: &Ballot) {
        let Ballot {
            vote,
            reasoning,
            confidence,
        } = ballot;
        let vote = vote.as_str();
        let confidence_text =
            confidence.map_or_else(String::new, |number| format!(" (confidence {number})"));
        let mut text = format!("{member} votes {vote}{confidence_text}");
        let mut data = json!({ "proposalId": self.id, "from": member, "vote": vote });
        if !reasoning.is_empty() {
            text.push_str(&format!(": {reasoning}"));
            data["reasoning"] = reasoning.as_str().into();
        }
        if let Some(confidence) = confidence {
            data["confidence"] = json!(confidence);
        }
        self.progress(&[text_part(&text), json!({ "kind": "data", "data": data })]);
    }

    /// Reports that a member did not vote.
    pub(super) fn member_missing(&self, member: &str, reason: &str) {
        self.progress(&[text_part(format!("{member} has not voted: {reason}"))]);
    }

    /// Reports the decision. `reasons` says why members are missing.
    pub(super) fn set_decision(&self, decision: &Decision, reasons: &[(String, String)]) {
        let votes: Vec<_> = decision
            .votes
            .iter()
            .map(|(member, vote)| format!("{member} {}", vote.as_str()))
            .collect();
        let mut text = format!(
            "The triad has {} the proposal, {} consensus. Votes: {}.",
            decision.result(),
            if decision.consensus { "by" } else { "without" },
            if votes.is_empty() {
                "none".into()
            } else {
                votes.join(", ")
            },
        );
        if !decision.missing.is_empty() {
            let missing: Vec<_> = decision
                .missing
                .iter()
                .map(
                    |member| match reasons.iter().find(|(name, _)| name == member) {
                        Some((_, reason)) => format!("{member} ({reason})"),
                        None => member.clone(),
                    },
                )
                .collect();
            text.push_str(&format!(" Missing: {}.", missing.join(", ")));
        }
        let artifact = json!({
            "artifactId": ARTIFACT_ID,
            "name": ARTIFACT_ID,
            "parts": [{ "kind": "data", "data": decision.json(&self.id) }, text_part(&text)],
        });
        let update = json!({
            "kind": "artifact-update", "taskId": self.id, "contextId": self.context,
            "artifact": artifact, "append": false, "lastChunk": true,
        });
        self.push(|state| {
            state.artifact = Some(artifact);
            vec![update]
        });
        self.finish("completed", &text);
    }

    /// Reports that the vote was canceled.
    pub(super) fn set_canceled(&self) {
        self.finish("canceled", "The vote was stopped before a decision.");
    }

    /// Subscribes to later events. The first event is the task in its current state.
    pub(super) fn subscribe(self: &Arc<Self>) -> DeliberationStream {
        let state = self.state.lock();
        DeliberationStream {
            first: Task::read(self.snapshot(&state)).ok().map(Event::Task),
            next: state.events.len(),
            count: self.count.subscribe(),
            deliberation: Arc::clone(self),
        }
    }

    fn progress(&self, parts: &[Value]) {
        let status = json!({ "state": "working", "message": message(parts) });
        self.push(|state| {
            state.status = status.clone();
            vec![self.status(status, false)]
        });
    }

    fn finish(&self, state: &str, text: &str) {
        let status = json!({ "state": state, "message": message(&[text_part(text)]) });
        self.push(|state| {
            state.ended = true;
            state.status = status.clone();
            vec![self.status(status, true)]
        });
    }

    /// Appends events, unless the task has ended.
    fn push(&self, change: impl FnOnce(&mut DeliberationState) -> Vec<Value>) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        let events = change(&mut state);
        state.events.extend(
            events
                .into_iter()
                .filter_map(|value| Event::read(value).ok()),
        );
        let count = state.events.len();
        drop(state);
        self.count.send_replace(count);
    }

    fn snapshot(&self, state: &DeliberationState) -> Value {
        let mut task = json!({
            "kind": "task", "id": self.id, "contextId": self.context, "status": state.status,
            "metadata": { "agent": TRIAD },
        });
        if let Some(artifact) = &state.artifact {
            task["artifacts"] = json!([artifact]);
        }
        task
    }

    fn status(&self, status: Value, last: bool) -> Value {
        json!({ "kind": "status-update", "taskId": self.id, "contextId": self.context, "status": status, "final": last })
    }
}

/// A stream of the events of a vote.
pub(super) struct DeliberationStream {
    deliberation: Arc<Deliberation>,
    first: Option<Event>,
    next: usize,
    count: watch::Receiver<usize>,
}

#[async_trait]
impl EventStream for DeliberationStream {
    async fn next(&mut self) -> NextEvent {
        if let Some(first) = self.first.take() {
            return Some(Ok((first, 0)));
        }
        loop {
            let (event, ended) = {
                let state = self.deliberation.state.lock();
                (state.events.get(self.next).cloned(), state.ended)
            };
            if let Some(event) = event {
                self.next += 1;
                return Some(Ok((event, 0)));
            }
            if ended || self.count.changed().await.is_err() {
                return None;
            }
        }
    }
}

fn message(parts: &[Value]) -> Value {
    json!({ "kind": "message", "role": "agent", "messageId": "status", "parts": parts })
}
