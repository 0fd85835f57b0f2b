//! Finds out which message an answer answers, and whether whoever sent it may answer it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ledger::{Entry, Outcome, What};
use a2a::Message;
use collective::{Envelope, ErrorCode, GATEWAY, Kind, Vote};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::line::Line;
use super::{decision, errors, message, roll};

/// How often a message is sent again to an agent that was busy.
const AGAIN: usize = 3;

/// Takes in an answer, a vote, a decision or an error.
pub(super) fn take(line: &Arc<Line>, envelope: Envelope) {
    if envelope.kind() == Kind::Error
        && (roll::refused(line, &envelope) || knows_no_pings(line, &envelope))
    {
        return;
    }
    let Some(entry) = answered(line, &envelope) else {
        unasked(line, &envelope);
        return;
    };
    match (envelope.kind(), entry.what) {
        (Kind::Error, _) => failed(line, &entry, &envelope),
        (Kind::Message | Kind::Response, What::Message) => reply(line, &entry, &envelope),
        (Kind::Vote, What::Proposal { .. }) => vote(line, &entry, &envelope),
        (Kind::Decision | Kind::Event, What::Proposal { .. }) => {
            decision::take(line, &entry, &envelope);
        }
        (kind, _) => line.debug(|| format!("ignored a `{kind}` that answers something else")),
    }
    drop(entry);
    line.ledger.trim();
}

/// A gateway that has no word for a ping says so, and lives. The error is not that of the message under way.
fn knows_no_pings(line: &Line, error: &Envelope) -> bool {
    error.correlation_id().is_none()
        && error.parent_id().is_none()
        && errors::of_content(error) == Some(ErrorCode::UnknownType)
        && line.pinging.swap(false, Ordering::SeqCst)
}

/// What it answers, by what it says of that: a correlation id in either place, the message's id, the proposal's. An error
/// that says nothing is that of the one message under way, where there is only one.
fn answered(line: &Line, envelope: &Envelope) -> Option<Arc<Entry>> {
    let ledger = &line.ledger;
    let by_id = |id: &str| ledger.by_correlation(id).or_else(|| ledger.by_message(id));
    let names = [
        envelope.correlation_id(),
        envelope.parent_id(),
        decision::proposal_id(envelope),
    ];
    if let Some(entry) = names.into_iter().flatten().find_map(by_id) {
        return Some(entry);
    }
    let says_nothing = envelope.correlation_id().is_none() && envelope.parent_id().is_none();
    let alone = envelope.kind() == Kind::Error && says_nothing && !roll::is_asking(line);
    alone.then(|| ledger.only_open()).flatten()
}

fn unasked(line: &Line, envelope: &Envelope) {
    if envelope.kind() == Kind::Error && !Line::is_of_subscription(envelope) {
        let told = errors::read(envelope).into_error();
        line.warn(&format!("an error that answers nothing: {told}"));
    } else {
        line.debug(|| format!("ignored a `{}` that answers nothing", envelope.kind()));
    }
}

/// Whether an answer is from whom it has to be. A gateway stamps who sent what, so somebody else's name is somebody else.
fn is_from(envelope: &Envelope, allowed: &[&str]) -> bool {
    let from = envelope.field("from");
    from.is_none_or(|from| from.as_str().is_some_and(|from| allowed.contains(&from)))
}

fn smuggled(line: &Line, entry: &Entry, envelope: &Envelope) {
    let from = excerpt(envelope.from().unwrap_or_default());
    line.warn(&format!(
        "ignored a `{}` from `{from}` that claims to answer a message to `{}`",
        envelope.kind(),
        entry.agent
    ));
}

fn reply(line: &Line, entry: &Arc<Entry>, envelope: &Envelope) {
    let allowed: &[&str] = match envelope.kind() {
        Kind::Response => &[&entry.agent, GATEWAY],
        _ => &[&entry.agent],
    };
    if !is_from(envelope, allowed) {
        return smuggled(line, entry, envelope);
    }
    let late = entry.is_terminal();
    let outcome = match read(entry, envelope) {
        Ok(message) => Outcome::Answered(message),
        Err(error) => Outcome::Failed(error),
    };
    if !entry.settle(outcome) && late {
        line.debug(|| "ignored an answer to a message that is settled".to_owned());
    }
}

/// The answer as a message of A2A.
fn read(entry: &Entry, envelope: &Envelope) -> Result<Message, PeerError> {
    let said = envelope
        .content()
        .get("content")
        .or(envelope.content().get("result"));
    let parts = match said.unwrap_or(envelope.content()) {
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

fn failed(line: &Arc<Line>, entry: &Arc<Entry>, envelope: &Envelope) {
    if !is_from(envelope, &[&entry.agent, GATEWAY]) {
        return smuggled(line, entry, envelope);
    }
    let told = errors::read(envelope);
    if told.code == ErrorCode::AgentBusy
        && entry.what == What::Message
        && !entry.is_terminal()
        && let Some(again) = entry.again().filter(|again| *again <= AGAIN)
    {
        let pause = Duration::from_secs(1 << (again - 1));
        entry.step(
            &format!(
                "{} is busy; tried again in {} s",
                entry.agent,
                pause.as_secs()
            ),
            None,
        );
        tokio::spawn(message::again(
            Arc::clone(line),
            Arc::clone(entry),
            pause,
            told,
        ));
        return;
    }
    entry.settle(Outcome::Failed(told.into_error()));
}

/// A vote is a step on the way. It decides nothing here: the gateway counts.
fn vote(line: &Line, entry: &Entry, envelope: &Envelope) {
    let from = envelope.from().unwrap_or_default();
    let vote = envelope.said("vote").and_then(Vote::from_word);
    let member = line
        .settings
        .triad
        .members
        .iter()
        .find(|member| *member == from);
    let (Some(member), Some(vote)) = (member, vote) else {
        line.warn(&format!(
            "ignored a vote of `{}`, who is no member of the triad or says no such word",
            excerpt(from)
        ));
        return;
    };
    if entry.has_vote_of(member) {
        line.debug(|| format!("ignored another vote of `{member}`: its first one counts"));
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
    if let Some(reasoning) = envelope.said("reasoning") {
        data["reasoning"] = reasoning.into();
        text.push_str(&format!(": {reasoning}"));
    }
    entry.step(&text, Some(data));
}
