//! The connection to a gateway after the handshake.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::pending_tasks::PendingTasks;
use crate::settings::Settings;
use base::environment::Environment;
use base::log::{Level, Log};
use collective::{Channel, CloseCode, Envelope, EnvelopeError, ErrorCode, Kind, SUBPROTOCOL};
use egress::websocket::Sender;
use egress::{NetError, Sent};
use peer::{Delivered, PeerError, PeerErrorKind};

use super::registry::AgentRegistry;

/// The prefix of the correlation ids of subscription requests.
const SUBSCRIPTION_ID_PREFIX: &str = "sub-";

/// Converts envelopes to frames and back. Older dialects use other names for the same fields and types.
pub(crate) struct DialectCodec {
    /// The dialect's name in results.
    pub(crate) dialect: &'static str,
    /// Whether the gateway itself runs the triad.
    pub(crate) has_triad: bool,
    /// Encodes an envelope as a frame.
    pub(crate) encode: fn(Envelope) -> String,
    /// Decodes a frame.
    pub(crate) decode: fn(&str) -> Result<Envelope, EnvelopeError>,
}

/// The codec of `a2a-v1`.
pub(super) const A2A_V1: DialectCodec = DialectCodec {
    dialect: SUBPROTOCOL,
    has_triad: true,
    encode: |envelope| envelope.to_text(),
    decode: Envelope::parse,
};

/// The connection, shared by its reader and all callers.
pub(crate) struct A2aV1Connection {
    pub(super) codec: &'static DialectCodec,
    /// `None` once the connection has ended. Dropping the sender closes the socket.
    sender: Mutex<Option<Sender>>,
    close_reason: Mutex<Option<CloseReason>>,
    /// Cancelled when the connection ends.
    pub(super) closed: CancellationToken,
    pub(super) settings: Arc<Settings>,
    pub(super) env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    pub(super) tasks: Arc<PendingTasks>,
    pub(crate) agents: AgentRegistry,
    /// Whether a ping was sent that the gateway has not yet answered with a pong or an error.
    pub(super) pinging: AtomicBool,
    /// Whether the gateway sets the status of signatures itself.
    pub(super) marks_signatures: bool,
}

struct CloseReason {
    reason: String,
    dismissed: bool,
}

impl A2aV1Connection {
    pub(crate) fn new(
        codec: &'static DialectCodec,
        sender: Sender,
        settings: Arc<Settings>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        tasks: Arc<PendingTasks>,
    ) -> Self {
        Self {
            codec,
            sender: Mutex::new(Some(sender)),
            close_reason: Mutex::default(),
            closed: CancellationToken::new(),
            settings,
            env,
            log,
            tasks,
            agents: AgentRegistry::default(),
            pinging: AtomicBool::new(false),
            marks_signatures: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    pub(super) fn close_reason(&self) -> Option<String> {
        let close_reason = self.close_reason.lock();
        close_reason
            .as_ref()
            .map(|close_reason| close_reason.reason.clone())
    }

    pub(super) fn is_dismissed(&self) -> bool {
        let close_reason = self.close_reason.lock();
        close_reason
            .as_ref()
            .is_some_and(|close_reason| close_reason.dismissed)
    }

    /// Marks the connection as closed and fails all waiting callers. Only the first call has an effect.
    pub(super) fn mark_closed(&self, reason: &str, dismissed: bool) {
        {
            let mut close_reason = self.close_reason.lock();
            if close_reason.is_some() {
                return;
            }
            *close_reason = Some(CloseReason {
                reason: reason.to_owned(),
                dismissed,
            });
        }
        self.closed.cancel();
        self.sender.lock().take();
        self.agents.connection_lost(reason);
        self.tasks.connection_lost(reason, dismissed);
        self.debug(|| format!("the connection has ended: {reason}"));
    }

    /// Closes the connection with a close code because of a frame that the gateway sent.
    pub(super) async fn close_with(&self, code: CloseCode, reason: &str) {
        let sender = self.sender();
        self.mark_closed(reason, false);
        if let Some(sender) = sender {
            let close = sender.close(code.number(), reason);
            drop(timeout(super::CLOSE_TIMEOUT, close).await);
        }
    }

    /// Sends a last envelope and closes.
    pub(super) async fn disconnect(&self, message: Envelope) {
        if let Some(sender) = self.sender() {
            // The connection closes even if the gateway does not receive the envelope.
            drop(sender.text((self.codec.encode)(message)).await);
            drop(sender.close(CloseCode::Normal.number(), "").await);
        }
    }

    fn sender(&self) -> Option<Sender> {
        self.sender.lock().clone()
    }

    /// Returns an envelope with a fresh id and the current time.
    pub(super) fn envelope(&self, kind: Kind, content: Value) -> Envelope {
        Envelope::new(kind, content)
            .with("id", new_id(&*self.env))
            .with("timestamp", self.env.unix_millis())
    }

    /// Sends an envelope.
    ///
    /// # Errors
    /// See [`send_frame`](Self::send_frame).
    pub(super) async fn send(&self, envelope: Envelope) -> Result<(), PeerError> {
        self.send_frame((self.codec.encode)(envelope)).await
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// 1003 if the frame could not be sent; the connection is then closed. `delivered` states whether any byte was sent.
    pub(super) async fn send_frame(&self, frame: String) -> Result<(), PeerError> {
        let Some(sender) = self.sender() else {
            let reason = self.close_reason().unwrap_or_default();
            return Err(lost_error(&reason, Sent::No));
        };
        let sent = timeout(self.settings.timeout, sender.text(frame)).await;
        let error: NetError = match sent {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => {
                let reason = "the gateway reads no more";
                self.mark_closed(reason, false);
                return Err(lost_error(reason, Sent::Unknown));
            }
        };
        self.mark_closed(&error.to_string(), false);
        Err(lost_error(&error.to_string(), error.sent()))
    }

    /// Subscribes to the status of agents. Ignores the error of a gateway without that channel.
    pub(super) async fn subscribe(&self) {
        let mut content = json!({"channel": Channel::Status.as_str()});
        if !self.settings.agents.is_empty() {
            content["agents"] = json!(self.settings.agents);
        }
        self.send_subscribe(content).await;
        if self.tasks.reopen() {
            // Decisions on proposals from earlier connections.
            self.send_subscribe(json!({"channel": Channel::Decisions.as_str()}))
                .await;
        }
    }

    async fn send_subscribe(&self, content: Value) {
        let request = self.envelope(Kind::Subscribe, content);
        let id = format!("{SUBSCRIPTION_ID_PREFIX}{}", self.env.uuid());
        let request = request.with_metadata("correlationId", id);
        // If the connection is lost here, the next send fails.
        drop(self.send(request).await);
    }

    /// Returns whether an error answers a subscription. Subscriptions are optional for a gateway.
    pub(super) fn answers_subscription(error: &Envelope) -> bool {
        error
            .correlation_id()
            .is_some_and(|id| id.starts_with(SUBSCRIPTION_ID_PREFIX))
    }

    pub(super) fn warn(&self, line: &str) {
        self.log.log(Level::Warn, &format!("gateway: {line}"));
    }

    pub(super) fn debug(&self, line: impl FnOnce() -> String) {
        if self.log.enabled(Level::Debug) {
            self.log.log(Level::Debug, &format!("gateway: {}", line()));
        }
    }
}

/// Returns a new message id (Heretek A2A §4.4).
pub(crate) fn new_id(env: &dyn Environment) -> String {
    format!("msg-{}", env.uuid())
}

fn lost_error(reason: &str, sent: Sent) -> PeerError {
    let message = format!("the connection to the gateway was lost: {reason}");
    let mut error = PeerError::new(PeerErrorKind::Gateway(ErrorCode::ConnectionReset), message);
    if sent == Sent::No {
        error.delivered = Delivered::No;
    }
    error
}
