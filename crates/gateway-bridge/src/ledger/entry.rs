//! One message and what came of it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use a2a::{Message, Task};
use collective::ErrorCode;
use peer::{Delivered, EventStream, PeerError, PeerErrorKind};

use super::listener::Listener;
use super::{HELD, reset, weight, wording};

/// A task tells at most so many steps on its way, of so many bytes in all; what is beyond them is not told. Three votes with
/// reasons as long as a frame can be fit.
const STEPS: usize = 100;
const STEP_BYTES: usize = HELD / 2;

/// How much later than its deadline a decision may come.
const GRACE: Duration = Duration::from_secs(2);

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A message that is answered by a message.
    Message,
    /// A proposal that is decided by this time.
    Proposal {
        /// When it is decided at the latest.
        by: Instant,
    },
}

/// What is needed to send a message once more, where its agent was busy.
#[derive(Debug, Clone)]
pub(crate) struct Sending {
    /// The message as it goes out.
    pub frame: String,
    /// When it is too old to be sent.
    pub expires: Option<Instant>,
    /// It is wanted only as long as a call waits for it.
    pub while_awaited: bool,
}

/// What came of a message.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The agent answered.
    Answered(Message),
    /// The triad decided: an artifact.
    Decided(Value),
    /// Nothing will come.
    Failed(PeerError),
    /// The caller waits no longer.
    Canceled,
}

impl Outcome {
    fn weight(&self) -> usize {
        match self {
            Self::Answered(message) => weight(message.json()),
            Self::Decided(artifact) => weight(artifact),
            Self::Failed(error) => error.message.len(),
            Self::Canceled => 0,
        }
    }
}

/// One message and what came of it.
pub(crate) struct Entry {
    /// What message and answer share; the task's id.
    pub id: String,
    /// The message's own id.
    pub message_id: String,
    /// Whom it was sent to.
    pub agent: String,
    /// The session it belongs to.
    pub context_id: String,
    /// What was sent.
    pub what: What,
    /// How it is sent once more.
    pub sending: Sending,
    made: Instant,
    /// What it takes, nearly, and what all take of which it is one.
    bytes: AtomicUsize,
    all: Arc<AtomicUsize>,
    life: watch::Sender<Life>,
    awaited: AtomicUsize,
    tries: AtomicUsize,
    /// How many steps somebody has been told.
    heard: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct Life {
    /// Status updates so far, and what they take.
    pub(super) steps: Vec<Value>,
    step_bytes: usize,
    pub(super) outcome: Option<Outcome>,
    /// How often the connection was lost meanwhile.
    pub(super) cuts: usize,
}

impl Life {
    fn awaits_decision(&self) -> bool {
        match &self.outcome {
            None => true,
            Some(Outcome::Failed(error)) => {
                error.kind == PeerErrorKind::Gateway(ErrorCode::ConnectionReset)
            }
            Some(_) => false,
        }
    }
}

impl Entry {
    pub(crate) fn new(
        id: String,
        message_id: String,
        agent: String,
        context_id: String,
        what: What,
        sending: Sending,
    ) -> Self {
        Self {
            id,
            message_id,
            agent,
            context_id,
            what,
            sending,
            made: Instant::now(),
            bytes: AtomicUsize::new(0),
            all: Arc::default(),
            life: watch::Sender::new(Life::default()),
            awaited: AtomicUsize::new(0),
            tries: AtomicUsize::new(0),
            heard: AtomicUsize::new(0),
        }
    }

    /// It is one of those that take `all` together.
    pub(super) fn among(mut self, all: &Arc<AtomicUsize>) -> Self {
        self.all = Arc::clone(all);
        self.takes(self.sending.frame.len());
        self
    }

    fn takes(&self, more: usize) {
        self.bytes.fetch_add(more, Ordering::SeqCst);
        self.all.fetch_add(more, Ordering::SeqCst);
    }

    pub(super) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    /// Nothing more will come of it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.look_at_the_clock();
        self.life.borrow().outcome.is_some()
    }

    /// Tells a step on its way: text, and data where there is some.
    pub(crate) fn step(&self, text: &str, data: Option<Value>) {
        self.life.send_if_modified(|life| {
            if life.outcome.is_some() || life.steps.len() == STEPS {
                return false;
            }
            let step = wording::step(self, life.steps.len(), text, data);
            let bytes = weight(&step);
            let room = life.step_bytes + bytes <= STEP_BYTES;
            if room {
                life.step_bytes += bytes;
                life.steps.push(step);
                self.takes(bytes);
            }
            room
        });
    }

    /// The votes that were told, each member's with its word.
    pub(crate) fn votes(&self) -> Vec<(String, String)> {
        let life = self.life.borrow();
        let vote = |step: &Value| {
            let data = step.pointer("/status/message/parts/1/data")?;
            let word = |field: &str| data.get(field)?.as_str().map(str::to_owned);
            Some((word("member")?, word("vote")?))
        };
        life.steps.iter().filter_map(vote).collect()
    }

    /// A vote of this member was told.
    pub(crate) fn has_vote_of(&self, member: &str) -> bool {
        self.votes().iter().any(|(told, _)| told == member)
    }

    /// Ends it, unless it has ended. An answer that comes after all counts where only the connection was lost.
    pub(crate) fn settle(&self, outcome: Outcome) -> bool {
        self.life.send_if_modified(|life| {
            let open = match (&life.outcome, &outcome) {
                (None, _) => true,
                (Some(Outcome::Failed(error)), Outcome::Answered(_) | Outcome::Decided(_)) => {
                    error.delivered == Delivered::Unknown
                }
                _ => false,
            };
            if open {
                self.takes(outcome.weight());
                life.outcome = Some(outcome);
            }
            open
        })
    }

    /// The connection is lost, and with `dismissed` nobody is to come back by himself.
    pub(super) fn cut(&self, why: &str, dismissed: bool) {
        match self.what {
            What::Message => drop(self.settle(Outcome::Failed(reset(why)))),
            What::Proposal { .. } if dismissed => {
                let why = format!("{why}; a decision may be made, and the next call asks for it");
                self.settle(Outcome::Failed(reset(&why)));
            }
            What::Proposal { .. } => self.life.send_modify(|life| life.cuts += 1),
        }
    }

    /// A decision may still be heard, on this connection or the next one.
    pub(crate) fn awaits_decision(&self) -> bool {
        let late = self.over_at().is_none_or(|over| over <= Instant::now());
        !late && self.life.borrow().awaits_decision()
    }

    /// There is a connection again: a proposal that failed because there was to be none waits for its decision as before.
    /// Says whether it does.
    pub(super) fn reopen(&self) -> bool {
        let awaits = self.awaits_decision();
        self.life.send_if_modified(|life| {
            awaits && life.awaits_decision() && life.outcome.take().is_some()
        });
        awaits
    }

    /// When nothing can be expected any more.
    pub(super) fn over_at(&self) -> Option<Instant> {
        match self.what {
            What::Message => None,
            What::Proposal { by } => Some(by + GRACE),
        }
    }

    pub(super) fn look_at_the_clock(&self) {
        if self.over_at().is_some_and(|over| over <= Instant::now()) {
            self.settle(Outcome::Failed(undecided()));
        }
    }

    /// Somebody waits for what comes of it, as long as the result is held.
    pub(crate) fn awaited(self: &Arc<Self>) -> Awaited {
        self.awaited.fetch_add(1, Ordering::SeqCst);
        Awaited(Arc::clone(self))
    }

    async fn outcome(&self, until: Instant) -> Option<Outcome> {
        let until = self.over_at().map_or(until, |over| over.min(until));
        let mut life = self.life.subscribe();
        let came = timeout_at(until, life.wait_for(|life| life.outcome.is_some()));
        // The sender lives as long as `self`, so only the clock ends the wait without an outcome.
        drop(came.await);
        self.look_at_the_clock();
        self.life.borrow().outcome.clone()
    }

    /// How many times it has been sent again, this one counted; `None` where nobody wants it any more.
    pub(crate) fn again(&self) -> Option<usize> {
        let wanted = !self.sending.while_awaited || self.awaited.load(Ordering::SeqCst) > 0;
        wanted.then(|| self.tries.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The task as it stands.
    ///
    /// # Errors
    /// None that is known: what is written here is read here.
    pub(crate) fn task(&self) -> Result<Task, PeerError> {
        self.look_at_the_clock();
        let life = self.life.borrow();
        read(wording::task(self, &life.steps, life.outcome.as_ref()))
    }

    /// The task as far as anybody has heard of it, which is where who listens next begins.
    ///
    /// # Errors
    /// As [`task`](Self::task).
    pub(crate) fn task_as_heard(&self) -> Result<Task, PeerError> {
        self.look_at_the_clock();
        read(self.as_heard(&self.life.borrow()).0)
    }

    /// The task as far as anybody has heard of it, how many steps that is, and whether it is all there is to tell.
    pub(super) fn as_heard(&self, life: &Life) -> (Value, usize, bool) {
        let steps = &life.steps[..self.heard.load(Ordering::SeqCst).min(life.steps.len())];
        let untold = steps.len() < life.steps.len();
        let outcome = life.outcome.as_ref().filter(|_| !untold);
        let task = wording::task(self, steps, outcome);
        (task, steps.len(), outcome.is_some())
    }

    /// Somebody has been told so many steps.
    pub(super) fn is_heard(&self, steps: usize) {
        self.heard.fetch_max(steps, Ordering::SeqCst);
    }

    /// Everything that happens to it, beginning where nobody has listened yet. Steps that come before anybody can listen, as
    /// votes do that are cast at once, are told like all others.
    pub(crate) fn listen(self: &Arc<Self>) -> Box<dyn EventStream> {
        Box::new(Listener::new(Arc::clone(self), self.life.subscribe()))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::SeqCst);
        self.all.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// An entry that somebody waits for. It is made before the message is sent, since an answer may come before the sending
/// is over.
pub(crate) struct Awaited(Arc<Entry>);

impl Awaited {
    /// What came of it, waiting until `until` at most.
    pub(crate) async fn outcome(&self, until: Instant) -> Option<Outcome> {
        self.0.outcome(until).await
    }
}

impl Deref for Awaited {
    type Target = Arc<Entry>;

    fn deref(&self) -> &Arc<Entry> {
        &self.0
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::SeqCst);
    }
}

fn read(task: Value) -> Result<Task, PeerError> {
    Task::read(task).map_err(|e| PeerError::new(PeerErrorKind::InvalidResponse, e.to_string()))
}

fn undecided() -> PeerError {
    let message =
        "unknown - decision may have been made: the deadline has passed and no decision has come";
    PeerError::new(
        PeerErrorKind::Gateway(ErrorCode::ConnectionTimeout),
        message,
    )
}
