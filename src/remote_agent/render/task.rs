//! The result of a call to one target: an answer, a task, a page of an artifact, an update or a failure, and the next step
//! for an open task.

use a2a::TaskState;
use base::budget::Unit;
use base::text::first_chars;

use super::sanitize::{line, quoted};
use super::sections::{MessageParts, Section, Sections, artifact_text, length, shortened};
use super::view::{Artifact, BudgetWarning, Failure, Group, GroupMember, Page, Summary, Task};
use super::{ModelText, gateway_name, page_chars, word};
use crate::remote_agent::extension_text;
use crate::remote_agent::request::{is_answer, is_over};

/// The longest alias and address, in characters, so that the required lines fit the smallest limit.
const MAX_NAME_CHARS: usize = 120;

/// The longest id of a task or a conversation, in characters with its escapes.
const MAX_ID_CHARS: usize = 200;

/// A handle has 40 characters. The limit guards against text that only resembles an envelope.
const MAX_HANDLE_CHARS: usize = 64;

/// The longest text of an update, in characters.
const MAX_UPDATE_CHARS: usize = 1000;

const CUT_ARTIFACTS_HINT: &str = "to read on: status with this task_handle, an artifact_id as quoted below and, as offset, where its text stops.";
const CUT_TEXT_HINT: &str = "the rest cannot be fetched again; ask the agent to say it in parts.";

/// Renders the result of send, watch, status or cancel.
pub(super) fn result(
    text_out: &mut ModelText,
    action: &str,
    summary: &Summary<'_>,
    message_parts: &MessageParts<'_>,
) {
    text_out.push_line(&format!("{}: {}", word(action), state_line(summary)));
    name(text_out, summary);
    if let Some(person) = summary
        .person
        .as_ref()
        .and_then(|person| person_line(&person.outcome))
    {
        text_out.push_line(&format!("person: {person}"));
    }
    // The handle of a terminal task only serves to read the rest of a cut artifact.
    let handle = handle(summary).map(|handle| shortened(&line(handle), MAX_HANDLE_CHARS));
    let handle = handle.map(|handle| format!("task_handle: {handle}"));
    let ended = is_terminal(summary) && !summary.incomplete && summary.artifact_page.is_none();
    if let Some(handle) = handle.as_ref().filter(|_| !ended) {
        text_out.push_line(handle);
    }
    if let Some(page) = &summary.artifact_page {
        return self::page(text_out, summary, page);
    }
    if summary.incomplete {
        text_out.push_line("incomplete: part of the agent's answer may be missing.");
    }
    if let Some(warning) = summary.budget_warning.as_ref().and_then(budget_line) {
        text_out.push_line(&warning);
    }
    if let Some(warning) = &summary.card_warning {
        let warning = line(&format!("warning: {}", &*warning.message));
        text_out.push_line(&shortened(&warning, MAX_MESSAGE_CHARS));
    }
    if let Some(next) = next(summary) {
        text_out.push_line(&format!("next: {next}"));
    }
    let mut sections = Sections::default();
    for answer in summary.person.iter().flat_map(|person| &person.answers) {
        sections.push_shared(Section::new("what the person answered", &**answer));
    }
    collect(summary, message_parts, &mut sections);
    let advice = match handle.filter(|_| ended && !summary.artifacts.is_empty()) {
        Some(handle) => format!("{handle}\n{CUT_ARTIFACTS_HINT}"),
        None if summary.artifacts.is_empty() => CUT_TEXT_HINT.to_owned(),
        None => CUT_ARTIFACTS_HINT.to_owned(),
    };
    text_out.push_fenced(&sections, Some(&advice));
}

/// Returns the line about a budget that is nearly used up.
fn budget_line(warning: &BudgetWarning<'_>) -> Option<String> {
    let whose = match &*warning.scope {
        "target" => "this agent",
        "chain" => "this chain of delegations",
        "total" => "all agents",
        _ => return None,
    };
    let unit = Unit::from_name(&warning.unit)?.as_str();
    let BudgetWarning { used, limit, .. } = warning;
    // A currency is text of the agent.
    let uncounted = match warning.unknown_currency {
        Some(_) => " The agent reports a cost in another currency, which no budget counts.",
        None => "",
    };
    let is_time = |text: &str| {
        text.len() < 32
            && text
                .chars()
                .all(|c| c.is_ascii_digit() || "-:.TZ".contains(c))
    };
    let resets = warning.resets.as_deref().filter(|time| is_time(time));
    let resets = resets.map_or_else(String::new, |time| format!(" It starts anew at {time}."));
    Some(format!(
        "budget: {used} of {limit} {unit} for {whose} are used.{resets}{uncounted}"
    ))
}

/// Renders an update.
pub(super) fn update(text_out: &mut ModelText, action: &str, summary: &Summary<'_>) {
    text_out.limit(MAX_UPDATE_CHARS);
    text_out.push_line(&format!(
        "{} under way: {}",
        word(action),
        state_line(summary)
    ));
    place(text_out, summary);
    let mut sections = Sections::default();
    if let Some(text) = &summary.status_message {
        sections.push_urgent(Section::new("status message", &**text));
    }
    text_out.push_fenced(&sections, None);
}

/// Renders an error's `latest_event_summary`: the task's state and target.
pub(super) fn partial(text_out: &mut ModelText, summary: &Summary<'_>) {
    if let Some(group) = &summary.group {
        return group_head(text_out, "so far", group);
    }
    text_out.push_line(&format!("so far: {}", state_line(summary)));
    place(text_out, summary);
}

/// Renders how many agents have answered, and the handle of the group where a later call needs it.
pub(super) fn group_head(text_out: &mut ModelText, action: &str, group: &Group<'_>) {
    let results = &group.results;
    let answered = |member: &&GroupMember<'_>| is_answer(&member.state);
    let answered = results.iter().filter(answered).count();
    let decided = group.decided_by.as_deref().map(word);
    let decided = match decided.as_deref() {
        None | Some("all") => String::new(),
        Some("none") => "; nothing is decided".to_owned(),
        Some(by) => format!("; decided by {by}"),
    };
    let (count, mode) = (results.len(), word(&group.mode));
    text_out.push_line(&format!(
        "{action}: {answered} of {count} agents answered, mode {mode}{decided}"
    ));
    let goes_on = results.iter().any(|member| !is_over(&member.state));
    if goes_on && group.winner.is_none() {
        text_out.push_line(&format!("task_handle of the group: {}", word(&group.id)));
    }
}

/// Adds the agent's text, of an answer or of what came before an error.
pub(super) fn collect<'a>(
    summary: &'a Summary<'a>,
    message_parts: &'a MessageParts<'a>,
    sections: &mut Sections<'a>,
) {
    let question = question_label(summary);
    let label = question.unwrap_or("status message");
    let more = format!("{label}, files and data");
    let status = summary.status_message.as_deref().unwrap_or_default();
    for (label, text) in [(label, status), (&more, &message_parts.status)] {
        if text.is_empty() {
            continue;
        }
        let section = Section::new(label, text);
        match question {
            Some(_) => sections.push_urgent(section),
            None => sections.push_shared(section),
        }
    }
    if let Some(error) = &summary.query_error {
        sections.push_shared(Section::new("why the latest query failed", &**error));
    }
    ids(summary, sections);
    // With artifacts it repeats their texts, and without them it may be the status message.
    let answer = summary.message_text.as_deref();
    let answer = answer.filter(|answer| Some(*answer) != summary.status_message.as_deref());
    let answer = answer.filter(|answer| !answer.is_empty() && summary.artifacts.is_empty());
    if let Some(text) = answer {
        sections.push_shared(Section::new("answer", text));
    }
    if !message_parts.answer.is_empty() {
        sections.push_shared(Section::new(
            "answer, files and data",
            &*message_parts.answer,
        ));
    }
    for artifact in &summary.artifacts {
        sections.push_shared(of_artifact(artifact));
    }
    let metadata = summary
        .artifacts
        .iter()
        .filter_map(|artifact| artifact.metadata);
    let notes = metadata.map(|metadata| extension_text::notes(metadata.get()));
    let notes: Vec<_> = std::iter::once(message_parts.notes.clone())
        .chain(notes)
        .filter(|notes| !notes.is_empty())
        .collect();
    if !notes.is_empty() {
        sections.push_shared(Section::new("sources and steps", notes.join("\n")));
    }
}

fn page<'a>(text_out: &mut ModelText, summary: &'a Summary<'a>, page: &'a Page<'a>) {
    let text = first_chars(&page.text, page_chars(text_out.max_chars()));
    let whole = text.len() == page.text.len();
    let next_offset = match whole {
        true => page.next_offset,
        false => Some(page.offset.saturating_add(length(text))),
    };
    let next = match (next_offset, &page.next_artifact_id) {
        (Some(offset), _) => {
            format!("status with this task_handle, the same artifact_id and offset {offset}.")
        }
        (None, Some(_)) => {
            "this artifact has no more; the next one's id is quoted below.".to_owned()
        }
        (None, None) => "this artifact has no more, and it is the last.".to_owned(),
    };
    text_out.push_line(&format!("next: {next}"));
    let mut sections = Sections::default();
    sections.push_urgent(Section::part(
        "page of the artifact",
        text,
        page.offset,
        page.total,
    ));
    if let Some(id) = page
        .next_artifact_id
        .as_deref()
        .filter(|_| next_offset.is_none())
    {
        sections.note(format!("next artifact_id {}", quoted(id)));
    }
    if let (Some(label), Some(text)) = (question_label(summary), &summary.status_message) {
        sections.push_shared(Section::new(label, &**text));
    }
    text_out.push_fenced(&sections, None);
}

/// Renders the target and the task's handle.
fn place(text_out: &mut ModelText, summary: &Summary<'_>) {
    name(text_out, summary);
    if let Some(handle) = handle(summary) {
        let handle = shortened(&line(handle), MAX_HANDLE_CHARS);
        text_out.push_line(&format!("task_handle: {handle}"));
    }
}

/// Renders the target. Programs choose the names of agents behind a gateway, so those are only quoted inside the fence
/// ([`ids`]).
fn name(text_out: &mut ModelText, summary: &Summary<'_>) {
    let name = summary
        .target_alias
        .as_ref()
        .or(summary.target_url.as_ref());
    if let Some(name) = name {
        text_out.push_line(&format!("agent: {}", shown_name(name)));
    }
}

/// Returns an alias or an address outside the fence.
pub(super) fn shown_name(name: &str) -> String {
    match gateway_name(name) {
        Some(_) => "an agent of the local gateway".to_owned(),
        None => shortened(&line(name), MAX_NAME_CHARS),
    }
}

/// Returns whether the task is terminal.
fn is_terminal(summary: &Summary<'_>) -> bool {
    matches!(
        state(summary),
        Some("completed" | "failed" | "rejected" | "canceled")
    )
}

/// Returns the handle of the summary's task.
pub(super) fn handle<'a>(summary: &'a Summary<'a>) -> Option<&'a str> {
    let task = summary.continuation.as_ref()?.task.as_ref()?;
    Some(&task.task_handle)
}

fn state<'a>(summary: &'a Summary<'a>) -> Option<&'a str> {
    let task = summary.continuation.as_ref()?.task.as_ref()?;
    task.status.as_deref()
}

/// Returns `task working`, or that there is no task. A word that is not a state of the protocol is the agent's text, so it
/// is only quoted inside the fence ([`ids`]).
fn state_line(summary: &Summary<'_>) -> String {
    match (handle(summary), state(summary)) {
        (None, _) => "answered, without a task".to_owned(),
        (Some(_), Some(state)) => match TaskState::from_name(state) {
            state if state.is_foreign() => "task in a state of the agent's own".to_owned(),
            state => format!("task {}", state.as_str()),
        },
        (Some(_), None) => "task in an unknown state".to_owned(),
    }
}

/// Returns what a person did, where the next step does not say it.
fn person_line(outcome: &str) -> Option<&'static str> {
    Some(match outcome {
        "answered" => "a person answered the agent; the answer is with the agent already.",
        "passed" => "a person leaves the answer to you.",
        "unsent" => "a person answered, but the agent did not take the answer.",
        "timeout" => "no person answered in time.",
        "unreachable" => "no person can be reached here.",
        "declined" => "a person declined to answer.",
        _ => return None,
    })
}

/// Returns the label of the status message where the task waits for its caller.
fn question_label(summary: &Summary<'_>) -> Option<&'static str> {
    match state(summary) {
        Some("input-required") => Some("question"),
        Some("auth-required") => Some("what the agent wants"),
        _ => None,
    }
}

fn next(summary: &Summary<'_>) -> Option<String> {
    // The envelope's words also name the continuation, which a model does not see.
    let step = summary.next_step.as_deref();
    let own = step.filter(|_| !summary.wait_expired || handle(summary).is_none());
    match own {
        Some(step) => Some(shortened(&line(step), MAX_NEXT_STEP_CHARS)),
        None => next_step(summary).map(str::to_owned),
    }
}

/// Adds the name of a gateway's agent, a state of the agent's own, the ids that find an open task again without its handle, as after a restart, and the
/// conversation's.
fn ids(summary: &Summary<'_>, sections: &mut Sections<'_>) {
    let Some(going_on) = &summary.continuation else {
        return;
    };
    let task = going_on.task.as_ref().map(|task| &task.task_id);
    let task = task.filter(|_| !is_terminal(summary));
    let context = going_on
        .conversation
        .as_ref()
        .map(|conversation| &conversation.context_id);
    let state = state(summary).filter(|state| TaskState::from_name(state).is_foreign());
    let agent = summary.target_alias.as_deref();
    let agent = agent.filter(|alias| gateway_name(alias).is_some());
    for (name, id) in [
        ("agent", agent),
        ("state", state),
        ("task_id", task.map(|id| &**id)),
        ("context_id", context.map(|id| &**id)),
    ] {
        let quoted = id.map(quoted).filter(|id| id.len() <= MAX_ID_CHARS);
        if let Some(id) = quoted {
            sections.note(format!("{name} {id}"));
        }
    }
}

fn of_artifact<'a>(artifact: &'a Artifact<'a>) -> Section<'a> {
    let name: Option<String> = artifact
        .name
        .and_then(|name| serde_json::from_str(name.get()).ok());
    let name = name.filter(|name| !name.is_empty());
    let name = name.map(|name| format!(" {}", shortened(&line(&name), MAX_NAME_CHARS)));
    let label = format!("artifact{}", name.as_deref().unwrap_or_default());
    let section = Section::new(label, artifact_text(&artifact.parts));
    let section = section.with_id(quoted(&artifact.artifact_id));
    match name {
        Some(_) => section.titled(),
        None => section,
    }
}

/// The length limits of the tool's message and of the hint, in characters.
const MAX_MESSAGE_CHARS: usize = 300;
const MAX_HINT_CHARS: usize = 240;

/// Renders the failure, and what the agent said before it, as in a result.
pub(super) fn failure(text_out: &mut ModelText, action: &str, failure: &Failure<'_>) {
    let details = &failure.details;
    let retryable = if failure.retryable { "yes" } else { "no" };
    text_out.push_line(&format!(
        "{} failed: {} ({}), retryable: {retryable}",
        word(action),
        word(&failure.code),
        word(&failure.reason)
    ));
    let before = details.latest_event_summary.as_deref();
    if let Some(before) = before {
        partial(text_out, before);
    }
    if let Some(status) = details.http_status {
        text_out.push_line(&format!("http_status: {status}"));
    }
    if let Some(delivered) = &details.delivered {
        text_out.push_line(&format!("delivered: {}", word(delivered)));
    }
    let hint = shortened(
        &line(details.hint.as_deref().unwrap_or_default()),
        MAX_HINT_CHARS,
    );
    let replacement = match before.and_then(handle) {
        Some(_) => " Use the task_handle above for its continuation.",
        None => "",
    };
    text_out.push_line(&format!("next: {hint}{replacement}"));
    let mut sections = Sections::default();
    if failure.quotes_peer {
        sections.push_urgent(Section::new("message", &*failure.message));
    } else {
        let message = format!("message: {}", line(&failure.message));
        text_out.push_line(&shortened(
            &message,
            MAX_MESSAGE_CHARS.min(text_out.remaining()),
        ));
        violations(text_out, failure);
    }
    if let Some(text) = &details.message_text {
        sections.push_shared(Section::new("answer", &**text));
    }
    if let Some(id) = &details.context_id {
        sections.note(format!("context_id {}", quoted(id)));
    }
    let ids: Vec<String> = details
        .known_artifact_ids
        .iter()
        .map(|id| quoted(id))
        .collect();
    if !ids.is_empty() {
        sections.push_shared(Section::new("artifact ids", ids.join("\n")));
    }
    // An error has no `raw`.
    let message_parts = MessageParts::default();
    if let Some(before) = before {
        collect(before, &message_parts, &mut sections);
    }
    if let Some(data) = details.rpc_data {
        sections.push_shared(Section::new("error data", data.get()));
    }
    text_out.push_fenced(&sections, None);
}

/// Renders the violations of the request, and the aliases to choose from.
fn violations(text_out: &mut ModelText, failure: &Failure<'_>) {
    let mut room = (text_out.max_chars() / 4).min(text_out.remaining());
    let violation = failure.details.errors.iter().map(|violation| {
        let [place, message] = [&violation.instance_path, &violation.message]
            .map(|text| shortened(text, MAX_MESSAGE_CHARS));
        // Sanitized as one line, because two harmless texts may form a marker together.
        line(&format!("- {place} {message}"))
    });
    let aliases = failure.details.aliases.iter();
    let aliases = aliases.map(|alias| format!("- target_alias {}", line(alias)));
    for line in violation.chain(aliases) {
        let Some(remaining) = room.checked_sub(length(&line) + 1) else {
            return;
        };
        room = remaining;
        text_out.push_line(&line);
    }
}

/// The longest next step from an envelope, in characters.
pub(super) const MAX_NEXT_STEP_CHARS: usize = 240;

/// Returns the next step for an open task; `None` if the result is complete.
fn next_step(summary: &Summary<'_>) -> Option<&'static str> {
    let task = summary.continuation.as_ref()?.task.as_ref()?;
    if summary.notify {
        return Some(
            "the task goes on; you will be woken when it ends or asks. Do not send again.",
        );
    }
    of_task(task)
}

fn of_task(task: &Task<'_>) -> Option<&'static str> {
    match task.status.as_deref() {
        Some("input-required") => {
            Some("answer with send and this task_handle; ask the user if you are not sure.")
        }
        Some("auth-required") => Some(
            "tell the user what the agent wants; do not invent credentials. Then send or status with this task_handle.",
        ),
        Some("completed" | "failed" | "rejected" | "canceled") => None,
        _ if task.can_watch => {
            Some("the task goes on: watch it, or look with status later. Do not send again.")
        }
        _ => Some("the task goes on: look with status later. Do not send again."),
    }
}
