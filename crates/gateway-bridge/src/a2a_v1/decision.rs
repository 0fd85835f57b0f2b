//! Decisions of the triad (Heretek A2A §10.5). The gateway's decision is authoritative; if it contradicts the votes, the
//! bridge adds a warning.

use serde_json::{Map, Value, json};

use crate::pending_tasks::{PendingTask, TaskOutcome};
use collective::{Envelope, ErrorCode, GATEWAY, Kind, Quorum, Tally, Vote};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::connection::A2aV1Connection;

/// Returns the id of the proposal that a vote, a decision or a decision event refers to.
pub(super) fn proposal_id(envelope: &Envelope) -> Option<&str> {
    match envelope.kind() {
        Kind::Vote | Kind::Decision => envelope.content_str("proposalId"),
        Kind::Event => decision_in(envelope)?
            .get("proposalId")
            .and_then(Value::as_str),
        _ => None,
    }
}

/// Returns the decision in an envelope: its content, or the data of a decision event.
fn decision_in(envelope: &Envelope) -> Option<&Value> {
    if envelope.kind() == Kind::Decision {
        return Some(envelope.content());
    }
    let name = envelope
        .content_str("event")
        .or(envelope.field("event").and_then(Value::as_str));
    if !name.is_some_and(|name| name.contains("decision")) {
        return None;
    }
    let content = envelope.content();
    let inside = ["decision", "data"]
        .iter()
        .find_map(|field| content.get(*field));
    Some(
        inside
            .filter(|inside| inside.is_object())
            .unwrap_or(content),
    )
}

/// Handles a decision. Only the gateway may send one.
pub(super) fn handle(connection: &A2aV1Connection, entry: &PendingTask, envelope: &Envelope) {
    if envelope.field("from").is_some_and(|from| from != GATEWAY) {
        let from = excerpt(envelope.from().unwrap_or_default());
        return connection.warn(&format!(
            "ignored a decision from `{from}`, who is not the gateway"
        ));
    }
    let Some(decision) = decision_in(envelope) else {
        return connection.debug(|| "ignored an event without a decision".to_owned());
    };
    let result = match result(decision) {
        Ok(result) => result,
        // Another event may have a similar name.
        Err(reason) if envelope.kind() == Kind::Event => {
            return connection.warn(&format!("ignored an event with a decision: {reason}"));
        }
        Err(reason) => return fail_malformed(connection, entry, reason),
    };
    let members = &connection.settings.triad.members;
    let votes = votes(decision);
    let missing = members.iter().filter(|member| !votes.contains_key(*member));
    let missing: Vec<&String> = missing.collect();
    let counted = count_votes(members, &votes);
    let consensus = decision.get("consensus").and_then(Value::as_bool);
    let consensus = consensus.unwrap_or(counted.consensus);
    let count_mismatch = (counted.result != result || counted.consensus != consensus).then(|| {
        format!(
            "the gateway says {result}, consensus {consensus}; by the votes it lists it is {}, consensus {}",
            counted.result, counted.consensus
        )
    });
    let changed = changed_votes(entry, &votes);
    let contradictions: Vec<String> = count_mismatch.into_iter().chain(changed).collect();
    let contradiction = contradictions.join("; ");
    if !contradiction.is_empty() {
        connection.warn(&format!("proposal {}: {contradiction}", entry.id));
    }
    let data = json!({
        "proposalId": entry.id,
        "result": result,
        "votes": votes,
        "consensus": consensus,
        "missing": decision.get("missing").filter(|m| m.is_array()).cloned().unwrap_or_else(|| json!(missing)),
    });
    let mut artifact = json!({
        "artifactId": "decision",
        "name": "decision",
        "parts": [
            {"kind": "text", "text": summary(result, consensus, &votes, &missing)},
            {"kind": "data", "data": data},
        ],
    });
    if !contradiction.is_empty() {
        artifact["metadata"] = json!({"warning": contradiction});
    }
    if !entry.finish(TaskOutcome::Decided(artifact)) {
        connection.debug(|| format!("ignored a second decision on {}", entry.id));
    }
}

/// Returns the result of a decision after checking its fields.
fn result(decision: &Value) -> Result<&str, &'static str> {
    if decision
        .get("votes")
        .is_some_and(|votes| !votes.is_object())
    {
        return Err("its `votes` are not an object");
    }
    if decision
        .get("consensus")
        .is_some_and(|value| !value.is_boolean())
    {
        return Err("its `consensus` is neither true nor false");
    }
    match decision.get("result").and_then(Value::as_str) {
        Some(result @ ("approved" | "rejected")) => Ok(result),
        _ => Err("its `result` is neither approved nor rejected"),
    }
}

/// Fails the task of an unreadable decision, because the gateway may never send another one.
fn fail_malformed(connection: &A2aV1Connection, entry: &PendingTask, reason: &str) {
    connection.warn(&format!(
        "proposal {}: invalid decision: {reason}",
        entry.id
    ));
    let message = format!(
        "cannot read the gateway's decision: {reason}; the gateway may have decided the proposal; ask its operator"
    );
    let error = PeerError::new(PeerErrorKind::Gateway(ErrorCode::ProtocolError), message);
    entry.finish(TaskOutcome::Failed(error));
}

/// Describes the votes in the decision that differ from the votes that the gateway sent before.
fn changed_votes(entry: &PendingTask, listed: &Map<String, Value>) -> Option<String> {
    let others = entry.votes().into_iter().filter_map(|(member, before)| {
        let now = listed.get(&member).and_then(Value::as_str);
        let now = now.unwrap_or("no vote");
        (now != before).then(|| format!("{member} {before} before and {now} now"))
    });
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| {
        format!(
            "the gateway's list of votes contradicts the votes it sent before: {}",
            others.join(", ")
        )
    })
}

/// Returns the votes in the gateway's list by member, without invalid ones.
fn votes(decision: &Value) -> Map<String, Value> {
    let listed = decision
        .get("votes")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let known = listed.filter_map(|(name, vote)| {
        let word = vote.as_str().or_else(|| vote.get("vote")?.as_str())?;
        Some((excerpt(name), Vote::from_name(word)?.as_str().into()))
    });
    known.collect()
}

struct VoteCount {
    result: &'static str,
    consensus: bool,
}

/// Counts the votes of the members.
fn count_votes(members: &[String], votes: &Map<String, Value>) -> VoteCount {
    let mut tally = Tally::new(members.to_vec(), Quorum::All);
    for (name, vote) in votes {
        if let Some(vote) = vote.as_str().and_then(Vote::from_name) {
            // Votes of agents outside the triad do not count.
            let _ = tally.cast(name, vote);
        }
    }
    let decision = tally.close();
    VoteCount {
        result: decision.result(),
        consensus: decision.consensus,
    }
}

fn summary(
    result: &str,
    consensus: bool,
    votes: &Map<String, Value>,
    missing: &[&String],
) -> String {
    let how = if consensus {
        "by consensus"
    } else {
        "without consensus"
    };
    let votes = votes
        .iter()
        .map(|(name, vote)| format!("{name} {}", vote.as_str().unwrap_or_default()));
    let missing = missing.iter().map(|name| format!("{name} no vote"));
    let all: Vec<_> = votes.chain(missing).collect();
    format!(
        "The triad has {result} the proposal {how}: {}.",
        all.join(", ")
    )
}
