//! The one connection: requests out, responses to whoever asked, events to whoever listens.
//!
//! All calls of an instance share it. A task of its own reads it (`carry.rs`); callers write to it directly.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use collective::{CloseCode, ErrorCode};
use egress::websocket::Sender;
use peer::{PeerError, PeerErrorKind, excerpt};

use super::frames::{self, Incoming, Refusal};
use super::listening::{Listener, Listening};
use super::refusal::{self, Failure};
use super::runs::Runs;
use super::said::{self, Ear, Said};

/// So many requests may be without an answer at a time. A run counts until it is over.
const MOST_PENDING: usize = 1024;

/// The connection, for everybody who uses it.
pub(super) struct Line {
    timeout: Duration,
    largest: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Gone when the connection is over, so that the socket is closed.
    sender: Option<Sender>,
    pending: HashMap<u64, Pending>,
    listeners: HashMap<String, Vec<Listener>>,
    runs: Runs,
    /// Whoever waits for the end.
    ends: Vec<oneshot::Sender<()>>,
    /// The next request's id, and the next listener's.
    next: u64,
    /// Why nothing will come any more.
    over: Option<PeerError>,
}

/// A request without an answer.
enum Pending {
    /// It is answered once.
    Once(oneshot::Sender<Result<Value, Refusal>>),
    /// It begins a run: it is answered when that is accepted, and once more when it is over.
    Run {
        run: String,
        accepted: Option<oneshot::Sender<Result<Value, Refusal>>>,
    },
}

/// A request that nobody waits for any more is forgotten.
struct Asked<'a> {
    line: &'a Line,
    id: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = self.line.state();
        if matches!(state.pending.get(&self.id), Some(Pending::Once(_))) {
            state.pending.remove(&self.id);
        }
    }
}

impl Line {
    /// A connection that was greeted. A request waits `timeout` for its answer and has at most `largest` bytes.
    pub(super) fn new(sender: Sender, timeout: Duration, largest: usize) -> Self {
        Self {
            timeout,
            largest,
            state: Mutex::new(State {
                sender: Some(sender),
                ..State::default()
            }),
        }
    }

    /// Something may still come.
    pub(super) fn is_open(&self) -> bool {
        self.state().over.is_none()
    }

    /// What is known of the runs that were begun over this connection.
    pub(super) fn with_runs<T>(&self, look: impl FnOnce(&mut Runs) -> T) -> T {
        look(&mut self.state().runs)
    }

    /// Asks and waits for the answer, for `longer` than usual.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &Value,
        longer: Duration,
    ) -> Result<Value, Failure> {
        let (answer, answered) = oneshot::channel();
        self.ask(method, params, Pending::Once(answer), answered, longer)
            .await
    }

    /// Begins a run and listens to it. The answer is the first one: accepted, or over already where the run was begun before.
    pub(super) async fn start(
        self: &Arc<Self>,
        run: &str,
        params: &Value,
    ) -> Result<(Value, Listening), Failure> {
        let listening = self.listen(run).map_err(Failure::Down)?;
        let (accepted, answered) = oneshot::channel();
        let pending = Pending::Run {
            run: run.to_owned(),
            accepted: Some(accepted),
        };
        let answer = self
            .ask("agent", params, pending, answered, Duration::ZERO)
            .await?;
        Ok((answer, listening))
    }

    /// Listens to what is said of `run` from now on.
    pub(super) fn listen(self: &Arc<Self>, run: &str) -> Result<Listening, PeerError> {
        let mut state = self.state();
        if let Some(over) = &state.over {
            return Err(over.clone().undelivered());
        }
        let id = state.fresh();
        let (listener, heard) = Listener::new(id);
        let listening = Listening::new(Arc::clone(self), run, &listener, heard);
        state
            .listeners
            .entry(run.to_owned())
            .or_default()
            .push(listener);
        Ok(listening)
    }

    /// Nobody listens by this id any more.
    pub(super) fn ignore(&self, run: &str, id: u64) {
        let mut state = self.state();
        if let Some(listeners) = state.listeners.get_mut(run) {
            listeners.retain(|listener| listener.id != id);
            if listeners.is_empty() {
                state.listeners.remove(run);
            }
        }
    }

    async fn ask(
        &self,
        method: &str,
        params: &Value,
        pending: Pending,
        answered: oneshot::Receiver<Result<Value, Refusal>>,
        longer: Duration,
    ) -> Result<Value, Failure> {
        let (id, frame, sender) = self
            .register(method, params, pending)
            .map_err(Failure::Down)?;
        let _asked = Asked { line: self, id };
        let exchange = async {
            let mut answered = answered;
            let came = tokio::select! {
                biased;
                sent = sender.text(frame) => match sent {
                    Ok(()) => answered.await,
                    Err(error) => {
                        self.state().pending.remove(&id);
                        return Err(Failure::Down(refusal::unsent(&error)));
                    }
                },
                // The connection may end while it takes nothing any more.
                came = &mut answered => came,
            };
            match came {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(refusal)) => Err(Failure::Refused(refusal)),
                Err(_) => Err(Failure::Down(self.why_over())),
            }
        };
        let waited = tokio::time::timeout(self.timeout + longer, exchange).await;
        waited.unwrap_or_else(|_| {
            self.state().pending.remove(&id);
            Err(Failure::Down(PeerError::new(
                PeerErrorKind::Gateway(ErrorCode::ConnectionTimeout),
                format!(
                    "the gateway has not answered `{method}` within {} ms; whether it did it is unknown",
                    (self.timeout + longer).as_millis()
                ),
            )))
        })
    }

    fn register(
        &self,
        method: &str,
        params: &Value,
        pending: Pending,
    ) -> Result<(u64, String, Sender), PeerError> {
        let refused = |code, message: String| {
            PeerError::new(PeerErrorKind::Gateway(code), message).undelivered()
        };
        let mut state = self.state();
        let Some(sender) = state.sender.clone() else {
            return Err(state.why_over().undelivered());
        };
        if state.pending.len() >= MOST_PENDING {
            let message = format!(
                "{MOST_PENDING} requests to the gateway are under way already; try again when some are done"
            );
            return Err(refused(ErrorCode::AgentBusy, message));
        }
        let id = state.fresh();
        let frame = frames::request(&id.to_string(), method, params);
        if frame.len() > self.largest {
            let message = format!(
                "the message has {} bytes as it goes to the gateway, which takes at most {}; send less, or a URL of the file",
                frame.len(),
                self.largest
            );
            return Err(refused(ErrorCode::InvalidContent, message));
        }
        state.pending.insert(id, pending);
        Ok((id, frame, sender))
    }

    /// What has come in. `false` where it is no frame.
    pub(super) fn hear(&self, text: &str) -> bool {
        match frames::read(text) {
            Some(Incoming::Response { id, answer }) => {
                if let Ok(id) = id.parse() {
                    self.answer(id, answer);
                }
                true
            }
            Some(Incoming::Event { name, payload }) => {
                if let (true, Some(payload)) = (name == "agent", payload) {
                    self.spread(payload);
                }
                true
            }
            Some(Incoming::Other) => true,
            None => false,
        }
    }

    fn answer(&self, id: u64, answer: Result<&RawValue, Refusal>) {
        let mut state = self.state();
        let Some(pending) = state.pending.remove(&id) else {
            return;
        };
        let size = answer.as_ref().map_or(0, |answer| answer.get().len());
        let answer =
            answer.map(|answer| serde_json::from_str::<Value>(answer.get()).unwrap_or_default());
        let (run, accepted) = match pending {
            Pending::Once(waits) => {
                // Who asked may have gone.
                let _ = waits.send(answer);
                return;
            }
            Pending::Run { run, accepted } => (run, accepted),
        };
        let is_begun = answer
            .as_ref()
            .is_ok_and(|answer| answer["status"] == "accepted");
        if is_begun {
            let accepted_before = Pending::Run {
                run,
                accepted: None,
            };
            state.pending.insert(id, accepted_before);
        } else {
            if let Ok(response) = &answer {
                state.runs.over(&run, response, size);
            }
            if accepted.is_none() {
                let said = match answer {
                    Ok(response) => Said::Over(response),
                    Err(refusal) => Said::GivenUp(format!(
                        "the gateway gave the run up: {}",
                        excerpt(&refusal.message)
                    )),
                };
                state.tell(&run, size, |_| Some(said.clone()));
                return;
            }
        }
        if let Some(accepted) = accepted {
            let _ = accepted.send(answer);
        }
    }

    /// An event goes to whoever listens to its run. Most runs on a gateway are somebody else's.
    fn spread(&self, payload: &RawValue) {
        let mut state = self.state();
        if state.listeners.is_empty() {
            return;
        }
        if let Some(run) = said::run_of(payload) {
            state.tell(&run, payload.get().len(), |ear| ear.hear(payload));
        }
    }

    /// Nothing will come any more, for this reason. What is under way fails with it.
    pub(super) fn end(&self, why: PeerError) {
        let mut state = self.state();
        state.over.get_or_insert(why);
        state.sender = None;
        // Who waits finds the other end gone and asks why.
        state.pending.clear();
        state.listeners.clear();
        state.ends.clear();
    }

    /// Resolves when nothing will come any more.
    pub(super) async fn over(&self) {
        let (end, ended) = oneshot::channel();
        {
            let mut state = self.state();
            if state.over.is_some() {
                return;
            }
            state.ends.push(end);
        }
        // The other end is dropped, never sent.
        let _ = ended.await;
    }

    /// Says that nothing more will come from here.
    pub(super) async fn close(&self) {
        let sender = self.state().sender.clone();
        if let Some(sender) = sender {
            // Closed before is closed.
            let _ = sender.close(CloseCode::Normal.number(), "").await;
        }
    }

    /// Asks whether the gateway is there.
    pub(super) async fn ping(&self) {
        let sender = self.state().sender.clone();
        if let Some(sender) = sender {
            // Whether it is shows in what comes back.
            let _ = sender.ping().await;
        }
    }

    /// Why nothing will come any more; `None` while something may.
    pub(super) fn ended(&self) -> Option<String> {
        let state = self.state();
        state.over.as_ref().map(|over| over.message.clone())
    }

    pub(super) fn why_over(&self) -> PeerError {
        self.state().why_over()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn why_over(&self) -> PeerError {
        let over = self.over.clone();
        over.unwrap_or_else(|| refusal::cut("it ended"))
    }

    /// Tells whoever listens to `run` what each hears in it. A listener that does not keep up is let go.
    fn tell(&mut self, run: &str, size: usize, mut hear: impl FnMut(&mut Ear) -> Option<Said>) {
        let Some(listeners) = self.listeners.get_mut(run) else {
            return;
        };
        listeners.retain_mut(|listener| {
            let Some(said) = hear(&mut listener.ear) else {
                return true;
            };
            listener.is_told(said, size)
        });
        if listeners.is_empty() {
            self.listeners.remove(run);
        }
    }
}
