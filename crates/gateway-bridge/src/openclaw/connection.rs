//! The connection: sends requests, and dispatches responses to callers and events to subscribers.
//!
//! All calls of an instance share it. One tokio task reads it ([`run_reader`]); callers write to it directly.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::dial::explain_close;
use crate::settings::{Settings, is_keep_alive, without_token};
use base::json::{self, Limits};
use base::log::{Level, Log};
use collective::{CloseCode, ErrorCode};
use egress::websocket::{Frame, Receiver, Sender};
use peer::{PeerError, PeerErrorKind};

use super::outcome::{RunCache, goes_on};
use super::protocol::{Incoming, RequestError, RpcError};
use super::run_event::{RunEvent, RunEventDecoder, RunEventReceiver, Subscriber};
use super::{PROTOCOL, protocol, run_event};

/// The maximum number of pending requests. The request that starts a run is pending until the run ends.
const MAX_PENDING_REQUESTS: usize = 1024;

/// The limits of a response. A transcript may be large.
const RESPONSE_LIMITS: Limits = Limits {
    memory: 64 << 20,
    ..Limits::NONE
};

/// The number of invalid messages that closes the connection.
const MAX_BAD_FRAMES: usize = 5;

/// How long the gateway has to answer a close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The shared connection.
pub(super) struct OpenClawConnection {
    timeout: Duration,
    max_frame_bytes: usize,
    /// The runs of this and of earlier connections. Lock it after `state`.
    runs: Arc<Mutex<RunCache>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` once the connection is over. Dropping the sender closes the socket.
    sender: Option<Sender>,
    pending: HashMap<u64, Pending>,
    subscribers: HashMap<String, Vec<Subscriber>>,
    /// Callers that wait for the end of the connection.
    close_listeners: Vec<oneshot::Sender<()>>,
    /// The next id of a request or subscriber.
    next: u64,
    /// Why the connection ended; `None` while it is open.
    close_error: Option<PeerError>,
}

/// A pending request.
enum Pending {
    /// A request with one response.
    Once(oneshot::Sender<Result<Value, RpcError>>),
    /// A request that starts a run. The gateway responds when it accepts the run, and again when the run ends.
    Run {
        run: String,
        accepted: Option<oneshot::Sender<Result<Value, RpcError>>>,
    },
}

/// Removes the pending request when its caller stops waiting.
struct PendingGuard<'a> {
    connection: &'a OpenClawConnection,
    id: u64,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.state.lock();
        if matches!(state.pending.get(&self.id), Some(Pending::Once(_))) {
            state.pending.remove(&self.id);
        }
    }
}

impl OpenClawConnection {
    /// Creates the connection after the handshake. A request times out after `timeout` and has at most `max_frame_bytes` bytes.
    pub(super) fn new(
        sender: Sender,
        timeout: Duration,
        max_frame_bytes: usize,
        runs: Arc<Mutex<RunCache>>,
    ) -> Self {
        Self {
            timeout,
            max_frame_bytes,
            runs,
            state: Mutex::new(State {
                sender: Some(sender),
                ..State::default()
            }),
        }
    }

    /// Returns whether the connection may still receive frames.
    pub(super) fn is_open(&self) -> bool {
        self.state.lock().close_error.is_none()
    }

    /// Calls `look` with the cached runs.
    pub(super) fn with_runs<T>(&self, look: impl FnOnce(&mut RunCache) -> T) -> T {
        look(&mut self.runs.lock())
    }

    /// Sends a request and waits for the response. Adds `extra_time` to the usual timeout.
    pub(super) async fn request(
        &self,
        method: &str,
        params: &Value,
        extra_time: Duration,
    ) -> Result<Value, RequestError> {
        let (answer, answered) = oneshot::channel();
        self.send_request(method, params, Pending::Once(answer), answered, extra_time)
            .await
    }

    /// Starts a run and returns the first response.
    pub(super) async fn start_run(&self, run: &str, params: &Value) -> Result<Value, RequestError> {
        let (accepted, answered) = oneshot::channel();
        let pending = Pending::Run {
            run: run.to_owned(),
            accepted: Some(accepted),
        };
        self.send_request("agent", params, pending, answered, Duration::ZERO)
            .await
    }

    /// Adds a subscriber to `run`.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn add_subscriber(&self, run: &str) -> Result<RunEventReceiver, PeerError> {
        let mut state = self.state.lock();
        if let Some(close_error) = &state.close_error {
            return Err(close_error.clone().undelivered());
        }
        let (subscriber, events) = Subscriber::new(state.next_id());
        let subscribers = state.subscribers.entry(run.to_owned()).or_default();
        subscribers.push(subscriber);
        Ok(events)
    }

    /// Removes a subscriber from `run`.
    pub(super) fn remove_subscriber(&self, run: &str, id: u64) {
        let mut state = self.state.lock();
        if let Some(subscribers) = state.subscribers.get_mut(run) {
            subscribers.retain(|subscriber| subscriber.id != id);
            if subscribers.is_empty() {
                state.subscribers.remove(run);
            }
        }
    }

    async fn send_request(
        &self,
        method: &str,
        params: &Value,
        pending: Pending,
        answered: oneshot::Receiver<Result<Value, RpcError>>,
        extra_time: Duration,
    ) -> Result<Value, RequestError> {
        let (id, frame, sender) = self
            .register(method, params, pending)
            .map_err(RequestError::Connection)?;
        let _guard = PendingGuard {
            connection: self,
            id,
        };
        let exchange = async {
            let mut answered = answered;
            let result = tokio::select! {
                biased;
                sent = sender.text(frame) => match sent {
                    Ok(()) => answered.await,
                    Err(error) => {
                        self.state.lock().pending.remove(&id);
                        return Err(RequestError::Connection(protocol::not_sent(&error)));
                    }
                },
                // The connection may end while the send is blocked.
                result = &mut answered => result,
            };
            match result {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(rpc_error)) => Err(RequestError::Refused(rpc_error)),
                Err(_) => Err(RequestError::Connection(self.close_error())),
            }
        };
        let result = tokio::time::timeout(self.timeout + extra_time, exchange).await;
        result.unwrap_or_else(|_| {
            self.state.lock().pending.remove(&id);
            Err(RequestError::Connection(PeerError::new(
                PeerErrorKind::Gateway(ErrorCode::ConnectionTimeout),
                format!(
                    "the gateway did not answer `{method}` within {} ms; it may have executed the request",
                    (self.timeout + extra_time).as_millis()
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
        let mut state = self.state.lock();
        let Some(sender) = state.sender.clone() else {
            return Err(state.close_error().undelivered());
        };
        if state.pending.len() >= MAX_PENDING_REQUESTS {
            let message = format!(
                "{MAX_PENDING_REQUESTS} requests to the gateway are already pending; try again later"
            );
            return Err(refused(ErrorCode::AgentBusy, message));
        }
        let id = state.next_id();
        let frame = protocol::request(&id.to_string(), method, params);
        if frame.len() > self.max_frame_bytes {
            let message = format!(
                "the encoded message has {} bytes, and the gateway accepts at most {}; send less, or send the file's URL",
                frame.len(),
                self.max_frame_bytes
            );
            return Err(refused(ErrorCode::InvalidContent, message));
        }
        state.pending.insert(id, pending);
        Ok((id, frame, sender))
    }

    /// Handles an incoming frame. Returns `false` if it is invalid.
    pub(super) fn handle_frame(&self, text: &str) -> bool {
        let Ok(text) = json::text(text.as_bytes()) else {
            return false;
        };
        match protocol::read(&text) {
            Some(Incoming::Response { id, answer }) => {
                if let Ok(id) = id.parse() {
                    self.answer(id, answer);
                }
                true
            }
            Some(Incoming::Event { name, payload }) => {
                if let (true, Some(payload)) = (name == "agent", payload) {
                    self.dispatch_event(payload);
                }
                true
            }
            Some(Incoming::Other) => true,
            None => false,
        }
    }

    fn answer(&self, id: u64, answer: Result<&RawValue, RpcError>) {
        let mut state = self.state.lock();
        let Some(pending) = state.pending.remove(&id) else {
            return;
        };
        let size = answer.as_ref().map_or(0, |answer| answer.get().len());
        let answer = answer.and_then(|answer| {
            json::from_str::<Value>(answer.get(), RESPONSE_LIMITS).map_err(RpcError::unreadable)
        });
        let (run, accepted) = match pending {
            Pending::Once(sender) => {
                // The caller may have stopped waiting.
                let _ = sender.send(answer);
                return;
            }
            Pending::Run { run, accepted } => (run, accepted),
        };
        if answer.as_ref().is_ok_and(goes_on) {
            let accepted_before = Pending::Run {
                run,
                accepted: None,
            };
            state.pending.insert(id, accepted_before);
        } else {
            if let Ok(response) = &answer {
                self.runs.lock().set_response(&run, response, size);
            }
            if accepted.is_none() {
                let event = match answer {
                    Ok(response) => RunEvent::Ended(response),
                    Err(rpc_error) if rpc_error.is_unreadable() => {
                        RunEvent::Abandoned(rpc_error.text())
                    }
                    Err(rpc_error) => RunEvent::Abandoned(format!(
                        "the gateway abandoned the run: {}",
                        rpc_error.text()
                    )),
                };
                state.deliver(&run, size, |_| Some(event.clone()));
                return;
            }
        }
        if let Some(accepted) = accepted {
            let _ = accepted.send(answer);
        }
    }

    /// Delivers an event to the subscribers of its run. Most events belong to runs of other operators.
    fn dispatch_event(&self, payload: &RawValue) {
        let mut state = self.state.lock();
        if state.subscribers.is_empty() {
            return;
        }
        if let Some(run) = run_event::run_of(payload) {
            state.deliver(&run, payload.get().len(), |decoder| decoder.decode(payload));
        }
    }

    /// Marks the connection as closed, and fails pending requests with the reason.
    pub(super) fn mark_closed(&self, error: PeerError) {
        let mut state = self.state.lock();
        state.close_error.get_or_insert(error);
        state.sender = None;
        // Waiting callers see a closed channel and read the reason.
        state.pending.clear();
        state.subscribers.clear();
        state.close_listeners.clear();
    }

    /// Resolves when the connection has ended.
    pub(super) async fn closed(&self) {
        let (end, ended) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.close_error.is_some() {
                return;
            }
            state.close_listeners.push(end);
        }
        // The sender is only dropped, never used.
        let _ = ended.await;
    }

    /// Closes the sending side.
    pub(super) async fn close(&self) {
        let sender = self.state.lock().sender.clone();
        if let Some(sender) = sender {
            // A connection that is already closed needs no close frame.
            let _ = sender.close(CloseCode::Normal.number(), "").await;
        }
    }

    /// Sends a WebSocket ping.
    pub(super) async fn ping(&self) {
        let sender = self.state.lock().sender.clone();
        if let Some(sender) = sender {
            // The reader checks whether a pong arrives.
            let _ = sender.ping().await;
        }
    }

    /// Returns why the connection ended; `None` while it is open.
    pub(super) fn close_reason(&self) -> Option<String> {
        let state = self.state.lock();
        state
            .close_error
            .as_ref()
            .map(|close_error| close_error.message.clone())
    }

    pub(super) fn close_error(&self) -> PeerError {
        self.state.lock().close_error()
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn close_error(&self) -> PeerError {
        let error = self.close_error.clone();
        error.unwrap_or_else(|| protocol::connection_lost("it ended"))
    }

    /// Decodes an event for each subscriber of `run`. A subscriber that is too slow is removed.
    fn deliver(
        &mut self,
        run: &str,
        size: usize,
        mut decode: impl FnMut(&mut RunEventDecoder) -> Option<RunEvent>,
    ) {
        let Some(subscribers) = self.subscribers.get_mut(run) else {
            return;
        };
        subscribers.retain_mut(|subscriber| {
            let Some(event) = decode(&mut subscriber.decoder) else {
                return true;
            };
            subscriber.push(event, size)
        });
        if subscribers.is_empty() {
            self.subscribers.remove(run);
        }
    }
}

/// Reads until the connection ends. The gateway ticks at least every `period`. The client pings it after that much
/// silence, and closes the connection after twice as much.
pub(super) async fn run_reader(
    connection: Arc<OpenClawConnection>,
    mut receiver: Receiver,
    settings: Arc<Settings>,
    period: Duration,
    shutdown: CancellationToken,
    log: Arc<dyn Log>,
) {
    let mut received = Instant::now();
    let mut ping_pending = false;
    let mut invalid_frames = 0;
    let error = loop {
        let next = received + if ping_pending { period * 2 } else { period };
        tokio::select! {
            frame = receiver.next() => {
                match frame {
                    Frame::Text(text) if is_keep_alive(&text) => {}
                    Frame::Text(text) if connection.handle_frame(&without_token(&text, &settings)) => {
                        invalid_frames = 0;
                    }
                    Frame::Text(_) | Frame::Binary(_) => {
                        invalid_frames += 1;
                        log.log(Level::Debug, "ignored an invalid frame of the gateway");
                        if invalid_frames >= MAX_BAD_FRAMES {
                            let _ = timeout(CLOSE_TIMEOUT, connection.close()).await;
                            break PeerError::new(
                                PeerErrorKind::Gateway(ErrorCode::ProtocolError),
                                format!("the gateway sent {MAX_BAD_FRAMES} invalid frames in a row"),
                            );
                        }
                    }
                    Frame::Ping | Frame::Pong => {}
                    Frame::Closed { code, reason } => {
                        let reason = without_token(&reason, &settings);
                        break protocol::connection_lost(&explain_close(code, &reason, PROTOCOL));
                    }
                    Frame::Broken(error) => break protocol::connection_lost(&error.to_string()),
                }
                (received, ping_pending) = (Instant::now(), false);
            }
            () = sleep_until(next) => {
                if ping_pending {
                    break protocol::connection_lost(&format!("the gateway has been silent for {} ms", (period * 2).as_millis()));
                }
                ping_pending = true;
                // A blocked send must not delay the check for the end.
                let _ = timeout(period, connection.ping()).await;
            }
            () = shutdown.cancelled() => {
                let close = async {
                    connection.close().await;
                    while !matches!(receiver.next().await, Frame::Closed { .. } | Frame::Broken(_)) {}
                };
                // The gateway may not answer in time; close anyway.
                let _ = timeout(CLOSE_TIMEOUT, close).await;
                break protocol::connection_lost("this client closed it");
            }
        }
    };
    log.log(Level::Debug, &error.message);
    connection.mark_closed(error);
}
