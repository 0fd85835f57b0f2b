//! The events of an agent.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::ClientError;
use collective::{Envelope, Vote};

/// An event of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent connected, with this client id.
    Connected(String),
    /// The connection failed. The agent reconnects after the delay.
    Lost(ClientError, Duration),
    /// The agent received a message: sender and text.
    Received(String, String),
    /// The agent sent this reply.
    Answered(String),
    /// The agent received a proposal: id and text.
    Proposed(String, String),
    /// The agent voted on a proposal: id and vote.
    Voted(String, Vote),
    /// The triad decided a proposal: id and result.
    Decided(String, String),
    /// The backend of the agent failed, for this reason.
    Failed(String),
    /// The gateway sent an error.
    Error(ClientError),
    /// The gateway disconnected the agent for good, with this message.
    Disconnected(String),
}

impl AgentEvent {
    /// Creates the event of a decision.
    pub fn decided(decision: &Envelope) -> Self {
        let text = |field| decision.content_str(field).unwrap_or_default().to_owned();
        Self::Decided(text("proposalId"), text("result"))
    }

    /// Returns the event as JSON, for programs.
    pub fn json(&self) -> Value {
        match self {
            Self::Connected(client) => json!({"happened": "connected", "clientId": client}),
            Self::Lost(error, wait) => error.lost_json(*wait),
            Self::Received(from, text) => {
                json!({"happened": "received", "from": from, "text": text})
            }
            Self::Answered(text) => json!({"happened": "answered", "text": text}),
            Self::Proposed(id, proposal) => {
                json!({"happened": "asked", "proposalId": id, "proposal": proposal})
            }
            Self::Voted(id, vote) => {
                json!({"happened": "voted", "proposalId": id, "vote": vote.as_str()})
            }
            Self::Decided(id, result) => {
                json!({"happened": "decided", "proposalId": id, "result": result})
            }
            Self::Failed(reason) => json!({"happened": "failed", "message": reason}),
            Self::Error(error) => json!({"happened": "error", "message": error.message}),
            Self::Disconnected(message) => json!({"happened": "disconnected", "message": message}),
        }
    }
}

impl fmt::Display for AgentEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(client) => write!(f, "connected as {client}"),
            Self::Lost(error, wait) => {
                write!(f, "{error}; again in {:.1} s", wait.as_secs_f64())
            }
            Self::Received(from, text) => write!(f, "<- {from}: {text}"),
            Self::Answered(text) => write!(f, "-> {text}"),
            Self::Proposed(id, proposal) => write!(f, "<- proposal {id}: {proposal}"),
            Self::Voted(id, vote) => write!(f, "-> vote {} on {id}", vote.as_str()),
            Self::Decided(id, result) => write!(f, "<- decision {id}: {result}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
            Self::Error(error) => write!(f, "<- {error}"),
            Self::Disconnected(message) => write!(f, "the gateway ended the connection: {message}"),
        }
    }
}
