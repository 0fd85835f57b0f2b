//! Why the gateway does not do what it was asked for.

use std::time::Duration;

use collective::{Envelope, ErrorCode, Malformed};

use super::access::AccessError;
use super::outbox::EnqueueError;
use super::sessions::SessionError;

/// An error of the registry with its sentence, for whoever asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ErrorCode,
    /// What failed, why, and what to do, as a sentence without a full stop.
    pub(super) message: String,
    /// When it may be tried again, where that is known.
    pub(super) retry_after: Option<Duration>,
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// The agent, or the gateway, has too much to do; the same message may come again.
    pub(super) fn busy(message: impl Into<String>, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..Self::new(ErrorCode::AgentBusy, message)
        }
    }

    /// Something of the agent's could not be handed to it.
    pub(super) fn unsent(agent: &str, unsent: EnqueueError) -> Self {
        match unsent {
            EnqueueError::Full => Self::busy(
                format!(
                    "`{agent}` has more to read than the gateway holds for it; send the message again later"
                ),
                Duration::from_secs(1),
            ),
            EnqueueError::Gone => Self::offline(agent),
        }
    }

    pub(super) fn offline(agent: &str) -> Self {
        Self::new(
            ErrorCode::AgentOffline,
            format!("`{agent}` is offline; the message was not delivered"),
        )
    }

    /// The error as it goes to the sender of `request`.
    pub(super) fn answer(&self, request: Option<&Envelope>) -> Envelope {
        let error = Envelope::error(self.code, &self.message, request);
        match self.retry_after {
            None => error,
            Some(wait) => {
                let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
                error.with_content("retryAfterMs", millis)
            }
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::new(malformed.code, malformed.message)
    }
}

impl From<AccessError> for Refusal {
    fn from(denied: AccessError) -> Self {
        Self::new(denied.code, denied.message)
    }
}

impl From<SessionError> for Refusal {
    fn from(error: SessionError) -> Self {
        Self::new(error.code(), error.public_message())
    }
}
