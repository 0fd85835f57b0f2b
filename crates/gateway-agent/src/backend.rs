//! The backends of agents.

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use gateway_bridge::delegation::Delegation;

/// Receives the progress texts of a backend.
pub type ProgressSink<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// The backend of an agent. It generates the replies and votes.
pub trait AgentBackend: Send + Sync {
    /// Answers one turn with a text, and passes progress texts to `progress`. The agent cancels `cancel` when the turn times
    /// out, when the connection is lost, and when the agent stops. The backend must then stop its work and return.
    ///
    /// # Errors
    /// The backend cannot answer.
    fn answer<'a>(
        &'a self,
        turn: &'a Turn,
        progress: ProgressSink<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, BackendError>>;
}

/// A message or a proposal that the backend answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The agent that answers.
    pub agent: String,
    /// The sender.
    pub from: String,
    /// The id of the conversation: `["SENDER","SESSION"]`, `["SENDER"]` without a session, or `proposal:ID`.
    pub thread: String,
    /// The text to answer. For a proposal, it includes the required format of the answer.
    pub text: String,
    /// The earlier messages of the conversation, the oldest first.
    pub history: Vec<Utterance>,
    /// The proposal, if the turn requests a vote.
    pub proposal: Option<Proposal>,
    /// The position in a chain of delegations, if known.
    pub delegation: Option<Delegation>,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// Its sender.
    pub from: String,
    /// Its text.
    pub text: String,
}

/// A proposal to the triad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Its id.
    pub id: String,
    /// Its text.
    pub text: String,
    /// The reasoning of the proposer.
    pub reasoning: Option<String>,
}

/// Why a backend cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// Whether the backend is busy, so that a later attempt may succeed.
    pub is_busy: bool,
    /// The cause, for the sender of the message. It must not reveal details of this machine.
    pub message: String,
    /// Details for the operator, such as the last output of a command.
    pub detail: Option<String>,
}

impl BackendError {
    /// Creates an error.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            is_busy: false,
            message: message.into(),
            detail: None,
        }
    }

    /// Creates the error of an overloaded backend.
    pub fn busy(message: impl Into<String>) -> Self {
        Self {
            is_busy: true,
            ..Self::new(message)
        }
    }

    /// Adds details that only the operator can read.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self {
            detail: (!detail.is_empty()).then_some(detail),
            ..self
        }
    }
}
