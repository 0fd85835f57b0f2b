//! Requests to a peer, for either binding.

use a2a::{Operation, SendRequest};

use super::http_binding::Idempotency;

/// An operation with its arguments.
pub(super) enum Request<'a> {
    Card,
    Send(&'a SendRequest),
    Stream(&'a SendRequest),
    /// The id of a task, and the maximum number of its newest messages.
    Get(&'a str, Option<u64>),
    /// The first page of the tasks that the client may see.
    List,
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
            Self::List => Operation::ListTasks,
            Self::Cancel(_) => Operation::CancelTask,
            Self::Subscribe(_) => Operation::SubscribeToTask,
        }
    }

    pub(super) fn task_id(&self) -> Option<&str> {
        match self {
            Self::Get(id, _) | Self::Cancel(id) | Self::Subscribe(id) => Some(id),
            Self::Card | Self::List | Self::Send(_) | Self::Stream(_) => None,
        }
    }

    /// Returns whether the request may be repeated. A repeated message would have its effect again.
    pub(super) fn idempotency(&self) -> Idempotency {
        match self {
            Self::Send(_) | Self::Stream(_) => Idempotency::Once,
            _ => Idempotency::Repeatable,
        }
    }
}
