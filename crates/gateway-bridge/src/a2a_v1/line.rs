//! The connection to a gateway that was greeted.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;
use crate::settings::Settings;
use collective::{CloseCode, Envelope, ErrorCode, Kind, Malformed, SUBPROTOCOL};
use common::environment::Environment;
use common::log::{Level, Log};
use egress::websocket::Sender;
use egress::{NetError, Sent};
use peer::{Delivered, PeerError, PeerErrorKind};

use super::roll::Roll;

/// The channel that tells how agents are (000 §6.2).
const AGENT_STATUS: &str = "agent:status";

/// The channel that tells what was decided, for who proposed it on a connection that is gone.
const DECISIONS: &str = "triad:decision";

/// What the correlation ids of subscriptions begin with.
const SUBSCRIPTION: &str = "sub-";

/// How envelopes are written and read. Gateways that came before `a2a-v1` have words of their own for the same things.
pub(crate) struct Speech {
    /// The dialect's name in results.
    pub(crate) dialect: &'static str,
    /// The gateway lets a triad vote.
    pub(crate) has_triad: bool,
    /// An envelope as a frame.
    pub(crate) write: fn(Envelope) -> String,
    /// A frame as an envelope.
    pub(crate) read: fn(&str) -> Result<Envelope, Malformed>,
}

/// `a2a-v1` itself.
pub(super) const A2A_V1: Speech = Speech {
    dialect: SUBPROTOCOL,
    has_triad: true,
    write: |envelope| envelope.to_text(),
    read: Envelope::read,
};

/// The connection, for whoever says something on it.
pub(crate) struct Line {
    pub(super) speech: &'static Speech,
    /// Gone when the connection has ended, so that the socket is closed.
    sender: Mutex<Option<Sender>>,
    ended: Mutex<Option<Ended>>,
    /// Cancelled when the connection has ended.
    pub(super) over: CancellationToken,
    pub(super) settings: Arc<Settings>,
    pub(super) env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
    pub(super) ledger: Arc<Ledger>,
    pub(crate) roll: Roll,
    /// A ping has gone out, and nothing has come since.
    pub(super) pinging: AtomicBool,
}

struct Ended {
    why: String,
    dismissed: bool,
}

impl Line {
    pub(crate) fn new(
        speech: &'static Speech,
        sender: Sender,
        settings: Arc<Settings>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            speech,
            sender: Mutex::new(Some(sender)),
            ended: Mutex::default(),
            over: CancellationToken::new(),
            settings,
            env,
            log,
            ledger,
            roll: Roll::default(),
            pinging: AtomicBool::new(false),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.over.is_cancelled()
    }

    pub(super) fn why_ended(&self) -> Option<String> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.as_ref().map(|ended| ended.why.clone())
    }

    pub(super) fn is_dismissed(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.as_ref().is_some_and(|ended| ended.dismissed)
    }

    /// The connection has ended. Whatever waits on it is told why; only the first reason counts.
    pub(super) fn end(&self, why: &str, dismissed: bool) {
        {
            let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if ended.is_some() {
                return;
            }
            *ended = Some(Ended {
                why: why.to_owned(),
                dismissed,
            });
        }
        self.over.cancel();
        self.sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.roll.give_up(why);
        self.ledger.cut(why, dismissed);
        self.debug(|| format!("the connection has ended: {why}"));
    }

    /// Ends the connection with a close code, because of what was heard.
    pub(super) async fn refuse(&self, code: CloseCode, why: &str) {
        let sender = self.sender();
        self.end(why, false);
        if let Some(sender) = sender {
            let close = sender.close(code.number(), why);
            drop(timeout(super::LEAVE, close).await);
        }
    }

    /// Says the last word and closes.
    pub(super) async fn leave(&self, word: Envelope) {
        if let Some(sender) = self.sender() {
            // Nobody is left to be told when this fails.
            drop(sender.text((self.speech.write)(word)).await);
            drop(sender.close(CloseCode::Normal.number(), "").await);
        }
    }

    fn sender(&self) -> Option<Sender> {
        self.sender
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// An envelope with an id and the time.
    pub(super) fn envelope(&self, kind: Kind, content: Value) -> Envelope {
        let id = format!("msg-{}", self.env.uuid());
        Envelope::new(kind, content)
            .with("id", id)
            .with("timestamp", self.millis())
    }

    /// Milliseconds since 1970.
    pub(super) fn millis(&self) -> u64 {
        let since = self
            .env
            .system_time()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// Sends an envelope.
    ///
    /// # Errors
    /// As [`say`](Self::say).
    pub(super) async fn tell(&self, envelope: Envelope) -> Result<(), PeerError> {
        self.say((self.speech.write)(envelope)).await
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// 1003, and whether any of it left. The connection has ended then.
    pub(super) async fn say(&self, frame: String) -> Result<(), PeerError> {
        let Some(sender) = self.sender() else {
            let why = self.why_ended().unwrap_or_default();
            return Err(lost(&why, Sent::No));
        };
        let sent = timeout(self.settings.timeout, sender.text(frame)).await;
        let error: NetError = match sent {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => {
                let why = "the gateway takes no more";
                self.end(why, false);
                return Err(lost(why, Sent::Unknown));
            }
        };
        self.end(&error.to_string(), false);
        Err(lost(&error.to_string(), error.sent()))
    }

    /// Asks to be told how agents are. Gateways that do not know how to are none the worse.
    pub(super) async fn subscribe(&self) {
        let mut content = json!({"channel": AGENT_STATUS});
        if !self.settings.agents.is_empty() {
            content["agents"] = json!(self.settings.agents);
        }
        self.listen_to(content).await;
        if self.ledger.reopen() {
            self.listen_to(json!({"channel": DECISIONS})).await;
        }
    }

    async fn listen_to(&self, content: Value) {
        let asked = self.envelope(Kind::Subscribe, content);
        let id = format!("{SUBSCRIPTION}{}", self.env.uuid());
        let asked = asked.with_metadata("correlationId", id);
        // A connection that is lost here is found out by whoever uses it.
        drop(self.tell(asked).await);
    }

    /// Whether an error is about a subscription, which a gateway may do without.
    pub(super) fn is_of_subscription(error: &Envelope) -> bool {
        error
            .correlation_id()
            .is_some_and(|id| id.starts_with(SUBSCRIPTION))
    }

    pub(super) fn warn(&self, line: &str) {
        self.log.log(Level::Warn, &format!("gateway: {line}"));
    }

    pub(super) fn debug(&self, line: impl FnOnce() -> String) {
        if self.log.wants(Level::Debug) {
            self.log.log(Level::Debug, &format!("gateway: {}", line()));
        }
    }
}

fn lost(why: &str, sent: Sent) -> PeerError {
    let message = format!("the connection to the gateway was lost: {why}");
    let mut error = PeerError::new(PeerErrorKind::Gateway(ErrorCode::ConnectionReset), message);
    if sent == Sent::No {
        error.delivered = Delivered::No;
    }
    error
}
