//! One call to one target: what it is about, what the peer has said so far, and how that is told.

mod preconditions;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::handles::{Handle, Named};
use crate::targets::{KnownCard, Target};
use a2a::{Artifact, Event, ShapeError, Task, TaskState, text_at};
use common::panics;
use common::redact::Secrets;
use peer::{CallOptions, Delivered, HostSession, Peer, PeerError, PeerErrorKind};

use super::artifact_text::{ArtifactPage, bare};
use super::artifacts::Source;
use super::call_metrics::CallMetrics;
use super::collected::{Collected, Kind};
use super::deadline::Deadline;
use super::envelope::{self, Continuation, Summary};
use super::error::ToolError;
use super::redaction::Redaction;
use super::render;
use super::request::Action;
use super::resolve::Resolved;
use super::{Pace, RemoteAgent, Updates};

pub(super) use preconditions::resolved;
use preconditions::spoken;

/// One call to one target.
pub(super) struct Call<'a> {
    tool: &'a RemoteAgent,
    action: Action,
    updates: Option<Updates<'a>>,
    /// How long the call may go on.
    pub deadline: Deadline,
    /// The target.
    pub target: Arc<Target>,
    /// The task that was asked about.
    pub task_id: Option<String>,
    /// The conversation that was asked for.
    pub context_id: Option<String>,
    /// The target's card, once it is known.
    pub card: Option<KnownCard>,
    /// What the peer has said so far.
    pub said: Collected,
    /// What updates have shown of it.
    redaction: Redaction,
    /// The target, once it is open.
    peer: Option<Arc<dyn Peer>>,
    /// The caller's time was up before the peer was done.
    wait_expired: bool,
    /// The peer tells no more, though there is more.
    incomplete: bool,
    /// What is recorded of the exchanges with the peer.
    pub metrics: Arc<CallMetrics>,
    /// The host's session that calls.
    pub host: Option<HostSession>,
    /// Until when an answer is waited for that may become a task instead.
    pub until: Option<Instant>,
    held: Option<Handle>,
    /// The task and conversation that `held` was last told about.
    remembered: Option<(String, Option<String>)>,
}

impl<'a> Call<'a> {
    /// A call that has not begun.
    pub(super) fn new(
        tool: &'a RemoteAgent,
        action: Action,
        resolved: Resolved,
        deadline: Deadline,
        updates: Option<Updates<'a>>,
        metrics: Arc<CallMetrics>,
    ) -> Self {
        Self {
            tool,
            action,
            updates,
            deadline,
            target: resolved.target,
            task_id: resolved.task_id,
            context_id: resolved.context_id,
            card: None,
            said: Collected::new(&tool.limits),
            redaction: Redaction::default(),
            peer: None,
            wait_expired: false,
            incomplete: false,
            metrics,
            host: None,
            until: None,
            held: resolved.handle,
            remembered: None,
        }
    }

    /// Reads the target's card and opens the target.
    ///
    /// # Errors
    /// Why it cannot be called. Nothing has been sent.
    pub(super) async fn open(
        &mut self,
        parameters: &[(String, String)],
    ) -> Result<Arc<dyn Peer>, ToolError> {
        resolved(&self.target)?;
        spoken(&self.target)?;
        let card = self.tool.cards.get(&self.target, self.deadline.left());
        let known = self.deadline.run(card).await??;
        let opening = CallOptions {
            parameters,
            context_id: self.context_id.as_deref(),
            session: None,
            host: self.host.as_ref(),
            until: self.until,
        };
        let peer = self
            .tool
            .directory
            .open(&self.target.reach, &known.card, &opening)?;
        self.card = Some(known);
        let peer: Arc<dyn Peer> = peer.into();
        self.metrics.record_transport(&*peer);
        self.peer = Some(Arc::clone(&peer));
        Ok(peer)
    }

    /// How long to wait between attempts.
    pub(super) fn pace(&self) -> &Pace {
        &self.tool.pace
    }

    /// What the card says about streaming.
    pub(super) fn streaming(&self) -> Option<bool> {
        self.card.as_ref().and_then(|known| known.card.streaming)
    }

    /// Takes in an event, and tells the caller about it where `tell`.
    ///
    /// # Errors
    /// When the limits are reached; what was collected before stays.
    pub(super) fn hear(&mut self, event: Event, bytes: usize, tell: bool) -> Result<(), ToolError> {
        self.said.absorb(event, bytes)?;
        if tell && self.updates.is_some() {
            self.tell();
        }
        Ok(())
    }

    /// Takes in a snapshot that a stream begins with again; only what is new is told. Says whether there was anything.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub(super) fn hear_again(&mut self, task: Task, bytes: usize) -> Result<bool, ToolError> {
        let news = self.said.absorb_news(task, Source::Said, Some(bytes))?;
        if news && self.updates.is_some() {
            self.tell();
        }
        Ok(news)
    }

    /// Takes in a snapshot that was asked for while the task is followed; only what is new is told.
    ///
    /// # Errors
    /// As [`hear`](Self::hear).
    pub(super) fn hear_asked(&mut self, task: Task) -> Result<(), ToolError> {
        let news = self.said.absorb_news(task, Source::Asked, None)?;
        if news && self.updates.is_some() {
            self.tell();
        }
        Ok(())
    }

    /// The task that is followed: the one that the peer named in this call, else the one that a watch asks about or that a
    /// peer answers with events of a task for. A task that a message was meant for is not taken to have it.
    pub(super) fn followed_task(&self) -> Option<&str> {
        let meant = self.action == Action::Watch || self.said.kind == Some(Kind::Task);
        let asked = self.task_id.as_ref().filter(|_| meant);
        self.said.task_id.as_ref().or(asked).map(String::as_str)
    }

    /// There is something to give back at the deadline.
    pub(super) fn may_wait(&self) -> bool {
        self.said.count() > 0 || self.action == Action::Watch
    }

    /// The caller's time is up.
    pub(super) fn expired(&mut self) {
        if self.said.is_terminal_or_interrupted() {
            self.incomplete = true;
        } else {
            self.wait_expired = true;
        }
    }

    /// The peer tells no more, though there is more.
    pub(super) fn incomplete(&mut self) {
        self.incomplete = true;
    }

    /// Takes in the one answer to a call.
    ///
    /// # Errors
    /// When the limits are reached, with what was collected before.
    pub(super) fn hear_whole(&mut self, answer: Event, tell: bool) -> Result<(), ToolError> {
        self.hear(answer, 0, tell)
            .map_err(|error| self.interrupted(error))
    }

    /// Refuses a task without an id that is not known otherwise: it could not be found again.
    ///
    /// # Errors
    /// [`Reason::InvalidResponse`], with the place.
    pub(super) fn can_find(&self, task: &Task) -> Result<(), ToolError> {
        if task.id().or(self.task_id.as_deref()).is_some() {
            return Ok(());
        }
        let missing = ShapeError::here("a string that is not empty", None).under("id");
        Err(PeerError::new(PeerErrorKind::InvalidResponse, missing.to_string()).into())
    }

    /// Updates are best effort: a caller that fails to take one misses it.
    fn tell(&mut self) {
        self.remember();
        let is_last = self.said.is_terminal_or_interrupted();
        let secrets = self.secrets();
        let Some(event) = self.said.newest() else {
            return;
        };
        let is_last = is_last && event.get("status").is_some();
        let event = self.redaction.event(&secrets, event, is_last);
        let rest = match is_last {
            true => rest(&mut self.redaction, &self.said),
            false => Vec::new(),
        };
        for event in rest.iter().chain([&*event]) {
            self.update(event);
        }
    }

    /// Tells the caller what no update has shown so far.
    fn tell_rest(&mut self) {
        if self.updates.is_some() {
            for event in rest(&mut self.redaction, &self.said) {
                self.update(&event);
            }
        }
    }

    fn update(&self, event: &Value) {
        let Some(updates) = self.updates else {
            return;
        };
        // Repeating what an earlier event said would make a long stream cost the square of its length.
        let status = text_at(event, "/status/message/parts");
        let summary = Summary {
            status_message: status.as_deref(),
            ..self.place()
        };
        let update = envelope::update(self.action.as_str(), summary, event);
        let _ = panics::catch(|| updates(&update));
    }

    /// What the peer was sent to prove who calls.
    fn secrets(&self) -> Arc<Secrets> {
        let peer = self.peer.as_ref();
        peer.map(|peer| peer.secrets()).unwrap_or_default()
    }

    /// Names the task, where there is one, with a handle.
    fn remember(&mut self) {
        let Some(task_id) = self.said.task_id.as_ref().or(self.task_id.as_ref()) else {
            return;
        };
        let context_id = self.said.context_id.as_ref().or(self.context_id.as_ref());
        let known = self.remembered.as_ref();
        if known.is_some_and(|(task, context)| task == task_id && context.as_ref() == context_id) {
            return;
        }
        let named = Named {
            target: &self.target,
            key: &self.target.key,
            task_id,
            context_id: context_id.map(String::as_str),
        };
        self.held = Some(self.tool.remember(named, self.held));
        self.remembered = Some((task_id.clone(), context_id.cloned()));
    }

    fn summary(&self) -> Summary<'_> {
        Summary {
            status_message: self.said.status_text.as_deref(),
            message_text: self.said.text(),
            artifacts: self.said.artifacts().collect(),
            wait_expired: self.wait_expired,
            incomplete: self.incomplete,
            next_step: self.next_step(),
            ..self.place()
        }
    }

    /// What to do next about a task that was left before it was done.
    fn next_step(&self) -> Option<&'static str> {
        let named = self.held.is_some();
        match (self.wait_expired, self.incomplete) {
            (true, _) if named => Some(
                "The task goes on. Call watch with this task_handle or continuation to wait for more, or status to look once.",
            ),
            (true, _) => Some(
                "The agent was not done and named no task to come back to. Send with a larger timeout_ms to hear more.",
            ),
            (_, true) if self.said.is_terminal_or_interrupted() => Some(
                "Part of what the task produced may be missing. Call status with this task_handle or continuation to fetch it whole.",
            ),
            (_, true) => Some(
                "The agent stopped telling before the task was done. Call status with this task_handle or continuation later.",
            ),
            _ => None,
        }
    }

    /// Who speaks, and how to go on: what a summary says whatever the peer has said.
    fn place(&self) -> Summary<'_> {
        let task_id = self.said.task_id.as_deref().or(self.task_id.as_deref());
        let context_id = self
            .said
            .context_id
            .as_deref()
            .or(self.context_id.as_deref());
        let task = self
            .held
            .zip(task_id)
            .map(|(handle, task_id)| (handle, task_id, self.said.state.as_ref()));
        let streaming = self.streaming();
        let spoken = self.peer.as_ref().map(|peer| peer.spoken());
        Summary {
            target_alias: self.target.alias.as_deref(),
            target_name: self
                .card
                .as_ref()
                .and_then(|known| known.card.view.as_ref().ok()?.name.as_deref()),
            target_url: &self.target.url,
            protocol_version: spoken.map(|spoken| spoken.version),
            transport: spoken.map(|spoken| spoken.transport.as_str()),
            streaming_supported: streaming,
            response_kind: self.said.kind.map(|kind| match kind {
                Kind::Message => "message",
                Kind::Task => "task",
            }),
            status_message: None,
            message_text: None,
            artifacts: Vec::new(),
            artifact_page: None,
            wait_expired: false,
            incomplete: false,
            next_step: None,
            continuation: Continuation::new(&self.target, task, context_id),
        }
    }

    /// The summary as JSON. What the peer said may be long, so it is moved there and not copied.
    fn told(&mut self) -> Value {
        let text = self.said.text().map(Value::from);
        let artifacts = self.said.take_artifacts().into_iter();
        let artifacts: Vec<Value> = artifacts.map(Artifact::into_json).collect();
        let artifacts = (!artifacts.is_empty()).then(|| artifacts.into());
        let mut summary = json!(self.summary());
        if let Some(summary) = summary.as_object_mut() {
            for (key, value) in [("message_text", text), ("artifacts", artifacts)] {
                if let Some(value) = value {
                    summary.insert(key.to_owned(), value);
                }
            }
        }
        summary
    }

    /// The envelope of a call that had one answer, which is moved there: it can be asked for once.
    pub(super) fn answered(&mut self) -> String {
        self.conclude();
        let answer = self.said.take_answer();
        envelope::success(self.action.as_str(), self.summary(), answer)
    }

    /// The envelope of a call that asked for a page of an artifact's text: the page, and how the task stands.
    ///
    /// # Errors
    /// The task has no such artifact.
    pub(super) fn paged(&mut self, artifact_id: &str, offset: u64) -> Result<String, ToolError> {
        self.conclude();
        let answer = bare(self.said.take_answer());
        let waits = self
            .said
            .state
            .as_ref()
            .is_some_and(TaskState::is_interrupted);
        let chars = render::page_chars(self.tool.limits.model_text_chars);
        let artifacts: Vec<_> = self.said.artifacts().collect();
        let page = ArtifactPage::of(&artifacts, artifact_id, offset, chars)?;
        let summary = Summary {
            status_message: self.said.status_text.as_deref().filter(|_| waits),
            artifact_page: Some(page),
            ..self.place()
        };
        Ok(envelope::success(self.action.as_str(), summary, answer))
    }

    /// The envelope of a call that followed a stream, whose events are moved there: it can be asked for once.
    pub(super) fn followed(&mut self) -> String {
        self.conclude();
        let raw = self.said.take_raw();
        envelope::success(self.action.as_str(), self.summary(), raw)
    }

    /// `error` with everything that was collected before it.
    pub(super) fn interrupted(&mut self, error: ToolError) -> ToolError {
        if self.said.count() == 0 {
            return error;
        }
        self.conclude();
        self.said.forget_events();
        let summary = self.told();
        error
            .with("partial_event_count", self.said.count())
            .with("latest_event_summary", summary)
            .delivered(Delivered::Yes)
    }

    /// The peer says no more in this call. Using a handle keeps it alive: its time counts from here.
    fn conclude(&mut self) {
        self.remembered = None;
        self.remember();
        self.tell_rest();
        let secrets = self.secrets();
        self.said.redact(&secrets);
    }
}

/// What updates have held back, as the last pieces of the task's artifacts.
fn rest(redaction: &mut Redaction, said: &Collected) -> Vec<Value> {
    let task_id = said.task_id.as_deref().unwrap_or_default();
    redaction.rest(task_id, said.context_id.as_deref())
}

/// The diagnostics of a failed send, for `details`.
pub(super) fn with_diagnostics(
    error: ToolError,
    diagnostics: &super::diagnostics::Diagnostics,
) -> ToolError {
    let diagnostics = serde_json::to_value(diagnostics).unwrap_or(Value::Null);
    error.with("capability_diagnostics", diagnostics)
}
