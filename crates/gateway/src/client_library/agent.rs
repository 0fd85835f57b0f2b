//! A scripted agent for demonstrations and tests. It replies and votes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    ClientError, Endpoint,
    connection::{ClientConnection, MessageSender, new_id},
    event::AgentEvent,
    reconnect::{ServeOptions, keep_connected},
};
use base::environment::Environment;
use collective::{Envelope, ErrorCode, Kind, Vote};
use egress::HttpClient;

/// The channel of the triad's decisions.
const DECISIONS: &str = "triad:decision";

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

/// Serves the agent until `shutdown` is cancelled, or until the gateway disconnects it for good. Reconnects after a lost
/// connection.
///
/// # Errors
/// The server is not an `a2a-v1` gateway, or it refuses the agent or the credential.
pub(super) async fn serve(
    net: Arc<dyn HttpClient>,
    endpoint: Endpoint,
    script: Script,
    env: Arc<dyn Environment>,
    on_event: impl Fn(&AgentEvent) + Send + Sync,
    shutdown: CancellationToken,
) -> Result<(), ClientError> {
    let run = |connection| run(connection, &script, &*env, &on_event);
    let options = ServeOptions {
        net: &*net,
        endpoint: &endpoint,
        name: &script.name,
        env: &env,
    };
    keep_connected(options, &on_event, &shutdown, run).await
}

/// Handles messages. Returns `Ok` when the gateway disconnects the agent for good, and an error when the connection is lost.
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
            Kind::Event if envelope.content_str("channel") == Some(DECISIONS) => {
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

/// Returns the reply if the sender requires one. Without this condition, two such agents would reply to each other forever.
fn reply_to_message(
    envelope: &Envelope,
    script: &Script,
    on_event: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let from = envelope.from().unwrap_or("unknown");
    let text = message_text(envelope);
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
    on_event(&AgentEvent::Proposed(id.to_owned(), text.to_owned()));
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

/// Returns the text content of a message, or the text of its parts.
pub fn message_text(message: &Envelope) -> String {
    let content = message.content();
    let content = match content.get("content") {
        Some(inner) => inner,
        None => content,
    };
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
