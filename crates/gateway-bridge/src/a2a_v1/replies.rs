//! Matches replies with requests, and checks that the sender may reply.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::pending_tasks::{PendingTask, TaskKind, TaskOutcome};
use a2a::Message;
use collective::{Envelope, ErrorCode, GATEWAY, Kind, Vote};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::connection::A2aV1Connection;
use super::{decision, errors, message};

/// The maximum number of times a message is sent again to a busy agent.
const MAX_RESENDS: usize = 3;

/// Handles a reply, a vote, a decision or an error.
pub(super) fn handle(connection: &Arc<A2aV1Connection>, envelope: Envelope) {
    if envelope.kind() == Kind::Error
        && (refuses_list(connection, &envelope) || rejects_ping(connection, &envelope))
    {
        return;
    }
    let Some(entry) = find_task(connection, &envelope) else {
        ignore_unmatched(connection, &envelope);
        return;
    };
    match (envelope.kind(), entry.kind) {
        (Kind::Error, _) => handle_error(connection, &entry, &envelope),
        (Kind::Message | Kind::Response, TaskKind::Message) => {
            handle_reply(connection, &entry, &envelope)
        }
        (Kind::Vote, TaskKind::Proposal { .. }) => handle_vote(connection, &entry, &envelope),
        (Kind::Decision | Kind::Event, TaskKind::Proposal { .. }) => {
            decision::handle(connection, &entry, &envelope);
        }
        (kind, _) => connection.debug(|| format!("ignored a `{kind}` that answers something else")),
    }
    drop(entry);
    connection.tasks.evict();
}

/// Returns whether the error answers a pending list request.
fn refuses_list(connection: &A2aV1Connection, error: &Envelope) -> bool {
    let idle = connection.tasks.unfinished().is_empty();
    connection.agents.fail_list(error, idle)
}

/// Returns whether the error answers a ping of a gateway that does not support pings.
fn rejects_ping(connection: &A2aV1Connection, error: &Envelope) -> bool {
    error.correlation_id().is_none()
        && error.parent_id().is_none()
        && error.error_code() == Some(ErrorCode::UnknownType)
        && connection.pinging.swap(false, Ordering::SeqCst)
}

/// Returns the task that a reply belongs to: by correlation id in either place, message id, or proposal id. An error without
/// ids belongs to the pending message if there is exactly one.
fn find_task(connection: &A2aV1Connection, envelope: &Envelope) -> Option<Arc<PendingTask>> {
    let tasks = &connection.tasks;
    let by_id = |id: &str| {
        tasks
            .by_correlation_id(id)
            .or_else(|| tasks.by_message_id(id))
    };
    let ids = [
        envelope.correlation_id(),
        envelope.parent_id(),
        decision::proposal_id(envelope),
    ];
    if let Some(entry) = ids.into_iter().flatten().find_map(by_id) {
        return Some(entry);
    }
    let has_no_ids = envelope.correlation_id().is_none() && envelope.parent_id().is_none();
    let is_unidentified_error =
        envelope.kind() == Kind::Error && has_no_ids && !connection.agents.is_list_pending();
    is_unidentified_error
        .then(|| tasks.only_unfinished())
        .flatten()
}

fn ignore_unmatched(connection: &A2aV1Connection, envelope: &Envelope) {
    if envelope.kind() == Kind::Error && !A2aV1Connection::answers_subscription(envelope) {
        let error = errors::read(envelope).into_error();
        connection.warn(&format!(
            "ignored an error that answers no message: {error}"
        ));
    } else {
        connection.debug(|| format!("ignored a `{}` that answers no message", envelope.kind()));
    }
}

/// Returns whether the sender of a reply is one of `allowed`. The gateway sets the sender, so it can be trusted.
fn is_from(envelope: &Envelope, allowed: &[&str]) -> bool {
    let from = envelope.field("from");
    from.is_none_or(|from| from.as_str().is_some_and(|from| allowed.contains(&from)))
}

fn warn_forged(connection: &A2aV1Connection, entry: &PendingTask, envelope: &Envelope) {
    let from = excerpt(envelope.from().unwrap_or_default());
    connection.warn(&format!(
        "ignored a `{}` from `{from}` that claims to answer a message to `{}`",
        envelope.kind(),
        entry.agent
    ));
}

fn handle_reply(connection: &A2aV1Connection, entry: &Arc<PendingTask>, envelope: &Envelope) {
    let allowed: &[&str] = match envelope.kind() {
        Kind::Response => &[&entry.agent, GATEWAY],
        _ => &[&entry.agent],
    };
    if !is_from(envelope, allowed) {
        return warn_forged(connection, entry, envelope);
    }
    let late = entry.is_terminal();
    let outcome = match read_message(entry, envelope) {
        Ok(message) => TaskOutcome::Answered(message),
        Err(error) => TaskOutcome::Failed(error),
    };
    if !entry.finish(outcome) && late {
        connection.debug(|| "ignored an answer to a task that has ended".to_owned());
    }
}

/// Returns the answer as a message of A2A.
fn read_message(entry: &PendingTask, envelope: &Envelope) -> Result<Message, PeerError> {
    let content = envelope
        .content()
        .get("content")
        .or(envelope.content().get("result"));
    let parts = match content.unwrap_or(envelope.content()) {
        Value::String(text) => json!([{"kind": "text", "text": text}]),
        Value::Object(object) if object.get("parts").is_some_and(Value::is_array) => {
            object.get("parts").cloned().unwrap_or_default()
        }
        Value::Null => json!([]),
        object @ Value::Object(_) => json!([{"kind": "data", "data": object}]),
        other => json!([{"kind": "data", "data": {"value": other}}]),
    };
    let id = envelope.id().unwrap_or(&entry.id);
    let context = envelope.session_id().unwrap_or(&entry.context_id);
    let message = json!({
        "kind": "message",
        "messageId": id,
        "role": "agent",
        "contextId": context,
        "parts": parts,
    });
    Message::read(message).map_err(|e| {
        let message = format!("the agent's answer cannot be read: {e}");
        PeerError::new(PeerErrorKind::InvalidResponse, message)
    })
}

fn handle_error(connection: &Arc<A2aV1Connection>, entry: &Arc<PendingTask>, envelope: &Envelope) {
    if !is_from(envelope, &[&entry.agent, GATEWAY]) {
        return warn_forged(connection, entry, envelope);
    }
    let error = errors::read(envelope);
    // Only the refusal of the gateway proves that the agent has not received the message.
    if error.code == ErrorCode::AgentBusy
        && error.is_refusal
        && entry.kind == TaskKind::Message
        && !entry.is_terminal()
        && let Some(attempt) = entry
            .next_attempt()
            .filter(|attempt| *attempt <= MAX_RESENDS)
    {
        let delay = Duration::from_secs(1 << (attempt - 1));
        entry.step(
            &format!(
                "{} is busy; trying again in {} s",
                entry.agent,
                delay.as_secs()
            ),
            None,
        );
        tokio::spawn(message::resend(
            Arc::clone(connection),
            Arc::clone(entry),
            delay,
            error,
        ));
        return;
    }
    entry.finish(TaskOutcome::Failed(error.into_error()));
}

/// Reports a vote as a status update. The gateway counts the votes.
fn handle_vote(connection: &A2aV1Connection, entry: &PendingTask, envelope: &Envelope) {
    let from = envelope.from().unwrap_or_default();
    let vote = envelope.content_str("vote").and_then(Vote::from_name);
    let member = connection
        .settings
        .triad
        .members
        .iter()
        .find(|member| *member == from);
    let (Some(member), Some(vote)) = (member, vote) else {
        connection.warn(&format!(
            "ignored a vote of `{}`, who is not a member of the triad, or whose vote is invalid",
            excerpt(from)
        ));
        return;
    };
    if entry.has_vote_of(member) {
        connection.debug(|| format!("ignored another vote of `{member}`: its first one counts"));
        return;
    }
    let mut data = json!({"proposalId": entry.id, "member": member, "vote": vote.as_str()});
    let mut text = format!("{member} votes {}", vote.as_str());
    if let Some(confidence) = envelope
        .content()
        .get("confidence")
        .filter(|c| c.is_number())
    {
        data["confidence"] = confidence.clone();
        text.push_str(&format!(" (confidence {confidence})"));
    }
    if let Some(reasoning) = envelope.content_str("reasoning") {
        data["reasoning"] = reasoning.into();
        text.push_str(&format!(": {reasoning}"));
    }
    entry.step(&text, Some(data));
}
