//! What is asked of a peer, whatever the binding.

use a2a::{Operation, SendRequest};

use super::line::Idempotency;

/// An operation, with what it is asked with.
pub(super) enum Request<'a> {
    Card,
    Send(&'a SendRequest),
    Stream(&'a SendRequest),
    /// A task, with at most so many of the newest messages.
    Get(&'a str, Option<u64>),
    Cancel(&'a str),
    Subscribe(&'a str),
}

impl Request<'_> {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Card => Operation::GetExtendedCard,
            Self::Send(_) => Operation::SendMessage,
            Self::Stream(_) => Operation::SendStreamingMessage,
            Self::Get(..) => Operation::GetTask,
            Self::Cancel(_) => Operation::CancelTask,
            Self::Subscribe(_) => Operation::SubscribeToTask,
        }
    }

    pub(super) fn task_id(&self) -> Option<&str> {
        match self {
            Self::Get(id, _) | Self::Cancel(id) | Self::Subscribe(id) => Some(id),
            Self::Card | Self::Send(_) | Self::Stream(_) => None,
        }
    }

    /// A message is sent once: sending it again would have its effect again.
    pub(super) fn repeats(&self) -> Idempotency {
        match self {
            Self::Send(_) | Self::Stream(_) => Idempotency::Once,
            _ => Idempotency::Repeatable,
        }
    }
}
