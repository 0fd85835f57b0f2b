//! An agent that answers and votes as it is told, for people who want to see a collective at work, and for tests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    ClientError, Endpoint,
    line::{ClientConnection, MessageSender, new_id},
};
use collective::{Envelope, ErrorCode, Kind, Vote};
use common::environment::Environment;
use egress::Net;

/// How long it waits before it connects again, at first and at most.
const INITIAL_BACKOFF: Duration = Duration::from_millis(250);
const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// The channel on which the triad's decisions are told.
const DECISIONS: &str = "triad:decision";

/// So many answers may be on their way; who asks more is told that the agent is busy.
const ANSWERS: usize = 1024;

/// What the agent does.
#[derive(Debug, Clone)]
pub struct Script {
    /// The name it serves.
    pub name: String,
    /// How it votes; without it, never.
    pub ballot: Option<Ballot>,
    /// How long it thinks before it votes or answers.
    pub delay: Duration,
    /// What it answers; `{text}` is what it was told.
    pub reply: String,
}

impl Script {
    /// The reason for a vote, where nobody gives another.
    pub const REASON: &str = "My script says so.";

    /// What is answered, where nobody says anything else.
    pub const REPLY: &str = "You said: {text}";
}

/// How the agent votes.
#[derive(Debug, Clone, PartialEq)]
pub struct Ballot {
    /// Its vote.
    pub vote: Vote,
    /// Why.
    pub reasoning: String,
    /// How sure it is, from 0 to 1.
    pub confidence: Option<f64>,
}

/// What happens to the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// It is connected, under this id.
    Connected(String),
    /// It is not, and tries again after the pause.
    Lost(ClientError, Duration),
    /// It was told something, and by whom.
    Heard(String, String),
    /// It answered.
    Answered(String),
    /// It is asked to vote: on which proposal, and its words.
    Asked(String, String),
    /// It voted.
    Voted(String, Vote),
    /// A decision: on which proposal, and its result.
    Decided(String, String),
    /// The gateway said that something was wrong.
    Scolded(ClientError),
    /// The gateway sent it away for good.
    Dismissed(String),
}

/// Serves the name until `shutdown`, or until the gateway does not want it. Connects again when the connection is lost; what is in the way then
/// is told, not given back.
///
/// # Errors
/// Something else answers there, or the gateway does not take the agent.
pub(super) async fn serve(
    net: Arc<dyn Net>,
    door: Endpoint,
    script: Script,
    env: Arc<dyn Environment>,
    tell: impl Fn(&AgentEvent) + Send + Sync,
    shutdown: CancellationToken,
) -> Result<(), ClientError> {
    let names = [script.name.as_str()];
    let mut pause = INITIAL_BACKOFF;
    loop {
        let opened = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            opened = ClientConnection::open(&*net, &door, &names, &env) => opened,
        };
        let trouble = match opened {
            Ok((line, welcome)) => {
                pause = INITIAL_BACKOFF;
                tell(&AgentEvent::Connected(welcome.client_id));
                let speaker = line.speaker().clone();
                let attended = tokio::select! {
                    () = shutdown.cancelled() => {
                        speaker.leave().await;
                        return Ok(());
                    }
                    attended = attend(line, &script, &*env, &tell) => attended,
                };
                match attended {
                    Ok(()) => return Ok(()),
                    Err(trouble) => trouble,
                }
            }
            Err(trouble) => trouble,
        };
        if !trouble.may_pass() {
            return Err(trouble);
        }
        let wait = jittered(pause, &*env);
        tell(&AgentEvent::Lost(trouble, wait));
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

/// Between half of the pause and all of it, so that agents which lost the same gateway do not all come back at once.
pub(super) fn jittered(pause: Duration, env: &dyn Environment) -> Duration {
    let random = env.uuid().as_u128() % 1000;
    let random = u32::try_from(random).unwrap_or_default();
    pause / 2 + pause / 2 * random / 1000
}

/// Listens until the gateway sends the agent away for good, which is `Ok`, or the connection is lost.
async fn attend(
    mut line: ClientConnection,
    script: &Script,
    env: &dyn Environment,
    tell: &(impl Fn(&AgentEvent) + Send + Sync),
) -> Result<(), ClientError> {
    let decisions = match script.ballot {
        Some(_) => Some(hear_decisions(line.speaker(), env).await?),
        None => None,
    };
    let mut answers: JoinSet<Result<AgentEvent, ClientError>> = JoinSet::new();
    loop {
        let envelope = tokio::select! {
            heard = line.hear() => heard?,
            Some(done) = answers.join_next() => {
                // Who was stopped has nothing to tell.
                if let Ok(done) = done {
                    tell(&done?);
                }
                continue;
            }
        };
        let answer = match envelope.kind() {
            Kind::Message => message(&envelope, script, tell),
            Kind::Proposal => proposal(&envelope, script, tell),
            Kind::Decision => {
                tell(&decided(&envelope));
                None
            }
            Kind::Event if envelope.said("channel") == Some(DECISIONS) => {
                tell(&decided(&envelope));
                None
            }
            // Who may not hear of decisions can vote all the same.
            Kind::Error if decisions.is_some() && envelope.parent_id() == decisions.as_deref() => {
                None
            }
            Kind::Error => {
                tell(&AgentEvent::Scolded(ClientError::of_error(&envelope)));
                None
            }
            Kind::Disconnect if envelope.said("reason") == Some("manual") => {
                let said = envelope.said("message").unwrap_or_default();
                tell(&AgentEvent::Dismissed(said.to_owned()));
                return Ok(());
            }
            _ => None,
        };
        let Some((answer, done)) = answer else {
            continue;
        };
        let speaker = line.speaker().clone();
        if answers.len() < ANSWERS {
            answers.spawn(after(script.delay, speaker, answer, done));
        } else {
            let busy = "the agent has too much to answer; try again later";
            let busy = Envelope::error(ErrorCode::AgentBusy, busy, Some(&envelope));
            let busy = busy.with("from", script.name.as_str());
            let to = envelope.from().map(str::to_owned);
            speaker.say(busy.with("agent", to)).await?;
        }
    }
}

/// Asks to hear what comes of what is voted on (000 §6.2). Returns the id of the question.
async fn hear_decisions(
    speaker: &MessageSender,
    env: &dyn Environment,
) -> Result<String, ClientError> {
    let id = new_id(env);
    let question = Envelope::new(Kind::Subscribe, json!({"channel": DECISIONS}));
    speaker.say(question.with("id", id.as_str())).await?;
    Ok(id)
}

async fn after(
    delay: Duration,
    speaker: MessageSender,
    answer: Envelope,
    done: AgentEvent,
) -> Result<AgentEvent, ClientError> {
    tokio::time::sleep(delay).await;
    speaker.say(answer).await?;
    Ok(done)
}

/// What the agent answers. Only who wants an answer gets one: two agents of this kind would talk for ever.
fn message(
    envelope: &Envelope,
    script: &Script,
    tell: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let from = envelope.from().unwrap_or("somebody");
    let text = words(&envelope.content()["content"]);
    tell(&AgentEvent::Heard(from.to_owned(), text.clone()));
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

/// The agent's vote (000 §10.4).
fn proposal(
    envelope: &Envelope,
    script: &Script,
    tell: &impl Fn(&AgentEvent),
) -> Option<(Envelope, AgentEvent)> {
    let id = envelope.correlation_id().or(envelope.id())?;
    let text = envelope.said("proposal").unwrap_or_default();
    tell(&AgentEvent::Asked(id.to_owned(), text.to_owned()));
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

fn decided(envelope: &Envelope) -> AgentEvent {
    let said = |field| envelope.said(field).unwrap_or_default().to_owned();
    AgentEvent::Decided(said("proposalId"), said("result"))
}

/// The words of a message: a text, or the texts of its parts.
fn words(content: &Value) -> String {
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
    /// What happened as JSON, for programs.
    pub fn json(&self) -> Value {
        match self {
            Self::Connected(client) => json!({"happened": "connected", "clientId": client}),
            Self::Lost(trouble, wait) => {
                let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                json!({"happened": "lost", "message": trouble.message, "againInMs": wait})
            }
            Self::Heard(from, text) => json!({"happened": "heard", "from": from, "text": text}),
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
            Self::Scolded(trouble) => json!({"happened": "error", "message": trouble.message}),
            Self::Dismissed(said) => json!({"happened": "dismissed", "message": said}),
        }
    }
}

impl fmt::Display for AgentEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected(client) => write!(f, "connected as {client}"),
            Self::Lost(trouble, wait) => {
                write!(f, "{trouble}; again in {:.1} s", wait.as_secs_f64())
            }
            Self::Heard(from, text) => write!(f, "<- {from}: {text}"),
            Self::Answered(text) => write!(f, "-> {text}"),
            Self::Asked(id, proposal) => write!(f, "<- proposal {id}: {proposal}"),
            Self::Voted(id, vote) => write!(f, "-> vote {} on {id}", vote.as_str()),
            Self::Decided(id, result) => write!(f, "<- decision {id}: {result}"),
            Self::Scolded(trouble) => write!(f, "<- {trouble}"),
            Self::Dismissed(said) => write!(f, "the gateway sent us away: {said}"),
        }
    }
}
