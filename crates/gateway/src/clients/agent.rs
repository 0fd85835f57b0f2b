//! A scripted agent, which replies and votes, for demonstrations and tests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    ClientError, Endpoint,
    connection::{ClientConnection, MessageSender, new_id},
};
use collective::{Envelope, ErrorCode, Kind, Vote};
use common::environment::Environment;
use egress::Net;

/// The delay before the agent connects again: the first and the maximum.
pub(super) const INITIAL_BACKOFF: Duration = Duration::from_millis(250);
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// The channel of the triad's decisions.
const DECISIONS: &str = "triad:decision";

/// The maximum number of replies in progress. Further requests get the error `AGENT_BUSY`.
const MAX_REPLIES: usize = 1024;

/// The behavior of the agent.
#[derive(Debug, Clone)]
pub struct Script {
    /// Its name.
    pub name: String,
    /// Its votes; `None` means that it never votes.
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

/// The vote of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Ballot {
    /// Its vote.
    pub vote: Vote,
    /// Its reason.
    pub reasoning: String,
    /// Its confidence, from 0 to 1.
    pub confidence: Option<f64>,
}

/// An event of the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// It connected, with this id.
    Connected(String),
    /// The connection failed; it connects again after the delay.
    Lost(ClientError, Duration),
    /// It received a message: sender and text.
    Received(String, String),
    /// It sent this reply.
    Answered(String),
    /// It received a proposal: id and text.
    Asked(String, String),
    /// It voted on a proposal.
    Voted(String, Vote),
    /// The triad decided a proposal: id and result.
    Decided(String, String),
    /// The gateway sent an error.
    Error(ClientError),
    /// The gateway ended the connection for good, with this message.
    Disconnected(String),
}

/// Serves the agent until `shutdown`, or until the gateway ends the connection for good. Connects again when the connection is
/// lost.
///
/// # Errors
/// No gateway of `a2a-v1`, or a refused agent or credential.
pub(super) async fn serve(
    net: Arc<dyn Net>,
    endpoint: Endpoint,
    script: Script,
    env: Arc<dyn Environment>,
    on_event: impl Fn(&AgentEvent) + Send + Sync,
    shutdown: CancellationToken,
) -> Result<(), ClientError> {
    let names = [script.name.as_str()];
    let mut pause = INITIAL_BACKOFF;
    loop {
        let opened = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            opened = ClientConnection::open(&*net, &endpoint, &names, &env) => opened,
        };
        let error = match opened {
            Ok((connection, welcome)) => {
                pause = INITIAL_BACKOFF;
                on_event(&AgentEvent::Connected(welcome.client_id));
                let sender = connection.sender().clone();
                let ended = tokio::select! {
                    () = shutdown.cancelled() => {
                        sender.disconnect().await;
                        return Ok(());
                    }
                    ended = run(connection, &script, &*env, &on_event) => ended,
                };
                match ended {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if !error.is_retryable() {
            return Err(error);
        }
        let wait = jittered(pause, &*env);
        on_event(&AgentEvent::Lost(error, wait));
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

/// Returns between half of the delay and all of it, so that agents of one gateway do not reconnect at the same time.
pub(super) fn jittered(pause: Duration, env: &dyn Environment) -> Duration {
    let random = env.uuid().as_u128() % 1000;
    let random = u32::try_from(random).unwrap_or_default();
    pause / 2 + pause / 2 * random / 1000
}

/// Handles messages until the gateway ends the connection for good, which is `Ok`, or the connection is lost.
async fn run(
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
                // An aborted reply has no event.
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
                on_event(&decision_event(&envelope));
                None
            }
            Kind::Event if envelope.content_str("channel") == Some(DECISIONS) => {
                on_event(&decision_event(&envelope));
                None
            }
            // An agent may vote without permission to subscribe.
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

/// Subscribes to decisions (Heretek A2A §6.2). Returns the id of the request.
async fn subscribe_decisions(
    sender: &MessageSender,
    env: &dyn Environment,
) -> Result<String, ClientError> {
    let id = new_id(env);
    let request = Envelope::new(Kind::Subscribe, json!({"channel": DECISIONS}));
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

/// What the agent replies. Only who wants an answer gets one: two agents of this kind would talk for ever.
fn reply_to_message(
    envelope: &Envelope,
    script: &Script,
    on_event: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let from = envelope.from().unwrap_or("unknown");
    let text = message_text(&envelope.content()["content"]);
    on_event(&AgentEvent::Received(from.to_owned(), text.clone()));
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

/// Builds the vote on a proposal (Heretek A2A §10.4).
fn vote_on_proposal(
    envelope: &Envelope,
    script: &Script,
    on_event: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let id = envelope.correlation_id().or(envelope.id())?;
    let text = envelope.content_str("proposal").unwrap_or_default();
    on_event(&AgentEvent::Asked(id.to_owned(), text.to_owned()));
    let ballot = script.ballot.as_ref()?;
    let mut content = json!({
        "proposalId": id, "vote": ballot.vote.as_str(), "reasoning": ballot.reasoning,
    });
    if let Some(confidence) = ballot.confidence {
        content["confidence"] = confidence.into();
    }
    let answer = Envelope::answer(Kind::Vote, content, envelope)
        .with("from", script.name.as_str())
        .with_metadata("correlationId", id);
    Some((answer, AgentEvent::Voted(id.to_owned(), ballot.vote)))
}

fn decision_event(envelope: &Envelope) -> AgentEvent {
    let text = |field| envelope.content_str(field).unwrap_or_default().to_owned();
    AgentEvent::Decided(text("proposalId"), text("result"))
}

/// Returns the text of a message, or of its parts.
pub(super) fn message_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        content => {
            let parts = content["parts"].as_array().into_iter().flatten();
            let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
            match texts.is_empty() {
                true => content.to_string(),
                false => texts.join("\n"),
            }
        }
    }
}

impl AgentEvent {
    /// Returns the event as JSON, for programs.
    pub fn json(&self) -> Value {
        match self {
            Self::Connected(client) => json!({"happened": "connected", "clientId": client}),
            Self::Lost(error, wait) => {
                let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                json!({"happened": "lost", "message": error.message, "againInMs": wait})
            }
            Self::Received(from, text) => {
                json!({"happened": "received", "from": from, "text": text})
            }
            Self::Answered(text) => json!({"happened": "answered", "text": text}),
            Self::Asked(id, proposal) => {
                json!({"happened": "asked", "proposalId": id, "proposal": proposal})
            }
            Self::Voted(id, vote) => {
                json!({"happened": "voted", "proposalId": id, "vote": vote.as_str()})
            }
            Self::Decided(id, result) => {
                json!({"happened": "decided", "proposalId": id, "result": result})
            }
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
            Self::Asked(id, proposal) => write!(f, "<- proposal {id}: {proposal}"),
            Self::Voted(id, vote) => write!(f, "-> vote {} on {id}", vote.as_str()),
            Self::Decided(id, result) => write!(f, "<- decision {id}: {result}"),
            Self::Error(error) => write!(f, "<- {error}"),
            Self::Disconnected(message) => write!(f, "the gateway ended the connection: {message}"),
        }
    }
}
