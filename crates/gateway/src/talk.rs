//! What one client says, frame by frame: limits, credentials, form, and then the module of its type.

use std::sync::Arc;
use std::time::Duration;

use collective::{CloseCode, Envelope, ErrorCode, Kind, validate};

use super::access::RateLimit;
use super::audit::Outcome;
use super::client::Client;
use super::frames;
use super::hub::Hub;
use super::outbox::Close;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;

/// So many frames before the credential, and the connection ends.
const MAX_INVALID_MESSAGES: u32 = 3;

/// A frame that came too fast is looked into for the ids of its error up to this size, in bytes.
const MAX_SCANNED_BYTES: usize = 64 * 1024;

/// How a connection ends whose client does not authenticate.
pub(super) const NO_CREDENTIAL: Close = Close {
    code: CloseCode::Policy,
    reason: "a credential is needed first",
};

/// How a connection ends whose credential is no longer good.
pub(super) const EXPIRED: Close = Close {
    code: CloseCode::Policy,
    reason: "the credential has expired",
};

/// How a connection ends whose client speaks another version.
const OTHER_VERSION: Close = Close {
    code: CloseCode::Policy,
    reason: "another version of the protocol",
};

/// What who has such a connection is told.
pub(super) fn expired() -> Refusal {
    let message = "the credential of this connection has expired; connect again with a new one, or send `auth` with it before the old one ends";
    Refusal::new(ErrorCode::TokenExpired, message)
}

/// What one client says.
pub(super) struct Talk {
    pub(super) hub: Arc<Hub>,
    pub(super) client: Arc<Client>,
    rate: RateLimit,
    /// Frames in a row that came too fast.
    too_fast: u64,
    strikes: u32,
}

impl Talk {
    pub(super) fn new(hub: Arc<Hub>, client: Arc<Client>) -> Self {
        let limits = &hub.config.limits;
        let rate = RateLimit::new(limits.messages_per_second, limits.burst, hub.env.now());
        Self {
            hub,
            client,
            rate,
            too_fast: 0,
            strikes: 0,
        }
    }

    /// Takes a text frame. Gives the end of the connection, where it is that.
    pub(super) async fn text(&mut self, text: &str) -> Option<Close> {
        if let Err(wait) = self.rate.take(self.hub.env.now()) {
            return self.flooded(text, wait).await;
        }
        self.too_fast = 0;
        match Envelope::read(text) {
            Ok(envelope) => self.envelope(envelope).await,
            Err(malformed) => {
                self.hub.answer(&self.client, malformed.answer()).await;
                let refused = Outcome::Refused(malformed.code);
                self.hub.note(&self.client, None, None, refused);
                self.strike()
            }
        }
    }

    /// Takes a binary frame, which is no message.
    pub(super) async fn binary(&mut self) -> Option<Close> {
        if let Err(wait) = self.rate.take(self.hub.env.now()) {
            return self.flooded("", wait).await;
        }
        let message = "the frame is binary; messages are text, one JSON object each";
        let error = Envelope::error(ErrorCode::InvalidType, message, None);
        self.hub.answer(&self.client, error).await;
        let refused = Outcome::Refused(ErrorCode::InvalidType);
        self.hub.note(&self.client, None, None, refused);
        self.strike()
    }

    /// Counts what came before the credential.
    fn strike(&mut self) -> Option<Close> {
        if self.client.identity().is_some() {
            return None;
        }
        self.strikes += 1;
        (self.strikes >= MAX_INVALID_MESSAGES).then_some(NO_CREDENTIAL)
    }

    /// What comes too fast is refused and costs its sender the wait alone, unless it never lets up.
    async fn flooded(&mut self, text: &str, wait: Duration) -> Option<Close> {
        self.too_fast += 1;
        let limits = &self.hub.config.limits;
        let refusal = Refusal::busy(
            format!(
                "more than {} messages a second; this one was not taken, send it again later",
                limits.messages_per_second
            ),
            wait,
        );
        let read = (text.len() <= MAX_SCANNED_BYTES).then(|| Envelope::read(text).ok());
        let context = read.flatten().map(|envelope| ReplyContext::of(&envelope));
        let error = match &context {
            Some(context) => context.refuse(&refusal),
            None => refusal.answer(None),
        };
        self.hub.answer(&self.client, error).await;
        let refused = Outcome::Refused(refusal.code);
        self.hub.note(&self.client, context.as_ref(), None, refused);
        if self.too_fast <= limits.burst.saturating_mul(2).max(100) {
            return self.strike();
        }
        let farewell = frames::disconnect("error", "messages came too fast for too long");
        let _ = self.client.outbox.text(farewell);
        Some(Close {
            code: CloseCode::Policy,
            reason: "too many messages",
        })
    }

    async fn envelope(&mut self, envelope: Envelope) -> Option<Close> {
        let (hub, client) = (Arc::clone(&self.hub), Arc::clone(&self.client));
        let context = ReplyContext::of(&envelope);
        let from = envelope.from().map(str::to_owned);
        if envelope.kind() == Kind::Auth {
            return hub.authenticate(&client, &envelope, &context).await;
        }
        if client.has_expired(hub.env.system_time()) {
            let refusal = expired();
            hub.refuse(&client, &context, &refusal).await;
            let refused = Outcome::Refused(refusal.code);
            hub.note(&client, Some(&context), from.as_deref(), refused);
            return Some(EXPIRED);
        }
        let farewell = envelope.kind() == Kind::Disconnect;
        let done = match client.identity() {
            None => Err(hub.keyring.anonymous().err().map_or_else(
                || Refusal::new(ErrorCode::AuthRequired, "who this is has to be said first"),
                Refusal::from,
            )),
            Some(_) => self.dispatch(envelope, &context).await,
        };
        let outcome = match done {
            Ok(outcome) => outcome,
            Err(refusal) => {
                // An error is never answered with an error, or two sides could go on for ever.
                if context.kind != Kind::Error {
                    hub.refuse(&client, &context, &refusal).await;
                }
                Outcome::Refused(refusal.code)
            }
        };
        hub.note(&client, Some(&context), from.as_deref(), outcome);
        if farewell && client.identity().is_some() {
            hub.farewell(&client);
        }
        if outcome == Outcome::Refused(ErrorCode::ProtocolError) {
            return Some(OTHER_VERSION);
        }
        self.strike()
    }

    async fn dispatch(
        &self,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let (hub, client) = (&self.hub, &self.client);
        let envelope = hub.addressed(client, envelope);
        validate(&envelope)?;
        if let Some(said) = envelope.from().filter(|said| !client.is(said))
            && hub.config.strict
        {
            let message = format!("`from` says `{said}`, and this connection is not that agent");
            return Err(Refusal::new(ErrorCode::PermissionDenied, message));
        }
        match context.kind {
            Kind::Message => hub.message(client, envelope, context).await,
            Kind::Response | Kind::Error => hub.answered(client, envelope, context).await,
            Kind::Status => hub.status(client, envelope, context).await,
            Kind::Handshake => hub.handshake(client, &envelope, context).await,
            Kind::Discovery => hub.discovery(client, &envelope, context).await,
            Kind::Workspace => hub.workspace(client, &envelope, context).await,
            Kind::Subscribe | Kind::Unsubscribe => {
                hub.subscription(client, &envelope, context).await
            }
            Kind::Ping => hub.ping(client, context).await,
            Kind::Pong | Kind::Disconnect => Ok(Outcome::Done),
            Kind::Proposal => hub.proposal(client, envelope).await,
            Kind::Vote => hub.vote(client, envelope, context).await,
            Kind::Request => hub.request(client, envelope, context).await,
            Kind::Broadcast => hub.broadcast(client, envelope, context).await,
            Kind::Auth | Kind::AuthResponse | Kind::Event | Kind::Decision => Err(Refusal::new(
                ErrorCode::PermissionDenied,
                format!("only the gateway sends `{}`", context.kind),
            )),
        }
    }
}
