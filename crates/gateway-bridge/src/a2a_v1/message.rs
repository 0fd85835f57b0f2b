//! Sends messages to agents (Heretek A2A §4), and proposals to the triad (§10.3). The gateway forwards a proposal to the members,
//! counts votes and decides.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::CallContext;
use crate::dial::failed;
use crate::pending_tasks::{AwaitGuard, PendingTask, Resend, TaskKind, TaskOutcome};
use crate::proposal::Proposal;
use a2a::{Part, SendRequest};
use collective::{Envelope, ErrorCode, Kind, MAX_FRAME_BYTES, SUBPROTOCOL, validate};
use peer::{Delivered, PeerError};

use super::GatewayError;
use super::connection::A2aV1Connection;

/// The prefix of message ids (Heretek A2A §4.4).
const MESSAGE_ID_PREFIX: &str = "msg-";

/// The maximum length of a message id (Heretek A2A §4.1), in characters.
const MAX_ID_CHARS: usize = 128;

/// Metadata keys that the bridge sets itself and callers cannot override.
const RESERVED_METADATA: [&str; 2] = ["correlationId", "requiresResponse"];

/// The prefix of proposal ids. The bridge keeps an id with this prefix: a gateway repeats its decision for a repeated
/// proposal with the same id (H-45).
const PROPOSAL_ID_PREFIX: &str = "prop-";

/// Sends one message and stores its task.
///
/// # Errors
/// `delivered` states whether the gateway may have received the message.
pub(super) async fn send(
    connection: &A2aV1Connection,
    call: &CallContext,
    outgoing: &SendRequest,
) -> Result<AwaitGuard, PeerError> {
    let id = format!("corr-{}", connection.env.uuid());
    let context_id = session_id(connection, call, outgoing)?;
    let message_id = message_id(&outgoing.message_id, connection);
    let content = json!({"role": "user", "content": content(&outgoing.parts)});
    let envelope = Envelope::new(Kind::Message, content)
        .with("id", message_id.clone())
        .with("agent", call.agent.clone())
        .with("sessionId", context_id.clone());
    let envelope = with_call_metadata(connection, call, outgoing, envelope)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires_at = expires_at(connection, call, &envelope)?;
    let frame = encode_frame(connection, envelope)?;
    let resend = Resend {
        frame: frame.clone(),
        expires_at,
        while_awaited: outgoing.blocking,
    };
    let agent = call.agent.clone();
    let entry = PendingTask::new(id, message_id, agent, context_id, TaskKind::Message, resend);
    submit(connection, entry, frame).await
}

/// Stores a task and sends its frame. Removes the task again if no byte was sent.
async fn submit(
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
pub(super) fn session_id(
    connection: &A2aV1Connection,
    call: &CallContext,
    outgoing: &SendRequest,
) -> Result<String, PeerError> {
    let context_id = call.session.as_ref();
    let context_id = context_id.or(outgoing.context_id.as_ref());
    let context_id = context_id.or(call.context_id.as_ref());
    match (context_id, &outgoing.task_id) {
        (Some(context), _) => Ok(context.clone()),
        (None, Some(task)) => {
            let entry = connection.tasks.get(&call.agent, task);
            entry
                .map(|entry| entry.context_id.clone())
                .map_err(PeerError::undelivered)
        }
        (None, None) => Ok(format!("sess-{}", connection.env.uuid())),
    }
}

/// Returns the message id in this protocol's format, derived from the tool's own id.
fn message_id(requested_id: &str, connection: &A2aV1Connection) -> String {
    let id = if requested_id.starts_with(MESSAGE_ID_PREFIX) {
        requested_id.to_owned()
    } else {
        format!("{MESSAGE_ID_PREFIX}{requested_id}")
    };
    if requested_id.is_empty() || id.chars().count() > MAX_ID_CHARS {
        return format!("{MESSAGE_ID_PREFIX}{}", connection.env.uuid());
    }
    id
}

/// Adds the caller's metadata and the start time of the call. `ttl` counts from that time.
fn with_call_metadata(
    connection: &A2aV1Connection,
    call: &CallContext,
    outgoing: &SendRequest,
    envelope: Envelope,
) -> Envelope {
    let age = call
        .since
        .map(|since| connection.env.now().saturating_duration_since(since));
    let age = base::environment::millis(age.unwrap_or_default());
    let envelope = envelope.with(
        "timestamp",
        connection.env.unix_millis().saturating_sub(age),
    );
    let metadata = outgoing.metadata.iter().flatten();
    let metadata = metadata.filter(|(field, _)| !RESERVED_METADATA.contains(&field.as_str()));
    metadata.fold(envelope, |envelope, (field, value)| {
        envelope.with_metadata(field, value.clone())
    })
}

/// Returns when the message expires (`metadata.ttl`, in seconds).
pub(super) fn expires_at(
    connection: &A2aV1Connection,
    call: &CallContext,
    envelope: &Envelope,
) -> Result<Option<Instant>, PeerError> {
    let Some(seconds) = envelope.metadata("ttl").and_then(Value::as_f64) else {
        return Ok(None);
    };
    // A `ttl` beyond the range of the clock means no expiry.
    let Ok(ttl) = Duration::try_from_secs_f64(seconds) else {
        return Ok(None);
    };
    let age = call
        .since
        .map(|since| connection.env.now().saturating_duration_since(since));
    match ttl.checked_sub(age.unwrap_or_default()) {
        Some(remaining) if !remaining.is_zero() => Ok(Instant::now().checked_add(remaining)),
        _ => Err(expired_error()),
    }
}

fn expired_error() -> PeerError {
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
fn encode_frame(connection: &A2aV1Connection, envelope: Envelope) -> Result<String, PeerError> {
    validate(&envelope).map_err(|error| {
        let message = format!("the message was not sent: {}", error.message);
        failed(error.code, message)
    })?;
    let signer = connection.settings.signer.as_ref();
    // The other dialects rename what a signature covers.
    let envelope = match signer.filter(|_| connection.codec.dialect == SUBPROTOCOL) {
        Some(signer) => signer.sign(envelope).map_err(|reason| {
            let message =
                format!("the message was not sent, because it cannot be signed: {reason}");
            failed(ErrorCode::InvalidContent, message)
        })?,
        None => envelope,
    };
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
    delay: Duration,
    busy: GatewayError,
) {
    tokio::time::sleep(delay).await;
    if entry.is_terminal() {
        return;
    }
    let expired = entry
        .resend
        .expires_at
        .is_some_and(|at| at <= Instant::now());
    if expired || !connection.is_open() {
        entry.finish(TaskOutcome::Failed(busy.into_error()));
        return;
    }
    if let Err(error) = connection.send_frame(entry.resend.frame.clone()).await {
        entry.finish(TaskOutcome::Failed(error));
    }
}

/// Sends a proposal and stores its task. Fails only if nothing was sent.
pub(super) async fn propose(
    connection: &A2aV1Connection,
    call: &CallContext,
    outgoing: &SendRequest,
) -> Result<AwaitGuard, PeerError> {
    let default_duration = Duration::from_millis(connection.settings.triad.deadline_ms);
    let proposal = Proposal::read(
        &outgoing.parts,
        connection.env.system_time(),
        default_duration,
    )?;
    let deadline = Instant::now() + proposal.open_for;
    let now = connection.env.unix_millis();
    let remaining_ms = base::environment::millis(proposal.open_for);
    let id = match outgoing.message_id.strip_prefix(PROPOSAL_ID_PREFIX) {
        Some(rest) if !rest.is_empty() && outgoing.message_id.len() <= MAX_ID_CHARS => {
            outgoing.message_id.clone()
        }
        _ => format!("{PROPOSAL_ID_PREFIX}{}", connection.env.uuid()),
    };
    let context_id = session_id(connection, call, outgoing)?;
    let deadline_ms = proposal
        .deadline
        .unwrap_or(now.saturating_add(remaining_ms));
    let mut content = json!({"proposal": proposal.text, "deadline": deadline_ms});
    if let Some(reasoning) = proposal.reasoning {
        content["reasoning"] = reasoning.into();
    }
    let envelope = Envelope::new(Kind::Proposal, content)
        .with("id", id.clone())
        .with("sessionId", context_id.clone());
    let envelope = with_call_metadata(connection, call, outgoing, envelope)
        .with("timestamp", now)
        .with_metadata("requiresResponse", true)
        .with_metadata("correlationId", id.clone());
    let expires_at = expires_at(connection, call, &envelope)?;
    let frame = encode_frame(connection, envelope)?;
    let resend = Resend {
        frame: String::new(),
        expires_at,
        while_awaited: false,
    };
    let agent = call.agent.clone();
    let entry = PendingTask::new(
        id.clone(),
        id,
        agent,
        context_id,
        TaskKind::Proposal { deadline },
        resend,
    );
    submit(connection, entry, frame).await
}
