//! The result of `list_targets`: the agents that can be called, and their cards.

use super::sanitize::line;
use super::sections::{Section, Sections, length, shortened};
use super::view::{Failure, Target};
use super::{ModelText, gateway_name};

/// The longest alias and the longest reason, in characters.
const MAX_NAME_CHARS: usize = 120;

/// How many examples and skills of one target are shown; a card may have any number.
const MAX_LISTED_SKILLS: usize = 20;

/// Renders the targets, each on a line, and their cards and descriptions inside the fence.
pub(super) fn targets(text_out: &mut ModelText, targets: &[Target<'_>]) {
    text_out.push_line(&match targets.len() {
        0 => "list_targets: no agent is configured".to_owned(),
        1 => "list_targets: 1 agent".to_owned(),
        count => format!("list_targets: {count} agents"),
    });
    if targets.is_empty() {
        text_out.push_line("next: tell the user that an operator has to configure one.");
    }
    let mut room = text_out.max_chars() / 3;
    let (of_gateway, own): (Vec<_>, Vec<_>) = targets
        .iter()
        .partition(|target| gateway_name(&target.target_alias).is_some());
    let own = own.into_iter().map(|target| listed(alias(target), target));
    for (i, shown) in gateway_agents(&of_gateway)
        .into_iter()
        .chain(own)
        .enumerate()
    {
        let chars = length(&shown) + 1;
        if chars > room {
            let more = targets.len() - of_gateway.len() + of_gateway.len().min(1) - i;
            text_out.push_line(&format!(
                "and {more} more, which the description of this tool names"
            ));
            break;
        }
        room -= chars;
        text_out.push_line(&shown);
    }
    let mut sections = Sections::default();
    for target in targets {
        sections.push_shared(Section::new(alias(target), facts(target)).titled());
    }
    text_out.push_fenced(&sections, None);
}

fn alias(target: &Target<'_>) -> String {
    shortened(&line(&target.target_alias), MAX_NAME_CHARS)
}

/// Returns the line for the agents of a gateway, whose names stand inside the fence.
fn gateway_agents(targets: &[&Target<'_>]) -> Option<String> {
    let name = match targets.len() {
        1 => "1 agent of the local gateway, named below".to_owned(),
        count => format!("{count} agents of the local gateway, named below"),
    };
    let code = |target: &Target<'_>| {
        target
            .last_refresh_error
            .as_ref()
            .map(|error| error.reason.to_string())
    };
    let first = targets.first()?;
    // An error of the gateway is that of all its agents.
    let is_shared = targets.iter().all(|target| code(target) == code(first));
    Some(match is_shared {
        true => listed(name, first),
        false => format!("- {name}"),
    })
}

fn listed(name: String, target: &Target<'_>) -> String {
    let default = if target.default { " (default)" } else { "" };
    let streams = if target.streaming_supported == Some(true) {
        ", streams"
    } else {
        ""
    };
    let refused = target
        .health
        .as_ref()
        .and_then(|health| health.retry_after_ms);
    let refused = refused.map(|ms| {
        let seconds = ms.div_ceil(1000);
        format!(", does not answer: calls to it fail for {seconds} s")
    });
    let failed = target.last_refresh_error.as_ref();
    let failed = failed.map(|error| format!(", not reached: {}", reason(error)));
    format!(
        "- {name}{default}{streams}{}{}",
        refused.unwrap_or_default(),
        failed.unwrap_or_default()
    )
}

/// Returns why a card is missing, and the hint, from the tool's own table.
fn reason(error: &Failure<'_>) -> String {
    let hint = error.details.hint.as_deref().unwrap_or_default();
    format!(
        "{}. {}",
        line(&error.reason),
        shortened(&line(hint), MAX_NAME_CHARS)
    )
}

/// Returns the known facts about a target, one per line.
fn facts(target: &Target<'_>) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut push = |label: &str, text: &str| {
        if !text.is_empty() {
            all.push(format!("{label}: {text}"));
        }
    };
    push("name", target.target_name.as_deref().unwrap_or_default());
    push("about", target.description.as_deref().unwrap_or_default());
    push("role", target.role.as_deref().unwrap_or_default());
    push("status", target.status.as_deref().unwrap_or_default());
    let members = target.members.iter().take(MAX_LISTED_SKILLS);
    let members: Vec<String> = members
        .map(|member| format!("{} {}", &*member.name, &*member.status))
        .collect();
    push("members", &members.join("; "));
    let join = |list: &[super::view::Text<'_>]| {
        let list: Vec<&str> = list
            .iter()
            .take(MAX_LISTED_SKILLS)
            .map(|word| &**word)
            .collect();
        list.join("; ")
    };
    push("tags", &join(&target.tags));
    push("examples", &join(&target.examples));
    let skills = target.peer_card.iter().flat_map(|card| &card.skills);
    for skill in skills.take(MAX_LISTED_SKILLS) {
        push(
            "skill",
            &format!("{}: {}", &*skill.name, &*skill.description),
        );
    }
    if let Some(error) = &target.last_refresh_error {
        push("error", &error.message);
    }
    all.join("\n")
}
