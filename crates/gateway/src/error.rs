//! The error of a refused request.

use std::time::Duration;

use collective::{Envelope, EnvelopeError, ErrorCode};

use super::access::AccessError;
use super::outbox::EnqueueError;
use super::sessions::SessionError;

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
                let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
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
