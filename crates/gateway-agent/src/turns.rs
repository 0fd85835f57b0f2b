//! Turns: one message or proposal each, from its arrival to its reply or vote.

mod proposals;
mod queue;

use std::convert::Infallible;
use std::future::pending;
use std::hash::RandomState;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use base::environment::Environment;
use base::keyed_lru::KeyedLru;
use base::panics;
use base::run_slots::RunSlots;
use base::text::first_chars;
use collective::{Envelope, ErrorCode, Kind, MAX_FRAME_BYTES};
use gateway_bridge::client::{AgentEvent, Ballot, MessageSender, message_text};
use gateway_bridge::delegation::{DELEGATION_KEY, Delegation};

use super::backend::{AgentBackend, BackendError, ProgressSink, Turn};
use super::settings::{AgentSettings, EventSink};
use super::threads::{Threads, TurnTicket};
use queue::Queue;

/// The maximum number of stored votes, for proposals that arrive again after a lost connection. One proposer has a quarter of
/// them.
const MAX_BALLOTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// How long a backend may take to return after its turn was cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(4);

/// The minimum interval between two overload warnings.
const OVERLOAD_INTERVAL: Duration = Duration::from_mins(1);

/// The maximum length of the error of a backend, in characters.
const MAX_ERROR_CHARS: usize = 2000;

/// The minimum interval between two progress reports of a turn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum length of a progress report, in characters.
const MAX_PROGRESS_CHARS: usize = 1000;

/// The maximum size of the fields of a message and of its reply without their content, in bytes.
const ENVELOPE_BYTES: usize = 16 * 1024;

/// The connection that a turn belongs to.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) sender: MessageSender,
    /// Cancelled when the connection is lost.
    pub(super) cancel: CancellationToken,
    pub(super) running: TaskTracker,
}

/// The turns of one agent.
pub(super) struct Turns {
    settings: AgentSettings,
    backend: Arc<dyn AgentBackend>,
    env: Arc<dyn Environment>,
    on_event: EventSink,
    threads: Threads,
    /// The votes of the backend, by a hash of the proposal's id and text.
    ballots: Mutex<KeyedLru<String, u64, Ballot>>,
    ballot_hasher: RandomState,
    /// The slots of the concurrent turns, which the senders share.
    slots: Arc<RunSlots>,
    /// A slot that is reserved for votes.
    vote_slot: Semaphore,
    messages: Queue,
    proposals: Queue,
    /// The time of the last overload warning.
    overload_reported: Mutex<Option<Instant>>,
}

impl Turns {
    pub(super) fn new(
        settings: AgentSettings,
        backend: Arc<dyn AgentBackend>,
        env: Arc<dyn Environment>,
        on_event: EventSink,
    ) -> Self {
        let concurrency = settings.concurrency.get();
        Self {
            slots: RunSlots::new(concurrency, false),
            settings,
            backend,
            env,
            on_event,
            threads: Threads::new(),
            ballots: Mutex::new(KeyedLru::new(MAX_BALLOTS, MAX_BALLOTS.get() / 4)),
            ballot_hasher: RandomState::new(),
            vote_slot: Semaphore::new(1),
            messages: Queue::new(concurrency),
            proposals: Queue::new(concurrency),
            overload_reported: Mutex::new(None),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns the number of messages that wait or run.
    pub(super) fn messages(&self) -> watch::Receiver<usize> {
        self.messages.length()
    }

    /// Returns whether the agent refuses a further message while so many wait or run.
    pub(super) fn is_busy(&self, messages: usize) -> bool {
        self.messages.is_full(messages)
    }

    /// Handles a message. Replies only if the message requires a response; otherwise only adds it to its conversation.
    /// Without this condition, two agents would reply to each other forever.
    pub(super) fn on_message(self: &Arc<Self>, envelope: &Envelope, connection: &Connection) {
        let from = envelope.from().unwrap_or("unknown").to_owned();
        let text = message_text(envelope);
        (self.on_event)(&AgentEvent::received(&from, &text, envelope));
        let Some(header) = self.header(envelope) else {
            return;
        };
        let thread = thread(&from, envelope.session_id());
        if envelope.metadata("requiresResponse") != Some(&Value::Bool(true)) {
            self.threads.push(&from, &thread, &from, &text);
            return;
        }
        let delegation = delegation(envelope);
        let mut turn = Turn {
            agent: self.name().to_owned(),
            from,
            thread,
            text,
            history: Vec::new(),
            proposal: None,
            delegation: None,
        };
        // A refused message does not become part of its conversation.
        let admitted = delegation.and_then(|delegation| {
            turn.delegation = delegation;
            self.check_depth(&turn)?;
            let admitted = self.messages.admit(&turn.from, turn.text.len());
            let admitted = admitted.ok_or_else(|| {
                BackendError::busy(format!(
                    "`{}` has too many messages waiting; try again later",
                    self.name()
                ))
            })?;
            Ok((admitted, self.threads.push_turn(&turn.from, &turn.thread)))
        });
        let (turns, link) = (Arc::clone(self), connection.clone());
        let turn = admitted.map(|(guard, ticket)| (guard, ticket, turn));
        connection.running.spawn(async move {
            let (_guard, answered) = match turn {
                Ok((guard, ticket, turn)) => {
                    let answered = turns.reply(&header, turn, ticket, &link).await;
                    (Some(guard), answered)
                }
                Err(error) => (None, Err(error)),
            };
            if !link.cancel.is_cancelled() {
                turns.send_reply(&header, answered, &link.sender).await;
            }
        });
    }

    /// Returns the fields of a message that its reply needs. Ignores a message whose fields do not fit into a reply.
    fn header(&self, envelope: &Envelope) -> Option<Envelope> {
        let mut header = Envelope::new(envelope.kind(), Value::Null);
        for (field, value) in [
            ("id", envelope.id()),
            ("from", envelope.from()),
            ("sessionId", envelope.session_id()),
        ] {
            header = header.with(field, value.map(str::to_owned));
        }
        if let Some(id) = envelope.correlation_id() {
            header = header.with_metadata("correlationId", id);
        }
        if header.to_text().len() <= ENVELOPE_BYTES / 4 {
            return Some(header);
        }
        let message = "ignored a message whose ids are too long to answer it";
        (self.on_event)(&failed(&BackendError::new(message)));
        None
    }

    fn check_depth(&self, turn: &Turn) -> Result<(), BackendError> {
        let hop = turn.delegation.as_ref().map_or(0, |known| known.hop);
        if hop <= self.settings.max_depth {
            return Ok(());
        }
        Err(BackendError::new(format!(
            "the delegation depth is {hop}, and `{}` accepts {}; do the work yourself, or answer with what you have",
            self.name(),
            self.settings.max_depth
        )))
    }

    /// Waits for the earlier turns of the conversation, then for a slot, and calls the backend.
    async fn reply(
        &self,
        envelope: &Envelope,
        mut turn: Turn,
        ticket: TurnTicket,
        link: &Connection,
    ) -> Result<Envelope, BackendError> {
        let cancel = &link.cancel;
        let ready = async {
            ticket.ready().await;
            self.slots.acquire(&turn.from).await
        };
        let Some(Some(_slot)) = cancel.run_until_cancelled(ready).await else {
            return Err(BackendError::new("the agent stops"));
        };
        turn.history = self.threads.history(&turn.from, &turn.thread);
        let until = Instant::now() + self.settings.timeout;
        let (reported, report) = watch::channel(String::new());
        let progress = |text: &str| {
            reported.send_replace(first_chars(text, MAX_PROGRESS_CHARS).to_owned());
        };
        let reply = tokio::select! {
            reply = self.answer_turn(&turn, &progress, cancel, until) => reply?,
            never = self.send_progress(report, envelope, &link.sender) => match never {},
        };
        let content = json!({"role": "agent", "content": reply});
        let answer = Envelope::answer(Kind::Message, content, envelope)
            .with("from", self.name())
            .with("agent", turn.from.as_str())
            .with("sessionId", envelope.session_id().map(str::to_owned));
        if answer.to_text().len() > MAX_FRAME_BYTES - ENVELOPE_BYTES {
            let message = "the reply is larger than a message; ask for less";
            return Err(BackendError::new(message));
        }
        for (from, text) in [(turn.from.as_str(), &turn.text), (self.name(), &reply)] {
            self.threads.push(&turn.from, &turn.thread, from, text);
        }
        Ok(answer)
    }

    /// Sends progress reports of the backend to the sender of the message. Sends at most one per [`PROGRESS_INTERVAL`], with
    /// the latest text.
    async fn send_progress(
        &self,
        mut report: watch::Receiver<String>,
        envelope: &Envelope,
        sender: &MessageSender,
    ) -> Infallible {
        while report.changed().await.is_ok() {
            let text = report.borrow_and_update().clone();
            // If the request is no longer pending, the gateway treats the message as the status of the agent.
            let is_busy = self.is_busy(*self.messages().borrow());
            let status = if is_busy { "busy" } else { "online" };
            let content = json!({"agent": self.name(), "status": status, "message": text});
            let status = Envelope::answer(Kind::Status, content, envelope);
            if sender.send(status.with("from", self.name())).await.is_err() {
                break;
            }
            sleep(PROGRESS_INTERVAL).await;
        }
        pending().await
    }

    async fn send_reply(
        &self,
        envelope: &Envelope,
        answered: Result<Envelope, BackendError>,
        sender: &MessageSender,
    ) {
        let is_reported = match &answered {
            Err(error) if error.is_busy => self.reports_overload(),
            _ => true,
        };
        let (answer, event) = match answered {
            Ok(answer) => {
                let text = message_text(&answer);
                (answer, AgentEvent::Answered(text))
            }
            Err(error) => {
                let code = match error.is_busy {
                    true => ErrorCode::AgentBusy,
                    false => ErrorCode::AgentError,
                };
                let answer = Envelope::error(code, &error.message, Some(envelope))
                    .with("from", self.name())
                    .with("agent", envelope.from().map(str::to_owned));
                (answer, failed(&error))
            }
        };
        if sender.send(answer).await.is_ok() && is_reported {
            (self.on_event)(&event);
        }
    }

    /// Returns whether to report an overload now. True at most once per [`OVERLOAD_INTERVAL`].
    fn reports_overload(&self) -> bool {
        let mut reported = self.overload_reported.lock();
        let is_due = reported.is_none_or(|at| at.elapsed() >= OVERLOAD_INTERVAL);
        if is_due {
            *reported = Some(Instant::now());
        }
        is_due
    }

    /// Calls the backend with a timeout. Catches its panics, and truncates its error.
    async fn answer_turn(
        &self,
        turn: &Turn,
        progress: ProgressSink<'_>,
        cancel: &CancellationToken,
        until: Instant,
    ) -> Result<String, BackendError> {
        let stop = cancel.child_token();
        let _stops = stop.clone().drop_guard();
        let mut answer = Box::pin(panics::catch_async(
            self.backend.answer(turn, progress, &stop),
        ));
        let answered = tokio::select! {
            answered = &mut answer => Some(answered),
            () = sleep_until(until) => {
                stop.cancel();
                let _ = timeout(CANCEL_TIMEOUT, answer).await;
                return Err(BackendError::new(format!("`{}` did not answer in time", self.name())));
            }
            () = cancel.cancelled() => timeout(CANCEL_TIMEOUT, answer).await.ok(),
        };
        let answered = match answered {
            Some(Ok(answered)) => answered,
            Some(Err(panicked)) => Err(BackendError::new("the backend of the agent failed")
                .with_detail(format!("it panicked {panicked}"))),
            None => Err(BackendError::new("the agent stops")),
        };
        answered.map_err(|error| BackendError {
            message: first_chars(&error.message, MAX_ERROR_CHARS).to_owned(),
            ..error
        })
    }
}

/// Returns the id of a conversation. It is a JSON array, so that it can equal neither a session of another sender nor a
/// proposal.
fn thread(from: &str, session: Option<&str>) -> String {
    match session {
        Some(session) => json!([from, session]).to_string(),
        None => json!([from]).to_string(),
    }
}

/// Returns the delegation of a message.
///
/// # Errors
/// The delegation is malformed. If the agent ignored it, the chain would start again and could become endless.
fn delegation(envelope: &Envelope) -> Result<Option<Delegation>, BackendError> {
    let Some(value) = envelope.metadata(DELEGATION_KEY) else {
        return Ok(None);
    };
    let delegation = Delegation::read(value).ok_or_else(|| {
        BackendError::new(format!(
            "the metadata `{DELEGATION_KEY}` is not {{\"hop\": number, \"chain\": text}}; pass it on as the agent received it, or leave it out"
        ))
    });
    delegation.map(Some)
}

/// Creates the event of a backend failure, for the operator.
fn failed(error: &BackendError) -> AgentEvent {
    AgentEvent::Failed(match &error.detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message.clone(),
    })
}
