//! Messages that the gateway itself writes: unsolicited ones, errors of refused requests, and the references of a reply.

use std::time::Duration;

use serde_json::{Value, json};

use collective::{AgentStatus, Envelope, EnvelopeError, ErrorCode, GATEWAY, Kind};

use super::access::AccessError;
use super::outbox::EnqueueError;
use super::sessions::SessionError;

/// Builds the status message of an agent for subscribers (Heretek A2A §6.2).
pub(super) fn status(agent: &str, status: AgentStatus, previous: Option<AgentStatus>) -> String {
    let mut content = json!({"agent": agent, "status": status.as_str()});
    if let Some(previous) = previous {
        content["previous"] = previous.as_str().into();
    }
    Envelope::new(Kind::Status, content)
        .with("from", GATEWAY)
        .to_text()
}

/// Builds a `disconnect` (Heretek A2A §5.5).
pub(super) fn disconnect(reason: &str, message: &str) -> String {
    let content = json!({"reason": reason, "message": message});
    Envelope::new(Kind::Disconnect, content)
        .with("from", GATEWAY)
        .to_text()
}

/// Builds a ping.
pub(super) fn ping(id: &str, timestamp: u64) -> String {
    Envelope::new(Kind::Ping, json!({}))
        .with("id", id)
        .with("timestamp", timestamp)
        .to_text()
}

/// Builds an event for the subscribers of a channel.
pub(super) fn event(channel: &str, mut content: Value) -> String {
    content["event"] = channel.into();
    content["channel"] = channel.into();
    Envelope::new(Kind::Event, content)
        .with("from", GATEWAY)
        .to_text()
}

/// An error of the registry, with a message for the client that sent the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestError {
    pub(super) code: ErrorCode,
    /// The failed action, the cause and a hint, as a sentence without a full stop.
    pub(super) message: String,
    /// The delay before the client may try again, if known.
    pub(super) retry_after: Option<Duration>,
}

impl RequestError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Creates the error 3003: the agent or the gateway is overloaded, and the client may send the message again.
    pub(super) fn busy(message: impl Into<String>, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(ErrorCode::AgentBusy, message)
        }
    }

    /// Creates the error for an agent whose outbox does not accept a message.
    pub(super) fn undelivered(agent: &str, error: EnqueueError) -> Self {
        match error {
            EnqueueError::Full => Self::busy(
                format!("the queue of `{agent}` is full; send the message again later"),
                Duration::from_secs(1),
            ),
            EnqueueError::Closed => Self::offline(agent),
        }
    }

    pub(super) fn offline(agent: &str) -> Self {
        Self::new(
            ErrorCode::AgentOffline,
            format!("`{agent}` is offline; the message was not delivered"),
        )
    }

    pub(super) fn unknown_agent(agent: &str) -> Self {
        Self::new(
            ErrorCode::AgentNotFound,
            format!("there is no agent `{agent}`; `discovery` lists the agents"),
        )
    }

    pub(super) fn token_expired() -> Self {
        Self::new(
            ErrorCode::TokenExpired,
            "the credential of this connection has expired; connect again with a new one, or send `auth` with it before the old one expires",
        )
    }

    pub(super) fn shutting_down() -> Self {
        Self::new(
            ErrorCode::ConnectionReset,
            "the gateway is shutting down; the request may or may not have been carried out",
        )
    }

    /// Builds the error message without a reference to the request.
    pub(super) fn to_envelope(&self) -> Envelope {
        let error = Envelope::error(self.code, &self.message, None);
        match self.retry_after {
            None => error,
            Some(wait) => {
                let millis = base::environment::millis(wait).max(1);
                error.with_content("retryAfterMs", millis)
            }
        }
    }
}

impl From<EnvelopeError> for RequestError {
    fn from(malformed: EnvelopeError) -> Self {
        Self::new(malformed.code, malformed.message)
    }
}

impl From<AccessError> for RequestError {
    fn from(error: AccessError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<SessionError> for RequestError {
    fn from(error: SessionError) -> Self {
        Self::new(error.code(), error.public_message())
    }
}

/// The fields of a message that its replies and the audit log need. The message itself is moved without a copy.
#[derive(Debug, Clone)]
pub(super) struct ReplyContext {
    pub(super) kind: Kind,
    pub(super) id: Option<String>,
    pub(super) correlation: Option<String>,
    /// The recipient.
    pub(super) destination: Option<String>,
    /// Whether the sender requires a response (`metadata.requiresResponse`).
    pub(super) requires_response: bool,
}

impl ReplyContext {
    pub(super) fn new(envelope: &Envelope) -> Self {
        Self {
            kind: envelope.kind(),
            id: envelope.id().map(str::to_owned),
            correlation: envelope.correlation_id().map(str::to_owned),
            destination: destination(envelope).map(str::to_owned),
            requires_response: envelope.metadata("requiresResponse") == Some(&Value::Bool(true)),
        }
    }

    /// Builds a reply of the gateway.
    pub(super) fn reply(&self, kind: Kind, content: Value) -> Envelope {
        Envelope::new(kind, content).refers_to(self.correlation.as_deref(), self.id.as_deref())
    }

    /// Builds an error in reply.
    pub(super) fn error(&self, error: &RequestError) -> Envelope {
        error
            .to_envelope()
            .refers_to(self.correlation.as_deref(), self.id.as_deref())
    }
}

fn destination(envelope: &Envelope) -> Option<&str> {
    match envelope.kind() {
        Kind::Proposal | Kind::Vote => Some("triad"),
        Kind::Request => envelope.agent().or_else(|| envelope.content_str("service")),
        Kind::Broadcast => Some("*"),
        _ => envelope.agent(),
    }
}
