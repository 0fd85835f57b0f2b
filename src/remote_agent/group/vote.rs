//! Votes of a group: which answer of an agent is a vote, and what the votes decide.

use collective::{Standing, standing};
use serde::Serialize;
use serde_json::Value;

use super::super::rules::normalized;
use super::plan::{Group, Mode};

/// The longest vote without a list of choices, in characters.
const MAX_VOTE_CHARS: usize = 200;

/// Returns the vote in an answer: all of its text, or the value at the group's pointer in its data. `None` for an answer outside
/// the choices, and for one whose data parts disagree.
pub(super) fn read(group: &Group, text: Option<&str>, summary: &str, raw: &str) -> Option<String> {
    let answer = match &group.choice_pointer {
        None => text?.to_owned(),
        Some(pointer) => {
            let parsed: Vec<Value> = [summary, raw]
                .iter()
                .filter_map(|text| serde_json::from_str(text).ok())
                .collect();
            let mut found = Vec::new();
            for value in &parsed {
                collect(value, pointer, &mut found);
            }
            let (first, rest) = found.split_first()?;
            rest.iter()
                .all(|other| other == first)
                .then(|| first.clone())?
        }
    };
    if group.choices.is_empty() {
        let answer = answer.trim();
        let is_short = answer.chars().nth(MAX_VOTE_CHARS).is_none();
        return (is_short && !answer.is_empty()).then(|| answer.to_owned());
    }
    let answer = normalized(&answer);
    let mut choices = group.choices.iter();
    choices.find(|choice| normalized(choice) == answer).cloned()
}

/// Collects the values at `pointer` in the data parts of a summary, a message, a task or a stream.
fn collect(value: &Value, pointer: &str, found: &mut Vec<String>) {
    for part in value["parts"].as_array().into_iter().flatten() {
        match part["data"].pointer(pointer) {
            Some(Value::String(text)) => found.push(text.clone()),
            Some(scalar @ (Value::Number(_) | Value::Bool(_))) => found.push(scalar.to_string()),
            _ => {}
        }
    }
    let artifacts = value["artifacts"].as_array().into_iter().flatten();
    let nested = [&value["status"]["message"], &value["finalEvent"]];
    for inner in artifacts.chain(nested).filter(|inner| inner.is_object()) {
        collect(inner, pointer, found);
    }
}

/// The votes for one choice.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Count<'a> {
    pub(super) choice: &'a str,
    pub(super) votes: usize,
    pub(super) target_aliases: Vec<&'a str>,
}

/// Returns the votes by choice, the most first.
pub(super) fn counts(group: &Group) -> Vec<Count<'_>> {
    let mut counts: Vec<Count<'_>> = Vec::new();
    for member in &group.members {
        let Some(vote) = member.vote.as_deref() else {
            continue;
        };
        match counts.iter_mut().find(|count| count.choice == vote) {
            Some(count) => {
                count.votes += 1;
                count.target_aliases.push(member.alias());
            }
            None => counts.push(Count {
                choice: vote,
                votes: 1,
                target_aliases: vec![member.alias()],
            }),
        }
    }
    counts.sort_by_key(|count| std::cmp::Reverse(count.votes));
    counts
}

/// Decides the group, where its answers do. Returns whether they have just done so. A member counts once its call `has_ended`: an update
/// may tell of the end of a task before its whole answer is here.
pub(super) fn decide(group: &mut Group, has_ended: impl Fn(usize) -> bool) -> bool {
    if group.winner.is_some() {
        return false;
    }
    let members = group.members.iter().enumerate();
    let mut ended = members.filter(|(place, _)| has_ended(*place));
    group.winner = match group.mode {
        Mode::First => {
            let first = ended.find(|(_, member)| member.has_answer());
            first.map(|(_, member)| member.alias().to_owned())
        }
        Mode::Vote if group.is_counted() => {
            let done = ended.filter(|(_, member)| member.is_done()).count();
            let open = group.members.len() - done;
            let votes = group
                .members
                .iter()
                .filter_map(|member| member.vote.as_deref());
            match standing(votes, open, group.needed()) {
                Standing::Won(choice) => Some(choice.to_owned()),
                Standing::Open | Standing::Lost => None,
            }
        }
        Mode::All | Mode::Vote => None,
    };
    group.winner.is_some()
}
