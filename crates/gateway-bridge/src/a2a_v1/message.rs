//! A message to an agent (000 §4).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::About;
use crate::dial::failed;
use crate::ledger::{Awaited, Entry, Outcome, Sending, What};
use a2a::{Part, SendRequest};
use collective::{Envelope, ErrorCode, Kind, LARGEST_FRAME, validate};
use peer::{Delivered, PeerError};

use super::errors::Told;
use super::line::Line;

/// What ids of messages begin with (000 §4.4).
const ID: &str = "msg-";

/// The longest id (000 §4.1), in characters.
const LONGEST_ID: usize = 128;

/// What the metadata of a message is decided by here, whatever a caller says.
const OURS: [&str; 2] = ["correlationId", "requiresResponse"];

/// Sends one message and notes it. It fails where nothing was sent.
pub(super) async fn send(
    line: &Line,
    about: &About,
    outgoing: &SendRequest,
) -> Result<Awaited, PeerError> {
    let id = format!("corr-{}", line.env.uuid());
    let context_id = context(line, about, outgoing)?;
    let message_id = message_id(&outgoing.message_id, line);
    let content = json!({"role": "user", "content": said(&outgoing.parts)});
    let envelope = Envelope::new(Kind::Message, content)
        .with("id", message_id.clone())
        .with("agent", about.agent.clone())
        .with("sessionId", context_id.clone());
    let envelope = described(line, about, outgoing, envelope)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires = expires(line, about, &envelope)?;
    let frame = framed(line, envelope)?;
    let sending = Sending {
        frame: frame.clone(),
        expires,
        while_awaited: outgoing.blocking,
    };
    let agent = about.agent.clone();
    let entry = Entry::new(id, message_id, agent, context_id, What::Message, sending);
    hand_over(line, entry, frame).await
}

/// Notes an entry and sends its frame; what was certainly not sent is not noted.
pub(super) async fn hand_over(
    line: &Line,
    entry: Entry,
    frame: String,
) -> Result<Awaited, PeerError> {
    let entry = line.ledger.begin(entry).awaited();
    line.say(frame).await.inspect_err(|error| {
        if error.delivered == Delivered::No {
            line.ledger.forget(&entry);
        } else {
            entry.settle(Outcome::Failed(error.clone()));
        }
    })?;
    Ok(entry)
}

/// The session that a message belongs to: the caller's, that of the task it continues, or a new one.
///
/// # Errors
/// [`PeerErrorKind::TaskForgotten`](peer::PeerErrorKind::TaskForgotten)
pub(super) fn context(
    line: &Line,
    about: &About,
    outgoing: &SendRequest,
) -> Result<String, PeerError> {
    let named = outgoing.context_id.as_ref().or(about.context_id.as_ref());
    match (named, &outgoing.task_id) {
        (Some(context), _) => Ok(context.clone()),
        (None, Some(task)) => {
            let known = line.ledger.known(&about.agent, task);
            known
                .map(|entry| entry.context_id.clone())
                .map_err(PeerError::undelivered)
        }
        (None, None) => Ok(format!("sess-{}", line.env.uuid())),
    }
}

/// The tool's own id for the message, as this protocol writes them.
fn message_id(given: &str, line: &Line) -> String {
    let id = if given.starts_with(ID) {
        given.to_owned()
    } else {
        format!("{ID}{given}")
    };
    if given.is_empty() || id.chars().count() > LONGEST_ID {
        return format!("{ID}{}", line.env.uuid());
    }
    id
}

/// The envelope with the caller's metadata and the time that the call began, which its life is counted from.
pub(super) fn described(
    line: &Line,
    about: &About,
    outgoing: &SendRequest,
    envelope: Envelope,
) -> Envelope {
    let age = about
        .since
        .map(|since| line.env.now().saturating_duration_since(since));
    let age = u64::try_from(age.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
    let envelope = envelope.with("timestamp", line.millis().saturating_sub(age));
    let given = outgoing.metadata.iter().flatten();
    let given = given.filter(|(field, _)| !OURS.contains(&field.as_str()));
    given.fold(envelope, |envelope, (field, value)| {
        envelope.with_metadata(field, value.clone())
    })
}

/// When the message is too old to be sent (`metadata.ttl`, in seconds).
pub(super) fn expires(
    line: &Line,
    about: &About,
    envelope: &Envelope,
) -> Result<Option<Instant>, PeerError> {
    let Some(seconds) = envelope.metadata("ttl").and_then(Value::as_f64) else {
        return Ok(None);
    };
    // A life that no clock can tell the end of has none.
    let Ok(life) = Duration::try_from_secs_f64(seconds) else {
        return Ok(None);
    };
    let age = about
        .since
        .map(|since| line.env.now().saturating_duration_since(since));
    match life.checked_sub(age.unwrap_or_default()) {
        Some(left) if !left.is_zero() => Ok(Instant::now().checked_add(left)),
        _ => Err(expired()),
    }
}

fn expired() -> PeerError {
    failed(
        ErrorCode::InvalidContent,
        "the message was not sent: its `ttl` was over before it could be; send it anew with a longer one or none",
    )
}

/// What a message says: text as it is where it is nothing else, otherwise its parts.
pub(super) fn said(parts: &[Part]) -> Value {
    match parts {
        [one] if one.kind() == "text" && one.json().get("metadata").is_none() => {
            one.json().get("text").cloned().unwrap_or_default()
        }
        parts => {
            let parts: Vec<_> = parts.iter().map(|part| part.json().clone()).collect();
            json!({"parts": parts})
        }
    }
}

/// The envelope as a frame, if a gateway can be expected to take it.
pub(super) fn framed(line: &Line, envelope: Envelope) -> Result<String, PeerError> {
    validate(&envelope).map_err(|wrong| {
        let message = format!("the message was not sent: {}", wrong.message);
        failed(wrong.code, message)
    })?;
    let frame = (line.speech.write)(envelope);
    if frame.len() > LARGEST_FRAME {
        let message = format!(
            "the message was not sent: it is {} bytes long, and gateways take {LARGEST_FRAME}; put what is large where the agent can read it, and send its address",
            frame.len()
        );
        return Err(failed(ErrorCode::InvalidContent, message));
    }
    Ok(frame)
}

/// Sends a message again to an agent that was busy: the same message, with the same id.
pub(super) async fn again(line: Arc<Line>, entry: Arc<Entry>, pause: Duration, told: Told) {
    tokio::time::sleep(pause).await;
    if entry.is_terminal() {
        return;
    }
    let too_old = entry.sending.expires.is_some_and(|at| at <= Instant::now());
    if too_old || !line.is_open() {
        entry.settle(Outcome::Failed(told.into_error()));
        return;
    }
    if let Err(error) = line.say(entry.sending.frame.clone()).await {
        entry.settle(Outcome::Failed(error));
    }
}
