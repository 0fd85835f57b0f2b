//! The events of an agent, and a scripted agent for demonstrations and tests. It replies and votes.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    ClientError,
    ballot::Ballot,
    connection::{ClientConnection, MessageSender},
};
use crate::a2a_v1::new_id;
use base::environment::Environment;
use collective::{Channel, Envelope, ErrorCode, Kind, SignatureStatus, Vote, text_of};

/// The maximum number of concurrent replies. The agent rejects further requests with `AGENT_BUSY`.
const MAX_REPLIES: usize = 1024;

/// The behavior of the agent.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// Its vote; `None` means that it does not vote.
    pub ballot: Option<Ballot>,
    /// The delay of each vote and reply.
    pub delay: Duration,
    /// Its reply; `{text}` stands for the message.
    pub reply: String,
}

impl Script {
    /// The default reason for a vote.
    pub const REASON: &str = "My script says so.";

    /// The default reply.
    pub const REPLY: &str = "You said: {text}";
}

/// An event of an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// The agent connected, with this client id.
    Connected(String),
    /// The connection failed. The agent reconnects after the delay.
    Lost(ClientError, Duration),
    /// The agent received a message: sender, text, and what the gateway says about its signature.
    Received(String, String, Option<SignatureStatus>),
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

    /// Creates the event of a message with this sender and text.
    pub fn received(from: &str, text: &str, message: &Envelope) -> Self {
        Self::Received(from.to_owned(), text.to_owned(), message.signature_status())
    }

    /// Returns the event as JSON, for programs.
    pub fn json(&self) -> Value {
        match self {
            Self::Connected(client) => json!({"happened": "connected", "clientId": client}),
            Self::Lost(error, wait) => error.lost_json(*wait),
            Self::Received(from, text, None) => {
                json!({"happened": "received", "from": from, "text": text})
            }
            Self::Received(from, text, Some(status)) => {
                json!({"happened": "received", "from": from, "text": text, "signature": status.as_str()})
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
            Self::Received(from, text, None) => write!(f, "<- {from}: {text}"),
            Self::Received(from, text, Some(status)) => {
                write!(f, "<- {from} ({}): {text}", status.as_str())
            }
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

/// Handles messages. Returns `Ok` when the gateway disconnects the agent for good, and an error when the connection is lost.
pub(super) async fn run(
    mut connection: ClientConnection,
    script: &Script,
    env: &dyn Environment,
    on_event: &(impl Fn(&AgentEvent) + Send + Sync),
) -> Result<(), ClientError> {
    let decisions = match script.ballot {
        Some(_) => Some(subscribe_decisions(connection.sender(), env).await?),
        None => None,
    };
    let mut replies: JoinSet<Result<AgentEvent, ClientError>> = JoinSet::new();
    loop {
        let envelope = tokio::select! {
            received = connection.recv() => received?,
            Some(done) = replies.join_next() => {
                // An aborted reply produces no event.
                if let Ok(done) = done {
                    on_event(&done?);
                }
                continue;
            }
        };
        let answer = match envelope.kind() {
            Kind::Message => reply_to_message(&envelope, script, on_event),
            Kind::Proposal => vote_on_proposal(&envelope, script, on_event),
            Kind::Decision => {
                on_event(&AgentEvent::decided(&envelope));
                None
            }
            Kind::Event if envelope.content_str("channel") == Some(Channel::Decisions.as_str()) => {
                on_event(&AgentEvent::decided(&envelope));
                None
            }
            // An agent may lack the permission to subscribe, and still vote.
            Kind::Error if decisions.is_some() && envelope.parent_id() == decisions.as_deref() => {
                None
            }
            Kind::Error => {
                on_event(&AgentEvent::Error(ClientError::from_error(&envelope)));
                None
            }
            Kind::Disconnect if envelope.content_str("reason") == Some("manual") => {
                let message = envelope.content_str("message").unwrap_or_default();
                on_event(&AgentEvent::Disconnected(message.to_owned()));
                return Ok(());
            }
            _ => None,
        };
        let Some((answer, done)) = answer else {
            continue;
        };
        let sender = connection.sender().clone();
        if replies.len() < MAX_REPLIES {
            replies.spawn(send_after(script.delay, sender, answer, done));
        } else {
            let busy = "the agent is busy; try again later";
            let busy = Envelope::error(ErrorCode::AgentBusy, busy, Some(&envelope));
            let busy = busy.with("from", script.name.as_str());
            let to = envelope.from().map(str::to_owned);
            sender.send(busy.with("agent", to)).await?;
        }
    }
}

/// Subscribes to decisions (Heretek A2A §6.2) and returns the id of the request.
async fn subscribe_decisions(
    sender: &MessageSender,
    env: &dyn Environment,
) -> Result<String, ClientError> {
    let id = new_id(env);
    let content = json!({"channel": Channel::Decisions.as_str()});
    let request = Envelope::new(Kind::Subscribe, content);
    sender.send(request.with("id", id.as_str())).await?;
    Ok(id)
}

async fn send_after(
    delay: Duration,
    sender: MessageSender,
    answer: Envelope,
    done: AgentEvent,
) -> Result<AgentEvent, ClientError> {
    tokio::time::sleep(delay).await;
    sender.send(answer).await?;
    Ok(done)
}

/// Returns the reply if the sender requires one. Without this condition, two such agents would reply to each other forever.
fn reply_to_message(
    envelope: &Envelope,
    script: &Script,
    on_event: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let from = envelope.from().unwrap_or("unknown");
    let text = message_text(envelope);
    on_event(&AgentEvent::received(from, &text, envelope));
    if envelope.metadata("requiresResponse") != Some(&Value::Bool(true)) {
        return None;
    }
    let reply = script.reply.replace("{text}", &text);
    let content = json!({"role": "agent", "content": reply});
    let answer = Envelope::answer(Kind::Message, content, envelope)
        .with("from", script.name.as_str())
        .with("agent", from)
        .with("sessionId", envelope.session_id().map(str::to_owned));
    Some((answer, AgentEvent::Answered(reply)))
}

/// Builds the vote on a proposal.
fn vote_on_proposal(
    envelope: &Envelope,
    script: &Script,
    on_event: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let id = envelope.correlation_id().or(envelope.id())?;
    let text = envelope.content_str("proposal").unwrap_or_default();
    on_event(&AgentEvent::Proposed(id.to_owned(), text.to_owned()));
    let ballot = script.ballot.as_ref()?;
    let answer = ballot.answer(id, envelope, &script.name);
    Some((answer, AgentEvent::Voted(id.to_owned(), ballot.vote)))
}

/// Returns the text content of a message, or the text of its parts.
pub fn message_text(message: &Envelope) -> String {
    let content = message.content();
    text_of(content.get("content").unwrap_or(content)).into_owned()
}
