//! Matches replies with requests, and checks that the sender may reply.
//!
//! The gateway's decision on a proposal is authoritative (Heretek A2A §10.5). If it contradicts the votes, the bridge adds a
//! warning.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::pending_tasks::{PendingTask, TaskKind, TaskOutcome};
use a2a::{Message, text_part};
use base::backoff::Backoff;
use collective::signature::SIGNATURE_STATUS;
use collective::{Decision, Envelope, ErrorCode, GATEWAY, Kind, Quorum, Tally, Vote};
use peer::{PeerError, PeerErrorKind, excerpt};

use super::connection::A2aV1Connection;
use super::{message, read_error};

/// The maximum number of times a message is sent again to a busy agent.
const MAX_RESENDS: usize = 3;

/// The delays before a message is sent again.
const RESEND_DELAY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(4));

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
            handle_decision(connection, &entry, &envelope);
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
        proposal_id(envelope),
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
        let error = read_error(envelope).into_error();
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
        Value::String(text) => json!([text_part(text)]),
        Value::Object(object) if object.get("parts").is_some_and(Value::is_array) => {
            object.get("parts").cloned().unwrap_or_default()
        }
        Value::Null => json!([]),
        object @ Value::Object(_) => json!([{"kind": "data", "data": object}]),
        other => json!([{"kind": "data", "data": {"value": other}}]),
    };
    let id = envelope.id().unwrap_or(&entry.id);
    let context = envelope.session_id().unwrap_or(&entry.context_id);
    let mut message = json!({
        "kind": "message",
        "messageId": id,
        "role": "agent",
        "contextId": context,
        "parts": parts,
    });
    if let Some(status) = envelope.signature_status() {
        message["metadata"] = json!({SIGNATURE_STATUS: status.as_str()});
    }
    Message::read(message).map_err(|e| {
        let message = format!("the agent's answer cannot be read: {e}");
        PeerError::new(PeerErrorKind::InvalidResponse, message)
    })
}

fn handle_error(connection: &Arc<A2aV1Connection>, entry: &Arc<PendingTask>, envelope: &Envelope) {
    if !is_from(envelope, &[&entry.agent, GATEWAY]) {
        return warn_forged(connection, entry, envelope);
    }
    let error = read_error(envelope);
    // Only the refusal of the gateway proves that the agent has not received the message.
    if error.code == ErrorCode::AgentBusy
        && error.is_refusal
        && entry.kind == TaskKind::Message
        && !entry.is_terminal()
        && let Some(delay) = entry.next_attempt().and_then(|attempt| {
            let mut delays = RESEND_DELAY.delays().take(MAX_RESENDS);
            delays.nth(attempt - 1)
        })
    {
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
    let member = connection
        .settings
        .triad
        .members
        .iter()
        .find(|member| *member == from);
    let Some(member) = member else {
        connection.warn(&format!(
            "ignored a vote of `{}`, who is not a member of the triad",
            excerpt(from)
        ));
        return;
    };
    if entry.has_vote_of(member) {
        connection.debug(|| format!("ignored another vote of `{member}`: its first one counts"));
        return;
    }
    let written = envelope.content().get("vote").unwrap_or(&Value::Null);
    let Some(vote) = written.as_str().and_then(Vote::read) else {
        let text = format!("{member} votes {}, {NO_VOTE}", quoted(written));
        connection.warn(&format!("proposal {}: {text}", entry.id));
        entry.step(&text, None);
        return;
    };
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

/// Returns the id of the proposal that a vote, a decision or a decision event refers to.
fn proposal_id(envelope: &Envelope) -> Option<&str> {
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
fn handle_decision(connection: &A2aV1Connection, entry: &PendingTask, envelope: &Envelope) {
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
    let known = KnownVotes::of(decision, entry, members);
    let missing = known.missing(decision, members, result);
    let counted = count_votes(members, &known.votes);
    let consensus = decision.get("consensus").and_then(Value::as_bool);
    // Approval takes two votes, also where the votes are unknown.
    let consensus =
        consensus.unwrap_or(counted.consensus || !known.are_listed && result == "approved");
    let is_countable = known.are_listed || known.votes.len() == members.len();
    let differs = counted.result != result || counted.consensus != consensus;
    let count_mismatch = (is_countable && differs).then(|| {
        format!(
            "the gateway says {result}, consensus {consensus}; by the votes it {} it is {}, consensus {}",
            if known.are_listed { "lists" } else { "sent" },
            counted.result,
            counted.consensus
        )
    });
    let changed = known
        .are_listed
        .then(|| changed_votes(entry, &known))
        .flatten();
    let unknown = known.unknown.iter();
    let unknown = unknown.map(|(name, word)| format!("{name} voted {word}, {NO_VOTE}"));
    let contradictions: Vec<String> = count_mismatch
        .into_iter()
        .chain(changed)
        .chain(unknown)
        .collect();
    let contradiction = contradictions.join("; ");
    if !contradiction.is_empty() {
        connection.warn(&format!("proposal {}: {contradiction}", entry.id));
    }
    let data = json!({
        "proposalId": entry.id,
        "result": result,
        "votes": known.votes,
        "consensus": consensus,
        "missing": decision.get("missing").filter(|m| m.is_array()).cloned().unwrap_or_else(|| json!(missing)),
    });
    let mut artifact = json!({
        "artifactId": "decision",
        "name": "decision",
        "parts": [
            text_part(summary(result, consensus, &known, &missing)),
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
fn result(decision: &Value) -> Result<&'static str, &'static str> {
    let present = |field: &str| decision.get(field).filter(|value| !value.is_null());
    if present("votes").is_some_and(|votes| !votes.is_object()) {
        return Err("its `votes` are not an object");
    }
    if present("consensus").is_some_and(|value| !value.is_boolean()) {
        return Err("its `consensus` is neither true nor false");
    }
    let result = present("result").and_then(Value::as_str);
    result
        .and_then(Decision::read_result)
        .ok_or("its `result` is neither approved nor rejected")
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
fn changed_votes(entry: &PendingTask, listed: &KnownVotes) -> Option<String> {
    let others = entry.votes().into_iter().filter_map(|(member, before)| {
        let now = listed.votes.get(&member).and_then(Value::as_str);
        let now = now
            .or_else(|| listed.unknown_of(&member))
            .unwrap_or("no vote");
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

/// What follows a word that is no vote.
const NO_VOTE: &str = "which is not `approve`, `reject` or `abstain`";

/// Returns the text of a vote that is none.
fn quoted(vote: &Value) -> String {
    excerpt(&vote.to_string())
}

/// The votes on a proposal, as far as the bridge knows them.
struct KnownVotes {
    /// The votes by member.
    votes: Map<String, Value>,
    /// The words in the gateway's list that are no votes, by member.
    unknown: Vec<(String, String)>,
    /// Whether they are those in the gateway's list. Otherwise the gateway sent them before the decision.
    are_listed: bool,
}

impl KnownVotes {
    /// Returns the votes that the decision lists, or those that the gateway sent before if it lists none.
    fn of(decision: &Value, entry: &PendingTask, members: &[String]) -> Self {
        let list = decision.get("votes").and_then(Value::as_object);
        let mut known = Self {
            votes: Map::new(),
            unknown: Vec::new(),
            are_listed: list.is_some(),
        };
        for (name, vote) in list.into_iter().flatten() {
            let name = excerpt(name);
            let word = vote.get("vote").unwrap_or(vote);
            match word.as_str().and_then(Vote::read) {
                Some(vote) => drop(known.votes.insert(name, vote.as_str().into())),
                None => known.unknown.push((name, quoted(word))),
            }
        }
        // Some gateways list the number of votes for each word.
        if !members.iter().any(|member| known.has(member)) {
            let sent = entry.votes().into_iter();
            known.votes = sent.map(|(member, vote)| (member, vote.into())).collect();
            known.unknown.clear();
            known.are_listed = false;
        }
        known
    }

    fn has(&self, member: &str) -> bool {
        self.votes.contains_key(member) || self.unknown_of(member).is_some()
    }

    fn unknown_of(&self, member: &str) -> Option<&str> {
        let unknown = self.unknown.iter().find(|(name, _)| name == member);
        unknown.map(|(_, word)| &**word)
    }

    /// Returns the members without a vote; none if the gateway has approved and has not said how anyone voted.
    fn missing<'a>(
        &self,
        decision: &Value,
        members: &'a [String],
        result: &str,
    ) -> Vec<&'a String> {
        let is_silent = self.votes.is_empty() && self.unknown.is_empty();
        if is_silent
            && result == "approved"
            && !decision.get("missing").is_some_and(Value::is_array)
        {
            return Vec::new();
        }
        members.iter().filter(|member| !self.has(member)).collect()
    }
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

fn summary(result: &str, consensus: bool, known: &KnownVotes, missing: &[&String]) -> String {
    let how = if consensus {
        "by consensus"
    } else {
        "without consensus"
    };
    let votes = known.votes.iter();
    let votes = votes.map(|(name, vote)| format!("{name} {}", vote.as_str().unwrap_or_default()));
    let unknown = known.unknown.iter();
    let unknown = unknown.map(|(name, word)| format!("{name} {word}, {NO_VOTE}"));
    let missing = missing.iter().map(|name| format!("{name} no vote"));
    let mut all: Vec<_> = votes.chain(unknown).chain(missing).collect();
    if all.is_empty() {
        all.push("the gateway does not say how the members voted".to_owned());
    }
    format!(
        "The triad has {result} the proposal {how}: {}.",
        all.join(", ")
    )
}
