//! Sends messages to agents (Heretek A2A §4).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::CallContext;
use crate::dial::failed;
use crate::pending_tasks::{AwaitGuard, PendingTask, Resend, TaskKind, TaskOutcome};
use a2a::{Part, SendRequest};
use collective::{Envelope, ErrorCode, Kind, MAX_FRAME_BYTES, validate};
use peer::{Delivered, PeerError};

use super::connection::A2aV1Connection;
use super::errors::GatewayError;

/// The prefix of message ids (Heretek A2A §4.4).
const ID_PREFIX: &str = "msg-";

/// The maximum length of a message id (Heretek A2A §4.1), in characters.
pub(super) const MAX_ID_CHARS: usize = 128;

/// Metadata keys that the bridge sets itself and callers cannot override.
const RESERVED_METADATA: [&str; 2] = ["correlationId", "requiresResponse"];

/// Sends one message and stores its task.
///
/// # Errors
/// `delivered` states whether the gateway may have received the message.
pub(super) async fn send(
    connection: &A2aV1Connection,
    about: &CallContext,
    outgoing: &SendRequest,
) -> Result<AwaitGuard, PeerError> {
    let id = format!("corr-{}", connection.env.uuid());
    let context_id = context(connection, about, outgoing)?;
    let message_id = message_id(&outgoing.message_id, connection);
    let content = json!({"role": "user", "content": content(&outgoing.parts)});
    let envelope = Envelope::new(Kind::Message, content)
        .with("id", message_id.clone())
        .with("agent", about.agent.clone())
        .with("sessionId", context_id.clone());
    let envelope = described(connection, about, outgoing, envelope)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires = expires(connection, about, &envelope)?;
    let frame = framed(connection, envelope)?;
    let resend = Resend {
        frame: frame.clone(),
        expires,
        while_awaited: outgoing.blocking,
    };
    let agent = about.agent.clone();
    let entry = PendingTask::new(id, message_id, agent, context_id, TaskKind::Message, resend);
    submit(connection, entry, frame).await
}

/// Stores a task and sends its frame. Removes the task again if no byte was sent.
pub(super) async fn submit(
    connection: &A2aV1Connection,
    entry: PendingTask,
    frame: String,
) -> Result<AwaitGuard, PeerError> {
    let entry = connection.tasks.insert(entry).await_guard();
    connection.send_frame(frame).await.inspect_err(|error| {
        if error.delivered == Delivered::No {
            connection.tasks.remove(&entry);
        } else {
            entry.finish(TaskOutcome::Failed(error.clone()));
        }
    })?;
    Ok(entry)
}

/// Returns the session of a message: the session that the call is bound to, the session of the given conversation, the
/// session of the task that the message continues, or a new one. An A2A server in front of the gateway binds each call to a
/// session of its client.
///
/// # Errors
/// [`PeerErrorKind::TaskForgotten`](peer::PeerErrorKind::TaskForgotten)
pub(super) fn context(
    connection: &A2aV1Connection,
    about: &CallContext,
    outgoing: &SendRequest,
) -> Result<String, PeerError> {
    let named = about.session.as_ref();
    let named = named.or(outgoing.context_id.as_ref());
    let named = named.or(about.context_id.as_ref());
    match (named, &outgoing.task_id) {
        (Some(context), _) => Ok(context.clone()),
        (None, Some(task)) => {
            let known = connection.tasks.get(&about.agent, task);
            known
                .map(|entry| entry.context_id.clone())
                .map_err(PeerError::undelivered)
        }
        (None, None) => Ok(format!("sess-{}", connection.env.uuid())),
    }
}

/// Returns the message id in this protocol's format, derived from the tool's own id.
fn message_id(given: &str, connection: &A2aV1Connection) -> String {
    let id = if given.starts_with(ID_PREFIX) {
        given.to_owned()
    } else {
        format!("{ID_PREFIX}{given}")
    };
    if given.is_empty() || id.chars().count() > MAX_ID_CHARS {
        return format!("{ID_PREFIX}{}", connection.env.uuid());
    }
    id
}

/// Adds the caller's metadata and the start time of the call. `ttl` counts from that time.
pub(super) fn described(
    connection: &A2aV1Connection,
    about: &CallContext,
    outgoing: &SendRequest,
    envelope: Envelope,
) -> Envelope {
    let age = about
        .since
        .map(|since| connection.env.now().saturating_duration_since(since));
    let age = u64::try_from(age.unwrap_or_default().as_millis()).unwrap_or(u64::MAX);
    let envelope = envelope.with("timestamp", connection.unix_millis().saturating_sub(age));
    let given = outgoing.metadata.iter().flatten();
    let given = given.filter(|(field, _)| !RESERVED_METADATA.contains(&field.as_str()));
    given.fold(envelope, |envelope, (field, value)| {
        envelope.with_metadata(field, value.clone())
    })
}

/// Returns when the message expires (`metadata.ttl`, in seconds).
pub(super) fn expires(
    connection: &A2aV1Connection,
    about: &CallContext,
    envelope: &Envelope,
) -> Result<Option<Instant>, PeerError> {
    let Some(seconds) = envelope.metadata("ttl").and_then(Value::as_f64) else {
        return Ok(None);
    };
    // A `ttl` beyond the range of the clock means no expiry.
    let Ok(life) = Duration::try_from_secs_f64(seconds) else {
        return Ok(None);
    };
    let age = about
        .since
        .map(|since| connection.env.now().saturating_duration_since(since));
    match life.checked_sub(age.unwrap_or_default()) {
        Some(left) if !left.is_zero() => Ok(Instant::now().checked_add(left)),
        _ => Err(expired()),
    }
}

fn expired() -> PeerError {
    failed(
        ErrorCode::InvalidContent,
        "the message was not sent because its `ttl` had expired; send it with a longer `ttl` or without one",
    )
}

/// Returns the content of a message: a string if it consists of text, otherwise its parts.
pub(super) fn content(parts: &[Part]) -> Value {
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

/// Encodes the envelope. Fails if it is invalid or longer than a frame may be.
pub(super) fn framed(
    connection: &A2aV1Connection,
    envelope: Envelope,
) -> Result<String, PeerError> {
    validate(&envelope).map_err(|wrong| {
        let message = format!("the message was not sent: {}", wrong.message);
        failed(wrong.code, message)
    })?;
    let frame = (connection.codec.encode)(envelope);
    if frame.len() > MAX_FRAME_BYTES {
        let message = format!(
            "the message was not sent: it has {} bytes, and a frame has at most {MAX_FRAME_BYTES}; upload large content and send its URL",
            frame.len()
        );
        return Err(failed(ErrorCode::InvalidContent, message));
    }
    Ok(frame)
}

/// Sends a message again, unchanged, to an agent that was busy.
pub(super) async fn resend(
    connection: Arc<A2aV1Connection>,
    entry: Arc<PendingTask>,
    pause: Duration,
    busy: GatewayError,
) {
    tokio::time::sleep(pause).await;
    if entry.is_terminal() {
        return;
    }
    let too_old = entry.resend.expires.is_some_and(|at| at <= Instant::now());
    if too_old || !connection.is_open() {
        entry.finish(TaskOutcome::Failed(busy.into_error()));
        return;
    }
    if let Err(error) = connection.send_frame(entry.resend.frame.clone()).await {
        entry.finish(TaskOutcome::Failed(error));
    }
}
