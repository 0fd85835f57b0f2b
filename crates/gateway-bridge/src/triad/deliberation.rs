//! One proposal put to the vote: a task that goes on whether anybody listens or not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::TRIAD;
use a2a::{Event, ShapeError, Task};
use collective::Decision;
use peer::{BoxFuture, EventStream, NextEvent};

use super::ballot::Ballot;

/// The artifact that the decision is in.
const ARTIFACT: &str = "decision";

/// A proposal under vote, or decided.
pub(super) struct Deliberation {
    id: String,
    context: String,
    /// What was proposed, to tell a repetition from another proposal.
    pub text: String,
    /// Cancelled when its vote is no longer wanted.
    pub stop: CancellationToken,
    told: Mutex<Told>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Told {
    events: Vec<Event>,
    status: Value,
    artifact: Option<Value>,
    over: bool,
}

impl Deliberation {
    /// A proposal that nobody has voted on.
    pub(super) fn new(id: &str, context: &str, text: &str, members: &[String]) -> Self {
        let asked = format!("Asked {} for their votes.", members.join(", "));
        Self {
            id: id.to_owned(),
            context: context.to_owned(),
            text: text.to_owned(),
            stop: CancellationToken::new(),
            told: Mutex::new(Told {
                status: json!({ "state": "working", "message": message(&[text_part(&asked)]) }),
                ..Told::default()
            }),
            count: watch::Sender::new(0),
        }
    }

    /// Its task as it stands.
    ///
    /// # Errors
    /// An id that is no id.
    pub(super) fn task(&self) -> Result<Task, ShapeError> {
        Task::read(self.snapshot(&self.told()))
    }

    /// It is decided, or was stopped.
    pub(super) fn is_over(&self) -> bool {
        self.told().over
    }

    /// Resolves when it is over.
    pub(super) async fn over(&self) {
        let mut count = self.count.subscribe();
        while !self.is_over() {
            if count.changed().await.is_err() {
                return;
            }
        }
    }

    /// Tells of a vote.
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
        self.goes_on(&[text_part(&text), json!({ "kind": "data", "data": data })]);
    }

    /// Tells that a member has no vote.
    pub(super) fn is_missing(&self, member: &str, why: &str) {
        self.goes_on(&[text_part(&format!("{member} has not voted: {why}"))]);
    }

    /// Tells the decision. `why` says of those who are missing what is known.
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
            "artifactId": ARTIFACT,
            "name": ARTIFACT,
            "parts": [{ "kind": "data", "data": decision.json(&self.id) }, text_part(&text)],
        });
        let update = json!({
            "kind": "artifact-update", "taskId": self.id, "contextId": self.context,
            "artifact": artifact, "append": false, "lastChunk": true,
        });
        self.tell(|told| {
            told.artifact = Some(artifact);
            vec![update]
        });
        self.ends("completed", &text);
    }

    /// Tells that the vote was stopped.
    pub(super) fn stopped(&self) {
        self.ends("canceled", "The vote was stopped before a decision.");
    }

    /// What is told from now on. The first event is the task as it stands.
    pub(super) fn listen(self: &Arc<Self>) -> Listener {
        let told = self.told();
        Listener {
            first: Task::read(self.snapshot(&told)).ok().map(Event::Task),
            next: told.events.len(),
            count: self.count.subscribe(),
            of: Arc::clone(self),
        }
    }

    fn goes_on(&self, parts: &[Value]) {
        let status = json!({ "state": "working", "message": message(parts) });
        self.tell(|told| {
            told.status = status.clone();
            vec![self.status(status, false)]
        });
    }

    fn ends(&self, state: &str, text: &str) {
        let status = json!({ "state": state, "message": message(&[text_part(text)]) });
        self.tell(|told| {
            told.over = true;
            told.status = status.clone();
            vec![self.status(status, true)]
        });
    }

    /// Adds to what is told. Nothing is told after the end.
    fn tell(&self, say: impl FnOnce(&mut Told) -> Vec<Value>) {
        let mut told = self.told();
        if told.over {
            return;
        }
        let said = say(&mut told);
        told.events
            .extend(said.into_iter().filter_map(|value| Event::read(value).ok()));
        let count = told.events.len();
        drop(told);
        self.count.send_replace(count);
    }

    fn snapshot(&self, told: &Told) -> Value {
        let mut task = json!({
            "kind": "task", "id": self.id, "contextId": self.context, "status": told.status,
            "metadata": { "agent": TRIAD },
        });
        if let Some(artifact) = &told.artifact {
            task["artifacts"] = json!([artifact]);
        }
        task
    }

    fn status(&self, status: Value, last: bool) -> Value {
        json!({ "kind": "status-update", "taskId": self.id, "contextId": self.context, "status": status, "final": last })
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens to a vote.
pub(super) struct Listener {
    of: Arc<Deliberation>,
    first: Option<Event>,
    next: usize,
    count: watch::Receiver<usize>,
}

impl EventStream for Listener {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(async {
            if let Some(first) = self.first.take() {
                return Some(Ok((first, 0)));
            }
            loop {
                let (event, over) = {
                    let told = self.of.told();
                    (told.events.get(self.next).cloned(), told.over)
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
