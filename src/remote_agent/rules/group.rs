//! The rules of requests about several targets.

use base::validation::violation;
use serde_json::{Map, Value, json};

/// The fields that only go with `target_aliases`.
pub(in crate::remote_agent) const GROUP_FIELDS: [&str; 4] =
    ["mode", "quorum", "choices", "choice_pointer"];

/// Those of them that only go with a vote.
const VOTE_FIELDS: [&str; 3] = ["quorum", "choices", "choice_pointer"];

/// The fields that do not go with `target_aliases`: each target has its own conversation, task and message.
const SINGLE: [&str; 9] = [
    "target_alias",
    "target_url",
    "task_handle",
    "task_id",
    "context_id",
    "message_id",
    "reference_task_ids",
    "notify",
    "push_notification_config",
];

/// The most members of a group; `limits.groupTargets` bounds them more closely.
pub(in crate::remote_agent) const MAX_MEMBERS: usize = 20;

/// The most choices of a vote.
pub(in crate::remote_agent) const MAX_CHOICES: usize = 20;

/// Returns a choice without what does not count: case and outer spaces.
pub(in crate::remote_agent) fn normalized(text: &str) -> String {
    text.trim().to_lowercase()
}

fn refuse(name: &str, message: &str, out: &mut Vec<Value>) {
    let params = json!({ "property": name });
    let place = format!("/{name}");
    out.push(violation(&place, "not", params, message));
}

/// Adds the violations of a `send`: what goes with several targets, and what does not.
pub(in crate::remote_agent) fn violations(request: &Map<String, Value>, out: &mut Vec<Value>) {
    let has = |name: &&str| request.contains_key(*name);
    let Some(aliases) = request.get("target_aliases").and_then(Value::as_array) else {
        for name in GROUP_FIELDS.iter().filter(|name| has(name)) {
            let message = format!("{name} requires target_aliases: the agents that it is about");
            let params = json!({ "missingProperty": "target_aliases" });
            out.push(violation("", "required", params, &message));
        }
        return;
    };
    if request.contains_key("continuation") {
        // The rules of continuations refuse it.
        return;
    }
    for name in SINGLE.iter().filter(|name| has(name)) {
        let message = "does not go with target_aliases, of which each has its own; leave it out";
        refuse(name, message, out);
    }
    if aliases.len() > MAX_MEMBERS {
        let message = format!("names more than {MAX_MEMBERS} targets");
        return refuse("target_aliases", &message, out);
    }
    if (1..aliases.len()).any(|i| aliases[..i].contains(&aliases[i])) {
        let message = "names a target twice; name each once";
        refuse("target_aliases", message, out);
    }
    if request.get("mode").is_none_or(|mode| mode != "vote") {
        for name in VOTE_FIELDS.iter().filter(|name| has(name)) {
            refuse(name, "goes with mode=vote only; leave it out", out);
        }
    }
    let quorum = request.get("quorum").and_then(Value::as_f64);
    if quorum.is_some_and(|quorum| quorum > aliases.len() as f64) {
        let message = "is larger than the number of targets, so nothing could decide";
        refuse("quorum", message, out);
    }
    let choices = request.get("choices").and_then(Value::as_array);
    let choices: Vec<String> = choices
        .into_iter()
        .flatten()
        .filter_map(|choice| Some(normalized(choice.as_str()?)))
        .collect();
    if choices.len() > MAX_CHOICES {
        let message = format!("has more than {MAX_CHOICES} choices");
        return refuse("choices", &message, out);
    }
    if (0..choices.len()).any(|i| choices[i].is_empty() || choices[..i].contains(&choices[i])) {
        let message = "has an empty choice, or one twice: case and outer spaces do not count";
        refuse("choices", message, out);
    }
}

/// Adds the violations of a request with the continuation of a group.
pub(in crate::remote_agent) fn continuation_violations(
    request: &Map<String, Value>,
    action: &str,
    out: &mut Vec<Value>,
) {
    let refused = match action {
        "send" => {
            "is of a group; send to one of its agents with the continuation or task_handle of its result in summary.group.results"
        }
        _ if request.contains_key("artifact_id") => {
            "is of a group; read an artifact with the continuation or task_handle of one of its results"
        }
        _ => return,
    };
    refuse("continuation", refused, out);
}
