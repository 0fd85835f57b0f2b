//! One proposal under vote: a task that continues without subscribers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::TRIAD;
use a2a::{Event, ShapeError, Task};
use collective::Decision;
use peer::{BoxFuture, EventStream, NextEvent};

use super::ballot::Ballot;

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
    over: bool,
}

impl Deliberation {
    /// Creates a proposal without votes.
    pub(super) fn new(id: &str, context: &str, text: &str, members: &[String]) -> Self {
        let asked = format!("Asked {} for their votes.", members.join(", "));
        Self {
            id: id.to_owned(),
            context: context.to_owned(),
            text: text.to_owned(),
            stop: CancellationToken::new(),
            state: Mutex::new(DeliberationState {
                status: json!({ "state": "working", "message": message(&[text_part(&asked)]) }),
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
        Task::read(self.snapshot(&self.state()))
    }

    /// Returns whether the proposal is decided or canceled.
    pub(super) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Resolves when the vote has ended.
    pub(super) async fn over(&self) {
        let mut count = self.count.subscribe();
        while !self.is_over() {
            if count.changed().await.is_err() {
                return;
            }
        }
    }

    /// Reports a vote.
    pub(super) fn voted(&self, member: &str, ballot: &Ballot) {
        let Ballot {
            vote,
            reasoning,
            confidence,
        } = ballot;
        let vote = vote.as_str();
        let sure = confidence.map_or_else(String::new, |number| format!(" (confidence {number})"));
        let text = format!("{member} votes {vote}{sure}: {reasoning}");
        let mut data =
            json!({ "proposalId": self.id, "from": member, "vote": vote, "reasoning": reasoning });
        if let Some(confidence) = confidence {
            data["confidence"] = json!(confidence);
        }
        self.progress(&[text_part(&text), json!({ "kind": "data", "data": data })]);
    }

    /// Reports that a member did not vote.
    pub(super) fn member_missing(&self, member: &str, why: &str) {
        self.progress(&[text_part(&format!("{member} has not voted: {why}"))]);
    }

    /// Reports the decision. `why` lists the reasons of missing members.
    pub(super) fn decided(&self, decision: &Decision, why: &[(String, String)]) {
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
                .map(|member| match why.iter().find(|(name, _)| name == member) {
                    Some((_, why)) => format!("{member} ({why})"),
                    None => member.clone(),
                })
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
    pub(super) fn stopped(&self) {
        self.finish("canceled", "The vote was stopped before a decision.");
    }

    /// Subscribes to later events. The first event is the task in its current state.
    pub(super) fn listen(self: &Arc<Self>) -> DeliberationStream {
        let state = self.state();
        DeliberationStream {
            first: Task::read(self.snapshot(&state)).ok().map(Event::Task),
            next: state.events.len(),
            count: self.count.subscribe(),
            of: Arc::clone(self),
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
            state.over = true;
            state.status = status.clone();
            vec![self.status(status, true)]
        });
    }

    /// Appends events, unless the task has ended.
    fn push(&self, say: impl FnOnce(&mut DeliberationState) -> Vec<Value>) {
        let mut state = self.state();
        if state.over {
            return;
        }
        let said = say(&mut state);
        state
            .events
            .extend(said.into_iter().filter_map(|value| Event::read(value).ok()));
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

    fn state(&self) -> MutexGuard<'_, DeliberationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of the events of a vote.
pub(super) struct DeliberationStream {
    of: Arc<Deliberation>,
    first: Option<Event>,
    next: usize,
    count: watch::Receiver<usize>,
}

impl EventStream for DeliberationStream {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(async {
            if let Some(first) = self.first.take() {
                return Some(Ok((first, 0)));
            }
            loop {
                let (event, over) = {
                    let state = self.of.state();
                    (state.events.get(self.next).cloned(), state.over)
                };
                if let Some(event) = event {
                    self.next += 1;
                    return Some(Ok((event, 0)));
                }
                if over || self.count.changed().await.is_err() {
                    return None;
                }
            }
        })
    }
}

fn text_part(text: &str) -> Value {
    json!({ "kind": "text", "text": text })
}

fn message(parts: &[Value]) -> Value {
    json!({ "kind": "message", "role": "agent", "messageId": "status", "parts": parts })
}
