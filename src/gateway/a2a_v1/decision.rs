//! What the triad has decided (000 §10.5). The gateway's word counts; what does not fit the votes is told beside it.

use serde_json::{Map, Value, json};

use crate::collective::{Envelope, GATEWAY, Kind, Quorum, Tally, Vote};
use crate::gateway::ledger::{Entry, Outcome};
use crate::peer::quoted;

use super::line::Line;

/// The proposal that a vote, a decision or the event that tells a decision is about.
pub(super) fn proposal_id(envelope: &Envelope) -> Option<&str> {
    match envelope.kind() {
        Kind::Vote | Kind::Decision => envelope.said("proposalId"),
        Kind::Event => decided(envelope)?.get("proposalId").and_then(Value::as_str),
        _ => None,
    }
}

/// The decision that an envelope tells: its content, or what an event of that name holds.
fn decided(envelope: &Envelope) -> Option<&Value> {
    if envelope.kind() == Kind::Decision {
        return Some(envelope.content());
    }
    let name = envelope
        .said("event")
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

/// Takes in a decision. Only the gateway decides.
pub(super) fn take(line: &Line, entry: &Entry, envelope: &Envelope) {
    if envelope.field("from").is_some_and(|from| from != GATEWAY) {
        let from = quoted(envelope.from().unwrap_or_default());
        return line.warn(&format!(
            "ignored a decision from `{from}`, who is not the gateway"
        ));
    }
    let Some(said) = decided(envelope) else {
        return line.debug(|| "ignored an event that tells no decision".to_owned());
    };
    let Some(result @ ("approved" | "rejected")) = said.get("result").and_then(Value::as_str)
    else {
        return line.warn("ignored a decision whose result is neither approved nor rejected");
    };
    let members = &line.settings.triad.members;
    let votes = votes(said);
    let missing = members.iter().filter(|member| !votes.contains_key(*member));
    let missing: Vec<&String> = missing.collect();
    let counted = count(members, &votes);
    let consensus = said.get("consensus").and_then(Value::as_bool);
    let consensus = consensus.unwrap_or(counted.consensus);
    let contradiction = (counted.result != result || counted.consensus != consensus).then(|| {
        format!(
            "the gateway says {result}, consensus {consensus}; by the votes it lists it is {}, consensus {}",
            counted.result, counted.consensus
        )
    });
    if let Some(contradiction) = &contradiction {
        line.warn(&format!("proposal {}: {contradiction}", entry.id));
    }
    let data = json!({
        "proposalId": entry.id,
        "result": result,
        "votes": votes,
        "consensus": consensus,
        "missing": said.get("missing").filter(|m| m.is_array()).cloned().unwrap_or_else(|| json!(missing)),
    });
    let mut artifact = json!({
        "artifactId": "decision",
        "name": "decision",
        "parts": [
            {"kind": "text", "text": sentence(result, consensus, &votes, &missing)},
            {"kind": "data", "data": data},
        ],
    });
    if let Some(contradiction) = contradiction {
        artifact["metadata"] = json!({"warning": contradiction});
    }
    if !entry.settle(Outcome::Decided(artifact)) {
        line.debug(|| format!("ignored a second decision on {}", entry.id));
    }
}

/// Who voted how, by the gateway's list. What is no vote is left out.
fn votes(said: &Value) -> Map<String, Value> {
    let listed = said
        .get("votes")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let known = listed.filter_map(|(name, vote)| {
        let word = vote.as_str().or_else(|| vote.get("vote")?.as_str())?;
        Some((quoted(name), Vote::from_word(word)?.as_str().into()))
    });
    known.collect()
}

struct Counted {
    result: &'static str,
    consensus: bool,
}

/// Our own count of the votes. Votes of others than the members do not count.
fn count(members: &[String], votes: &Map<String, Value>) -> Counted {
    let mut tally = Tally::new(members.to_vec(), Quorum::All);
    for (name, vote) in votes {
        if let Some(vote) = vote.as_str().and_then(Vote::from_word) {
            // A foreign vote is no vote.
            let _ = tally.cast(name, vote);
        }
    }
    let decision = tally.close();
    Counted {
        result: decision.result(),
        consensus: decision.consensus,
    }
}

fn sentence(
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
