//! Turns: one message or proposal, from its arrival to its reply or vote.

use std::convert::Infallible;
use std::future::pending;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use lru::LruCache;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use collective::{Envelope, ErrorCode, Kind, MAX_FRAME_BYTES};
use common::environment::Environment;
use common::panics;
use gateway_bridge::delegation::{Delegation, METADATA_KEY};
use gateway_server::clients::{AgentEvent, Ballot, MessageSender, message_text};

use super::backend::{AgentBackend, BackendError, ProgressSink, Proposal, Turn};
use super::settings::{AgentSettings, EventSink};
use super::threads::{Place, Threads};
use super::vote;

/// The maximum number of turns that wait for a slot. A further message gets the error `AGENT_BUSY`.
const MAX_WAITING: usize = 64;

/// The number of votes that are kept, for proposals that arrive again after a lost connection.
const MAX_BALLOTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// How long a backend may take to end after its turn was cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(4);

/// The time before the deadline of a proposal at which the agent votes without its backend.
const VOTE_MARGIN: Duration = Duration::from_millis(500);

/// The minimum time between two reports of progress of a turn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum length of a report of progress, in characters.
const MAX_PROGRESS_CHARS: usize = 1000;

/// The size of the fields beside the content of a reply, in bytes.
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
    /// The votes by proposal, each with the text that it is for.
    ballots: Mutex<LruCache<String, (String, Ballot)>>,
    slots: Semaphore,
    waiting: AtomicUsize,
    active: watch::Sender<usize>,
}

/// A turn that waits; dropping it makes room for another.
struct WaitGuard<'a>(&'a AtomicUsize);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A turn that runs.
struct ActiveGuard<'a>(&'a watch::Sender<usize>);

impl<'a> ActiveGuard<'a> {
    fn new(active: &'a watch::Sender<usize>) -> Self {
        active.send_modify(|count| *count += 1);
        Self(active)
    }
}

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Turns {
    pub(super) fn new(
        settings: AgentSettings,
        backend: Arc<dyn AgentBackend>,
        env: Arc<dyn Environment>,
        on_event: EventSink,
    ) -> Self {
        Self {
            slots: Semaphore::new(settings.concurrency.get()),
            settings,
            backend,
            env,
            on_event,
            threads: Threads::new(),
            ballots: Mutex::new(LruCache::new(MAX_BALLOTS)),
            waiting: AtomicUsize::new(0),
            active: watch::Sender::new(0),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns the number of turns that run.
    pub(super) fn active(&self) -> watch::Receiver<usize> {
        self.active.subscribe()
    }

    pub(super) fn is_busy(&self, active: usize) -> bool {
        active >= self.settings.concurrency.get()
    }

    /// Handles a message. Only a message that requires a response gets one; any other is kept in its conversation. Two agents
    /// would otherwise answer each other for ever.
    pub(super) fn on_message(self: &Arc<Self>, envelope: Envelope, connection: &Connection) {
        let from = envelope.from().unwrap_or("unknown").to_owned();
        let text = message_text(&envelope);
        (self.on_event)(&AgentEvent::Received(from.clone(), text.clone()));
        let thread = envelope.session_id().unwrap_or(&from).to_owned();
        if envelope.metadata("requiresResponse") != Some(&Value::Bool(true)) {
            self.threads.push(&thread, &from, &text);
            return;
        }
        let place = self.threads.enter(&thread);
        let admitted = self.admit();
        let (turns, link) = (Arc::clone(self), connection.clone());
        connection.running.spawn(async move {
            let turn = Turn {
                agent: turns.name().to_owned(),
                from,
                thread,
                text,
                history: Vec::new(),
                proposal: None,
                delegation: delegation(&envelope),
            };
            let answered = match turns.check_depth(&turn).map(|()| admitted) {
                Err(error) => Err(error),
                Ok(false) => Err(BackendError::busy(format!(
                    "`{}` has {MAX_WAITING} messages waiting; try again later",
                    turns.name()
                ))),
                Ok(true) => turns.reply(&envelope, turn, place, &link).await,
            };
            if !link.cancel.is_cancelled() {
                turns.send_reply(&envelope, answered, &link.sender).await;
            }
            if admitted {
                drop(WaitGuard(&turns.waiting));
            }
        });
    }

    /// Counts a turn. Returns `false` if too many wait.
    fn admit(&self) -> bool {
        let limit = MAX_WAITING + self.settings.concurrency.get();
        let counted = self.waiting.fetch_add(1, Ordering::Relaxed) < limit;
        if !counted {
            drop(WaitGuard(&self.waiting));
        }
        counted
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

    /// Waits for the turns before, then for a slot, and asks the backend.
    async fn reply(
        &self,
        envelope: &Envelope,
        mut turn: Turn,
        place: Place,
        link: &Connection,
    ) -> Result<Envelope, BackendError> {
        let cancel = &link.cancel;
        let ready = async {
            place.reached().await;
            self.slots.acquire().await
        };
        let Some(Ok(_permit)) = cancel.run_until_cancelled(ready).await else {
            return Err(BackendError::new("the agent stops"));
        };
        let _active = ActiveGuard::new(&self.active);
        turn.history = self.threads.history(&turn.thread);
        let until = Instant::now() + self.settings.timeout;
        let (reported, report) = watch::channel(String::new());
        let progress = |text: &str| {
            let text = text.chars().take(MAX_PROGRESS_CHARS).collect();
            reported.send_replace(text);
        };
        let reply = tokio::select! {
            reply = self.ask(&turn, &progress, cancel, until) => reply?,
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
        self.threads.push(&turn.thread, &turn.from, &turn.text);
        self.threads.push(&turn.thread, self.name(), &reply);
        Ok(answer)
    }

    /// Sends what the backend reports to the sender of the message: at most one report in [`PROGRESS_INTERVAL`], the latest.
    async fn send_progress(
        &self,
        mut report: watch::Receiver<String>,
        envelope: &Envelope,
        sender: &MessageSender,
    ) -> Infallible {
        while report.changed().await.is_ok() {
            let text = report.borrow_and_update().clone();
            // A gateway that has no such request any more takes it as the status of the agent.
            let is_busy = self.is_busy(*self.active.borrow());
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
        if sender.send(answer).await.is_ok() {
            (self.on_event)(&event);
        }
    }

    /// Handles a proposal. One that arrives again gets the same vote.
    pub(super) fn on_proposal(self: &Arc<Self>, envelope: Envelope, connection: &Connection) {
        let Some(id) = envelope.correlation_id().or(envelope.id()) else {
            return;
        };
        let proposal = Proposal {
            id: id.to_owned(),
            text: envelope
                .content_str("proposal")
                .unwrap_or_default()
                .to_owned(),
            reasoning: envelope.content_str("reasoning").map(str::to_owned),
        };
        let asked = AgentEvent::Asked(proposal.id.clone(), proposal.text.clone());
        (self.on_event)(&asked);
        let admitted = self.admit();
        let (turns, link) = (Arc::clone(self), connection.clone());
        connection.running.spawn(async move {
            let ballot = match turns.kept_ballot(&proposal) {
                Some(ballot) => ballot,
                None if !admitted => vote::abstention("the agent is overloaded"),
                None => turns.ballot(&envelope, &proposal, &link.cancel).await,
            };
            if admitted {
                drop(WaitGuard(&turns.waiting));
            }
            if link.cancel.is_cancelled() {
                return;
            }
            turns.keep_ballot(&proposal, &ballot);
            let mut content = json!({
                "proposalId": proposal.id, "vote": ballot.vote.as_str(), "reasoning": ballot.reasoning,
            });
            if let Some(confidence) = ballot.confidence {
                content["confidence"] = confidence.into();
            }
            let answer = Envelope::answer(Kind::Vote, content, &envelope)
                .with("from", turns.name())
                .with_metadata("correlationId", proposal.id.as_str());
            if link.sender.send(answer).await.is_ok() {
                (turns.on_event)(&AgentEvent::Voted(proposal.id, ballot.vote));
            }
        });
    }

    fn kept_ballot(&self, proposal: &Proposal) -> Option<Ballot> {
        let mut ballots = self.ballots.lock().unwrap_or_else(PoisonError::into_inner);
        let (text, ballot) = ballots.get(&proposal.id)?;
        (*text == proposal.text).then(|| ballot.clone())
    }

    fn keep_ballot(&self, proposal: &Proposal, ballot: &Ballot) {
        let mut ballots = self.ballots.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = (proposal.text.clone(), ballot.clone());
        ballots.put(proposal.id.clone(), kept);
    }

    /// Asks the backend for a vote, at most twice. Abstains if it gives none.
    async fn ballot(
        &self,
        envelope: &Envelope,
        proposal: &Proposal,
        cancel: &CancellationToken,
    ) -> Ballot {
        let from = envelope.from().unwrap_or("unknown");
        let request = vote::request(self.name(), from, proposal);
        let mut turn = Turn {
            agent: self.name().to_owned(),
            from: from.to_owned(),
            thread: format!("proposal:{}", proposal.id),
            text: request.clone(),
            history: Vec::new(),
            proposal: Some(proposal.clone()),
            delegation: delegation(envelope),
        };
        if let Err(error) = self.check_depth(&turn) {
            return vote::abstention(&error.message);
        }
        let until = self.vote_deadline(envelope);
        let ready = async {
            tokio::select! {
                permit = self.slots.acquire() => permit.ok(),
                () = sleep_until(until) => None,
            }
        };
        let Some(Some(_permit)) = cancel.run_until_cancelled(ready).await else {
            return vote::abstention("the agent is overloaded");
        };
        let _active = ActiveGuard::new(&self.active);
        let mut reason = String::new();
        for _ in 0..2 {
            let answer = self.ask(&turn, &|_| {}, cancel, until).await;
            let parsed = match &answer {
                Ok(text) => vote::parse(text).map_err(BackendError::new),
                Err(error) => Err(error.clone()),
            };
            match parsed {
                Ok(ballot) => return ballot,
                Err(error) => {
                    (self.on_event)(&failed(&error));
                    turn.text = vote::request_again(&request, &error.message);
                    reason = error.message;
                }
            }
            if Instant::now() >= until || cancel.is_cancelled() {
                break;
            }
        }
        vote::abstention(&reason)
    }

    /// Returns when the vote must be sent.
    fn vote_deadline(&self, envelope: &Envelope) -> Instant {
        let limit = self.settings.timeout;
        let since = self.env.system_time().duration_since(UNIX_EPOCH);
        let now = since.unwrap_or_default();
        let deadline = envelope.content()["deadline"].as_u64();
        let left = deadline.map(|at| {
            Duration::from_millis(at)
                .saturating_sub(now)
                .saturating_sub(VOTE_MARGIN)
        });
        Instant::now() + left.map_or(limit, |left| left.min(limit))
    }

    /// Asks the backend within the time limit. Catches its panics.
    async fn ask(
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
            answered = &mut answer => answered,
            () = sleep_until(until) => {
                stop.cancel();
                let _ = timeout(CANCEL_TIMEOUT, answer).await;
                return Err(BackendError::new(format!("`{}` did not answer in time", self.name())));
            }
        };
        answered.unwrap_or_else(|panicked| {
            Err(BackendError::new("the backend of the agent failed")
                .with_detail(format!("it panicked {panicked}")))
        })
    }
}

fn delegation(envelope: &Envelope) -> Option<Delegation> {
    Delegation::read(envelope.metadata(METADATA_KEY)?)
}

/// Creates the event of a failure, for the operator.
fn failed(error: &BackendError) -> AgentEvent {
    AgentEvent::Failed(match &error.detail {
        Some(detail) => format!("{}: {detail}", error.message),
        None => error.message.clone(),
    })
}
