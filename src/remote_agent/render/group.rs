//! The result of one message to several targets: what was decided, and each answer in a fence of its own, the winner first.

use serde_json::value::RawValue;

use super::sanitize::line;
use super::sections::{MessageParts, Section, Sections, length, shortened};
use super::task;
use super::view::{Group, GroupMember, Summary};
use super::{ModelText, word};

/// How many votes are shown.
const MAX_VOTES: usize = 20;

/// Renders the result of a group. `raw` has what the summaries of the members lack, in their order.
pub(super) fn result(
    text_out: &mut ModelText,
    action: &str,
    summary: &Summary<'_>,
    group: &Group<'_>,
    raw: Option<&RawValue>,
) {
    task::group_head(text_out, &word(action), group);
    if let Some(step) = &summary.next_step {
        let step = shortened(&line(step), task::MAX_NEXT_STEP_CHARS);
        text_out.push_line(&format!("next: {step}"));
    }
    let votes = group.votes.iter().take(MAX_VOTES);
    let votes: Vec<String> = votes
        .map(|count| format!("{}: {}", count.votes, &*count.choice))
        .collect();
    let mut counted = Sections::default();
    if !votes.is_empty() {
        counted.push_shared(Section::new("votes", votes.join("\n")).titled());
    }
    text_out.push_fenced(&counted, None);
    let raw = raw.and_then(|raw| serde_json::from_str::<Vec<Option<&RawValue>>>(raw.get()).ok());
    let raw = raw.unwrap_or_default();
    let mut members: Vec<_> = group.results.iter().enumerate().collect();
    members.sort_by_key(|(_, member)| !is_winner(member, group));
    let count = members.len();
    for (shown, (place, member)) in members.into_iter().enumerate() {
        let share = text_out.remaining() / (count - shown);
        let parts = MessageParts::from_raw(raw.get(place).copied().flatten());
        let text = answer(text_out, member, &parts, share);
        if length(&text) > share {
            if text_out.remaining() > 40 {
                text_out.push_line(&format!("and {} more", count - shown));
            }
            return;
        }
        text_out.push_line(&text);
    }
}

fn is_winner(member: &GroupMember<'_>, group: &Group<'_>) -> bool {
    let Some(winner) = group.winner.as_deref() else {
        return false;
    };
    match &*group.mode {
        "first" => &*member.target_alias == winner,
        _ => member.vote.as_deref() == Some(winner),
    }
}

/// Returns the answer of one member in at most `share` characters, or the line about it.
fn answer(
    text_out: &ModelText,
    member: &GroupMember<'_>,
    parts: &MessageParts<'_>,
    share: usize,
) -> String {
    let mut own = ModelText {
        text: String::new(),
        max_chars: share,
        fence: text_out.fence.clone(),
    };
    if let (Some(summary), None) = (&member.summary, &member.canceled) {
        task::result(&mut own, "answer", summary, parts);
    } else if let (Some(error), None) = (&member.error, &member.canceled) {
        own.push_line(&short_line(member));
        task::failure(&mut own, "its call", error);
    }
    if member.truncated {
        own.push_line("truncated: the answer is longer than its share; read it with status and its task_handle.");
    }
    match !own.text.is_empty() && length(&own.text) <= share {
        true => own.text,
        false => short_line(member),
    }
}

/// Returns the line about a member without its answer.
fn short_line(member: &GroupMember<'_>) -> String {
    let name = task::shown_name(&member.target_alias);
    let state = word(&member.state);
    let canceled = match member.canceled.as_deref() {
        None => "",
        // The state of its task says it.
        Some("canceled") if state == "canceled" => "",
        Some("canceled") => ", cancelled",
        Some("not_cancelable") => ", could not be cancelled",
        Some(_) => ", perhaps not cancelled",
    };
    format!("agent: {name}: {state}{canceled}")
}
