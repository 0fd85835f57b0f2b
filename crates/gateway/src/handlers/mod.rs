//! Handlers of the messages from clients, one module per group of message types.

mod discovery;
mod handshake;
mod links;
mod message;
mod services;
mod votes;

use std::sync::Arc;
use std::time::Duration;

use base::log::SPANS;
use collective::{Envelope, ErrorCode, Kind, validate};
use tracing::Span;
use tracing::field::Empty;

use super::access::{Identity, Keyring, RateLimit};
use super::audit::Outcome;
use super::connected_client::Client;
use super::frames;
use super::frames::{ReplyContext, RequestError};
use super::outbox::Close;
use super::state::GatewayState;

/// The number of frames without a valid credential after which the gateway closes the connection.
const MAX_UNAUTHENTICATED_FRAMES: u32 = 3;

/// The number of control frames without a valid credential after which the gateway closes the connection.
const MAX_UNAUTHENTICATED_CONTROL_FRAMES: u32 = 64;

/// The maximum size in bytes of a rate-limited frame that the gateway still parses, for the ids in its error.
const MAX_SCANNED_BYTES: usize = 64 * 1024;

/// Handles the frames of one client: rate limit, authentication, validation and dispatch.
pub(super) struct FrameHandler {
    pub(super) state: Arc<GatewayState>,
    pub(super) client: Arc<Client>,
    /// `None` for an agent in the gateway's own process, because every message of a client can make it send messages. The
    /// gateway reads the messages of a link no faster than this, and refuses none of them.
    rate: Option<RateLimit>,
    /// The number of consecutive frames above the rate limit.
    over_rate: u64,
    unauthenticated_frames: u32,
    unauthenticated_control_frames: u32,
}

impl FrameHandler {
    pub(super) fn new(state: Arc<GatewayState>, client: Arc<Client>) -> Self {
        let limits = &state.config.limits;
        let is_local = client.identity().is_some_and(Identity::is_local);
        let rate = (!is_local || client.link().is_some())
            .then(|| RateLimit::new(limits.messages_per_second, limits.burst, state.env.now()));
        Self {
            state,
            client,
            rate,
            over_rate: 0,
            unauthenticated_frames: 0,
            unauthenticated_control_frames: 0,
        }
    }

    /// Handles a text frame. Returns a close frame if the gateway must close the connection.
    pub(super) async fn handle_text(&mut self, text: &str) -> Option<Close> {
        while let Err(wait) = self.acquire_rate() {
            if self.client.link().is_none() {
                return self.refuse_over_rate(text, wait).await;
            }
            tokio::time::sleep(wait).await;
        }
        self.over_rate = 0;
        match Envelope::parse(text) {
            Ok(envelope) => self.handle_envelope(envelope).await,
            Err(malformed) => {
                self.state.send(&self.client, malformed.answer()).await;
                let refused = Outcome::Refused(malformed.code);
                self.state.record(&self.client, None, None, refused);
                self.count_unauthenticated()
            }
        }
    }

    fn acquire_rate(&mut self) -> Result<(), Duration> {
        let now = self.state.env.now();
        self.rate
            .as_mut()
            .map_or(Ok(()), |rate| rate.try_acquire(now))
    }

    /// Handles a binary frame, which is never valid.
    pub(super) async fn handle_binary(&mut self) -> Option<Close> {
        if let Err(wait) = self.acquire_rate() {
            return self.refuse_over_rate("", wait).await;
        }
        let message = "the frame is binary; send each message as one JSON object in a text frame";
        let error = Envelope::error(ErrorCode::InvalidType, message, None);
        self.state.send(&self.client, error).await;
        let refused = Outcome::Refused(ErrorCode::InvalidType);
        self.state.record(&self.client, None, None, refused);
        self.count_unauthenticated()
    }

    /// Counts a ping or pong towards the rate limit. The socket has answered it.
    pub(super) fn handle_control(&mut self) -> Option<Close> {
        if self.client.identity().is_none() {
            self.unauthenticated_control_frames += 1;
            return (self.unauthenticated_control_frames > MAX_UNAUTHENTICATED_CONTROL_FRAMES)
                .then_some(Close::AUTH_REQUIRED);
        }
        match self.acquire_rate() {
            Ok(()) => None,
            Err(_) => self.count_over_rate(),
        }
    }

    /// Counts a frame above the rate limit. Returns a close frame for a client that continues to exceed the limit.
    fn count_over_rate(&mut self) -> Option<Close> {
        self.over_rate += 1;
        let burst = self.state.config.limits.burst;
        if self.over_rate <= burst.saturating_mul(2).max(100) {
            return None;
        }
        let disconnect = frames::disconnect("error", "too many messages for too long");
        let _ = self.client.outbox.try_send(disconnect);
        Some(Close::RATE_LIMITED)
    }

    /// Counts a frame of an unauthenticated client.
    fn count_unauthenticated(&mut self) -> Option<Close> {
        if self.client.identity().is_some() {
            return None;
        }
        self.unauthenticated_frames += 1;
        (self.unauthenticated_frames >= MAX_UNAUTHENTICATED_FRAMES).then_some(Close::AUTH_REQUIRED)
    }

    /// Refuses a frame above the rate limit. Closes the connection of a client that continues to exceed the limit.
    async fn refuse_over_rate(&mut self, text: &str, wait: Duration) -> Option<Close> {
        let limits = &self.state.config.limits;
        let error = RequestError::busy(
            format!(
                "more than {} messages a second; the gateway ignored this one, send it again later",
                limits.messages_per_second
            ),
            wait,
        );
        let parsed = (text.len() <= MAX_SCANNED_BYTES).then(|| Envelope::parse(text).ok());
        let context = parsed
            .flatten()
            .map(|envelope| ReplyContext::new(&envelope));
        let envelope = match &context {
            Some(context) => context.error(&error),
            None => error.to_envelope(),
        };
        self.state.send(&self.client, envelope).await;
        let refused = Outcome::Refused(error.code);
        self.state
            .record(&self.client, context.as_ref(), None, refused);
        self.count_over_rate()
            .or_else(|| self.count_unauthenticated())
    }

    async fn handle_envelope(&mut self, envelope: Envelope) -> Option<Close> {
        let (state, client) = (Arc::clone(&self.state), Arc::clone(&self.client));
        let envelope = match client.link() {
            Some(link) => link.incoming(envelope),
            None => envelope,
        };
        let context = ReplyContext::new(&envelope);
        let from = envelope.from().map(str::to_owned);
        if envelope.kind() == Kind::Auth {
            return state.handle_auth(&client, &envelope, &context).await;
        }
        if client.has_expired(state.env.system_time()) {
            let error = RequestError::token_expired();
            state.send_error(&client, &context, &error).await;
            let refused = Outcome::Refused(error.code);
            state.record(&client, Some(&context), from.as_deref(), refused);
            return Some(Close::TOKEN_EXPIRED);
        }
        let span = message_span(&envelope);
        let is_disconnect = envelope.kind() == Kind::Disconnect;
        let result = match client.identity() {
            None => {
                let certificate = client.unknown_certificate();
                Err(Keyring::auth_required(certificate.as_deref()).into())
            }
            Some(_) => self.dispatch(envelope, &context).await,
        };
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(error) => {
                // An error in reply to an error could cause an endless loop.
                if context.kind != Kind::Error {
                    state.send_error(&client, &context, &error).await;
                }
                Outcome::Refused(error.code)
            }
        };
        if !span.is_disabled() {
            span.record("client.name", &*client.name(from.as_deref()));
            match outcome {
                Outcome::Refused(code) => span.record("error.type", code.name()),
                // Only then it is a name, and not just text of the client.
                _ => span.record("messaging.destination.name", context.destination.as_deref()),
            };
        }
        state.record(&client, Some(&context), from.as_deref(), outcome);
        if is_disconnect && client.identity().is_some() {
            state.handle_disconnect(&client);
        }
        if outcome == Outcome::Refused(ErrorCode::ProtocolError) {
            return Some(Close::UNSUPPORTED_VERSION);
        }
        self.count_unauthenticated()
    }

    async fn dispatch(
        &self,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        let (state, client) = (&self.state, &self.client);
        let envelope = state.with_recipient(client, envelope);
        validate(&envelope)?;
        if let Some(link) = client.link() {
            links::check(link, &envelope)?;
            if matches!(context.kind, Kind::Pong | Kind::Vote | Kind::Decision) {
                return state.handle_link_answer(client, envelope, context).await;
            }
        }
        if let Some(from) = envelope.from().filter(|from| !client.has_name(from))
            && state.config.strict
        {
            let message =
                format!("`from` is `{from}`, an agent that this connection does not serve");
            return Err(RequestError::new(ErrorCode::PermissionDenied, message));
        }
        match context.kind {
            Kind::Message => state.handle_message(client, envelope, context).await,
            Kind::Response | Kind::Error => state.handle_reply(client, envelope, context).await,
            Kind::Status => state.handle_status(client, envelope, context).await,
            Kind::Handshake => state.handle_handshake(client, &envelope, context).await,
            Kind::Discovery => state.handle_discovery(client, &envelope, context).await,
            Kind::Workspace => state.handle_workspace(client, &envelope, context).await,
            Kind::Subscribe | Kind::Unsubscribe => {
                state.handle_subscription(client, &envelope, context).await
            }
            Kind::Ping => state.handle_ping(client, context).await,
            Kind::Pong | Kind::Disconnect => Ok(Outcome::Done),
            Kind::Proposal => state.handle_proposal(client, envelope, context).await,
            Kind::Vote => state.handle_vote(client, envelope, context).await,
            Kind::Request => state.handle_request(client, envelope, context).await,
            Kind::Broadcast => state.handle_broadcast(client, envelope, context).await,
            Kind::Auth | Kind::AuthResponse | Kind::Event | Kind::Decision => {
                Err(RequestError::new(
                    ErrorCode::PermissionDenied,
                    format!("only the gateway sends `{}`", context.kind),
                ))
            }
        }
    }
}

/// Returns the span of a message for export; none for the pings of each connection.
fn message_span(envelope: &Envelope) -> Span {
    let kind = envelope.kind();
    if matches!(kind, Kind::Ping | Kind::Pong) {
        return Span::none();
    }
    let trace = || envelope.metadata("traceparent")?.as_str();
    tracing::info_span!(
        target: SPANS,
        parent: None,
        "message",
        otel.name = kind.as_str(),
        traceparent = trace(),
        messaging.system = "a2a-v1",
        messaging.operation.name = kind.as_str(),
        messaging.destination.name = Empty,
        client.name = Empty,
        "error.type" = Empty,
    )
}

#[cfg(test)]
mod tests;
