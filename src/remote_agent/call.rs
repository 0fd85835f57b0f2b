//! One call to one target: its state, what the peer has answered, the updates about it, and the checks before its first
//! connection.

mod budget;
mod card;
mod next_step;
mod person;
mod updates;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use a2a::{Artifact, Event, ShapeError, Task, TaskState, Transport};
use base::blocking;
use base::budget::Level;
use base::field_order::FieldOrder;
use base::redact::Secrets;
pub(super) use budget::{Account, LedgerLocks};
use egress::SendState;
use peer::{CallOptions, Delivered, HostSession, Peer, PeerError, PeerErrorKind, Transports};
use serde_json::{Value, json};
use tokio::time::Instant;
use updates::{UpdatePacer, UpdateRedaction, UpdateSender};

use super::artifacts::{ArtifactPage, Source, ids_and_state};
use super::call_audit::CallMetrics;
use super::collected::{Collected, Kind};
use super::concurrency_limiter::CallPermit;
use super::deadline::Deadline;
use super::envelope::Summary;
use super::error::{Reason, ToolError};
use super::request::{Action, Continuation};
use super::resolve::Resolved;
use super::{RemoteAgent, UpdateCallback, envelope, render};
use crate::handles::{Handle, NewHandle};
use crate::targets::{FetchedCard, Target};

pub(super) use next_step::Incomplete;
pub(super) use person::{CallPerson, PendingAnswer, Questions, answer_id};

pub(super) struct Call<'a> {
    pub tool: &'a RemoteAgent,
    pub action: Action,
    updates: Option<UpdateCallback<'a>>,
    pacer: UpdatePacer,
    /// The end of the call.
    pub deadline: Deadline,
    pub target: Arc<Target>,
    /// The task of the request.
    pub task_id: Option<String>,
    /// The conversation of the request.
    pub context_id: Option<String>,
    /// The target's card, once it was read.
    pub card: Option<FetchedCard>,
    /// The order in which the peer wrote the fields of forms.
    pub field_order: FieldOrder,
    /// Everything that the peer has answered so far.
    pub collected: Collected,
    update_sender: UpdateSender,
    /// Redacts updates, and holds back what may be the start of a secret.
    redaction: UpdateRedaction,
    /// Whether the message that is being sent may have left.
    pub send_state: SendState,
    /// The connection to the target, once it is open.
    peer: Option<Arc<dyn Peer>>,
    /// The wait expired before the peer was done.
    wait_expired: bool,
    incomplete: Option<Incomplete>,
    /// The peer answered the message for the task of the request, with events that cannot be read.
    continues_task: bool,
    /// Why the last query of the task failed.
    query_error: Option<String>,
    /// Performs the exchanges with the peer, and records their metrics.
    pub metrics: Arc<CallMetrics>,
    /// The host's session that calls.
    pub host: Option<HostSession>,
    /// Whether the host wakes the session when the task ends.
    pub notify: bool,
    /// The time at which a blocking send becomes a task.
    pub wait_until: Option<Instant>,
    /// The person that answers questions of the agent.
    pub person: CallPerson<'a>,
    /// Permission to run; `None` while a person is asked.
    pub permit: Option<CallPermit<'a>>,
    /// The call's part in the record of budgets, until it ends.
    pub account: Option<Account>,
    /// A budget that is nearly used up.
    pub budget_warning: Option<Level>,
    /// What is new about a card that is not the accepted one.
    card_warning: Option<Value>,
    /// Whose handle the task gets: the host's agent.
    pub owner: Option<String>,
    handle: Option<Handle>,
    /// The task and conversation for which `handle` was last stored.
    stored: Option<(String, Option<String>)>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        tool: &'a RemoteAgent,
        action: Action,
        resolved: Resolved,
        deadline: Deadline,
        updates: Option<UpdateCallback<'a>>,
        update_interval: Duration,
        metrics: Arc<CallMetrics>,
    ) -> Self {
        Self {
            tool,
            action,
            updates,
            pacer: UpdatePacer::new(update_interval),
            deadline,
            target: resolved.target,
            task_id: resolved.task_id,
            context_id: resolved.context_id,
            card: None,
            field_order: FieldOrder::default(),
            collected: Collected::new(&tool.limits),
            update_sender: UpdateSender::default(),
            redaction: UpdateRedaction::default(),
            send_state: SendState::default(),
            peer: None,
            wait_expired: false,
            incomplete: None,
            continues_task: false,
            query_error: None,
            metrics,
            host: None,
            wait_until: None,
            notify: false,
            person: CallPerson::default(),
            permit: None,
            account: None,
            budget_warning: None,
            card_warning: None,
            owner: None,
            handle: resolved.handle,
            stored: None,
        }
    }

    /// Reads the target's card and opens a connection to the target.
    ///
    /// # Errors
    /// The target cannot be called. Nothing has been sent.
    pub(super) async fn open(
        &mut self,
        parameters: &[(String, String)],
    ) -> Result<Arc<dyn Peer>, ToolError> {
        check_secret(&self.target)?;
        check_transport(&self.target)?;
        let card = self.tool.cards.get(&self.target, self.deadline.remaining());
        let known = self.deadline.run(card).await??;
        let options = CallOptions {
            parameters,
            context_id: self.context_id.as_deref(),
            session: None,
            host: self.host.as_ref(),
            // Only a person sees forms, and finding their order reads an answer a second time.
            field_order: self.may_ask().then_some(&self.field_order),
            wait_until: self.wait_until,
            send_state: Some(&self.send_state),
        };
        let peer = self
            .tool
            .directory
            .open(&self.target.peer_config, &known.card, &options)?;
        self.card = Some(known);
        let peer: Arc<dyn Peer> = peer.into();
        self.metrics.record_transport(&*peer);
        self.peer = Some(Arc::clone(&peer));
        Ok(peer)
    }

    /// Returns whether a person may be asked during the call.
    fn may_ask(&self) -> bool {
        self.person.person.is_some() && matches!(self.action, Action::Send | Action::Watch)
    }

    /// Returns whether the card announces streaming.
    pub(super) fn streaming(&self) -> Option<bool> {
        self.card.as_ref().and_then(|known| known.card.streaming)
    }

    /// Queries the task that the call follows.
    ///
    /// # Errors
    /// The peer does not answer with the task.
    pub(super) async fn get_task(&self, peer: &dyn Peer, task_id: &str) -> Result<Task, PeerError> {
        let task = self.metrics.get_task(peer, task_id, None).await?;
        check_task(task_id, task.id()).map(|()| task)
    }

    /// Adds an event, and sends an update where `notify` and where the host's interval is over.
    ///
    /// # Errors
    /// The event exceeds the limits; earlier events stay.
    pub(super) fn add_event(
        &mut self,
        event: Event,
        bytes: usize,
        notify: bool,
    ) -> Result<(), ToolError> {
        let notify = notify && self.updates.is_some();
        if notify && self.pacer.waits_until().is_some() {
            self.skip_update();
        }
        let Some(event) = self.event_without_words(event) else {
            return Ok(());
        };
        self.collected.apply(event, bytes)?;
        if notify && self.pacer.is_due() {
            self.notify();
        }
        Ok(())
    }

    /// Adds a snapshot. Sends an update if it adds anything, and returns whether it does.
    ///
    /// # Errors
    /// As [`add_event`](Self::add_event).
    pub(super) fn add_snapshot(&mut self, task: Task, source: Source) -> Result<bool, ToolError> {
        self.release_update();
        let task = self.without_words(task);
        let changed = self.collected.apply_snapshot(task, source)?;
        if changed && self.updates.is_some() {
            self.notify();
        }
        Ok(changed)
    }

    /// Returns the id of the task to follow: the one that the peer named in this call, else the requested one if the
    /// action is `watch` or the peer answered with events of a task. A message alone does not show that the peer
    /// continued the task.
    pub(super) fn followed_task(&self) -> Option<&str> {
        let may_be_task = self.action == Action::Watch
            || self.continues_task
            || self.collected.kind == Some(Kind::Task);
        let requested = self.task_id.as_ref().filter(|_| may_be_task);
        self.collected
            .task_id
            .as_ref()
            .or(requested)
            .map(String::as_str)
    }

    /// Returns whether the deadline yields a result and not an error.
    pub(super) fn may_wait(&self) -> bool {
        self.collected.count() > 0 || self.action == Action::Watch
    }

    /// Marks the wait as expired.
    pub(super) fn set_expired(&mut self) {
        if self.collected.is_terminal_or_interrupted() {
            self.incomplete = Some(Incomplete::Pieces);
        } else {
            self.wait_expired = true;
        }
    }

    /// Marks the answer as incomplete, though the peer sends no more.
    pub(super) fn set_incomplete(&mut self, reason: Incomplete) {
        self.incomplete = Some(reason);
    }

    /// Follows the task of the request, whose peer has answered the message with an event that cannot be read.
    pub(super) fn follow_requested_task(&mut self) {
        self.continues_task = true;
    }

    /// Notes why the last query of the task failed or an event cannot be read, or that a snapshot has come since.
    pub(super) fn set_query_error(&mut self, error: Option<String>) {
        self.query_error = error;
    }

    /// Adds the only answer to a call.
    ///
    /// # Errors
    /// The answer exceeds the limits; the error has what was collected before.
    pub(super) fn add_answer(&mut self, answer: Event, notify: bool) -> Result<(), ToolError> {
        self.add_event(answer, 0, notify)
            .map_err(|error| self.with_partial_result(error))
    }

    /// Refuses a task without an id where the request names none: it could not be found again.
    ///
    /// # Errors
    /// [`Reason::InvalidResponse`], with the place.
    pub(super) fn check_has_id(&self, task: &Task) -> Result<(), ToolError> {
        if task.id().or(self.task_id.as_deref()).is_some() {
            return Ok(());
        }
        let missing = ShapeError::here("a string that is not empty", None).under("id");
        Err(PeerError::new(PeerErrorKind::InvalidResponse, missing.to_string()).into())
    }

    /// Returns the secrets that were sent to the peer.
    fn secrets(&self) -> Arc<Secrets> {
        let peer = self.peer.as_ref();
        peer.map(|peer| peer.secrets()).unwrap_or_default()
    }

    /// Stores a handle for the task, if there is one.
    fn store_handle(&mut self) {
        let Some(task_id) = self.collected.task_id.as_ref().or(self.task_id.as_ref()) else {
            return;
        };
        let context_id = self
            .collected
            .context_id
            .as_ref()
            .or(self.context_id.as_ref());
        let known = self.stored.as_ref();
        if known.is_some_and(|(task, context)| task == task_id && context.as_ref() == context_id) {
            return;
        }
        let new_handle = NewHandle {
            target: &self.target,
            key: &self.target.key,
            task_id,
            context_id: context_id.map(String::as_str),
            owner: self.owner.as_deref().unwrap_or_default(),
        };
        self.handle = Some(self.tool.insert_handle(new_handle, self.handle));
        self.stored = Some((task_id.clone(), context_id.cloned()));
    }

    /// Returns how to continue the task now, before the call has a result.
    pub(super) fn continuation(&mut self) -> Option<Value> {
        self.store_handle();
        let summary = self.base_summary();
        summary.continuation.map(|continuation| json!(continuation))
    }

    fn summary(&self) -> Summary<'_> {
        let is_partial = self.wait_expired || self.incomplete.is_some();
        let query_error = self.query_error.as_deref().filter(|_| is_partial);
        Summary {
            status_message: self.collected.status_text.as_deref(),
            message_text: self.collected.text(),
            artifacts: self.collected.artifacts().collect(),
            wait_expired: self.wait_expired,
            incomplete: self.incomplete.is_some() || query_error.is_some(),
            query_error,
            next_step: self.next_step(),
            message_state: self.message_state(),
            notify: self.notify
                && self.handle.is_some()
                && !self.collected.is_terminal_or_interrupted(),
            person: self.person.report.as_ref(),
            usage: self.metrics.usage(),
            budget_warning: self.budget_warning.as_ref(),
            extensions: self.extension_states(),
            card_warning: self.card_warning.as_ref(),
            ..self.base_summary()
        }
    }

    /// Returns what became of the message that the call sent to a working task.
    fn message_state(&self) -> Option<&'static str> {
        self.collected.sent.as_ref()?.1
    }

    /// Returns the target and the continuation, which every summary has.
    fn base_summary(&self) -> Summary<'_> {
        let task_id = self
            .collected
            .task_id
            .as_deref()
            .or(self.task_id.as_deref());
        let context_id = self
            .collected
            .context_id
            .as_deref()
            .or(self.context_id.as_deref());
        let task = self
            .handle
            .zip(task_id)
            .map(|(handle, task_id)| (handle, task_id, self.collected.state.as_ref()));
        let streaming = self.streaming();
        let protocol = self.peer.as_ref().map(|peer| peer.protocol());
        Summary {
            target_alias: self.target.alias.as_deref(),
            target_name: self
                .card
                .as_ref()
                .and_then(|known| known.card.view.as_ref().ok()?.name.as_deref()),
            target_url: &self.target.url,
            protocol_version: protocol.map(|protocol| protocol.version),
            transport: protocol.map(|protocol| protocol.transport.as_str()),
            streaming_supported: streaming,
            extensions: BTreeMap::new(),
            response_kind: self.collected.kind.map(|kind| match kind {
                Kind::Message => "message",
                Kind::Task => "task",
            }),
            status_message: None,
            message_text: None,
            artifacts: Vec::new(),
            artifact_page: None,
            wait_expired: false,
            incomplete: false,
            query_error: None,
            next_step: None,
            message_state: None,
            notify: false,
            person: None,
            usage: None,
            budget_warning: None,
            card_warning: None,
            continuation: Continuation::new(&self.target, task, context_id),
        }
    }

    /// Converts the summary to JSON. Moves the peer's long texts into it.
    fn take_summary(&mut self) -> Value {
        let text = self.collected.text().map(Value::from);
        let artifacts = self.collected.take_artifacts().into_iter();
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

    /// Builds the envelope of a call with one answer. Moves the answer, so it works once.
    pub(super) fn answer_envelope(&mut self) -> String {
        blocking::run_if_large(self.collected.bytes(), || {
            self.finish();
            let answer = self.collected.take_answer();
            envelope::success(self.action.as_str(), self.summary(), answer)
        })
    }

    /// Builds the envelope for a page of an artifact's text: the page and the state of the task.
    ///
    /// # Errors
    /// The task has no such artifact.
    pub(super) fn page_envelope(
        &mut self,
        artifact_id: &str,
        offset: u64,
    ) -> Result<String, ToolError> {
        self.finish();
        let answer = ids_and_state(self.collected.take_answer());
        let waits = self
            .collected
            .state
            .as_ref()
            .is_some_and(TaskState::is_interrupted);
        let chars = render::page_chars(self.tool.limits.model_text_chars);
        let artifacts: Vec<_> = self.collected.artifacts().collect();
        let page = ArtifactPage::new(&artifacts, artifact_id, offset, chars)?;
        let summary = Summary {
            status_message: self.collected.status_text.as_deref().filter(|_| waits),
            artifact_page: Some(page),
            next_step: self.step_before_person().filter(|_| waits),
            ..self.base_summary()
        };
        Ok(envelope::success(self.action.as_str(), summary, answer))
    }

    /// Builds the envelope of a call that followed a stream. Moves the events, so it works once.
    pub(super) fn stream_envelope(&mut self) -> String {
        blocking::run_if_large(self.collected.bytes(), || {
            self.finish();
            let raw = self.collected.take_raw();
            envelope::success(self.action.as_str(), self.summary(), raw)
        })
    }

    /// Adds everything that was collected to `error`.
    pub(super) fn with_partial_result(&mut self, error: ToolError) -> ToolError {
        if self.collected.count() == 0 {
            return error;
        }
        self.finish();
        self.collected.clear_events();
        let summary = self.take_summary();
        error
            .with("partial_event_count", self.collected.count())
            .with("latest_event_summary", summary)
            .delivered(Delivered::Yes)
    }

    /// Ends the call's collection. Renews the handle, whose time to live starts now.
    fn finish(&mut self) {
        self.note_refusal();
        self.stored = None;
        self.store_handle();
        self.flush_updates();
        self.collected.redact(&self.secrets());
        self.collected.join_messages();
    }
}

/// Refuses an answer or event about another task than `task_id`. One that names no task is about the requested one.
pub(super) fn check_task(task_id: &str, named: Option<&str>) -> Result<(), PeerError> {
    if named.is_none_or(|named| named == task_id) {
        return Ok(());
    }
    let message = "the peer answered with another task than the requested one";
    Err(PeerError::new(PeerErrorKind::InvalidResponse, message))
}

/// Refuses a target whose secret the host has not resolved.
pub(super) fn check_secret(target: &Target) -> Result<(), ToolError> {
    let Some(reference) = &target.unresolved else {
        return Ok(());
    };
    let whose = if target.peer_config.is_local() {
        "local gateway's token"
    } else {
        "target's credential"
    };
    let message = format!("the {whose} `{reference}` has not been resolved by the host");
    Err(ToolError::local(Reason::CredentialUnresolved, message))
}

/// Refuses a target that prefers only unsupported transports.
fn check_transport(target: &Target) -> Result<(), PeerError> {
    let names = |all: &[Transport]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    if target.peer_config.is_local() {
        return Ok(());
    }
    let unsupported: Vec<_> = target
        .peer_config
        .preferred
        .iter()
        .copied()
        .filter(|t| !Transport::SUPPORTED.contains(t))
        .collect();
    if unsupported.is_empty() {
        return Ok(());
    }
    let message = format!("{} is not supported", names(&unsupported).join(", "));
    let mut error = PeerError::new(PeerErrorKind::UnsupportedTransport, message).undelivered();
    error.transports = Some(Box::new(Transports {
        unsupported: names(&unsupported),
        supported: names(&Transport::SUPPORTED),
    }));
    Err(error)
}
