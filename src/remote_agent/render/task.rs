//! What came of a call to one target: an answer, a task, a page of an artifact, or news on the way.

use super::cap::{first, length, shortened};
use super::neutral::{line, quoted};
use super::next_step::{self, next_step};
use super::parts::{self, Unspoken};
use super::sections::{Section, Sections};
use super::view::{Artifact, Page, Summary};
use super::{Reading, page_chars, word};

/// An alias longer than this is cut, as is an address, in characters. What must be there fits the smallest cap so.
const LONGEST_NAME: usize = 120;

/// The longest id of a task or a conversation that is shown, in characters with its escapes.
const LONGEST_ID: usize = 200;

/// A handle has 40 characters. This is for a text that only looks like an envelope.
const LONGEST_HANDLE: usize = 64;

/// The longest word for a state.
const LONGEST_STATE: usize = 40;

/// News of a call that is under way is cut to so many characters.
const LONGEST_UPDATE: usize = 1000;

const CUT_ARTIFACTS: &str = "to read on: status with this task_handle, an artifact_id as quoted below and, as offset, where its text stops.";
const CUT_WORDS: &str = "the rest cannot be fetched again; ask the agent to say it in parts.";

/// The result of send, watch, status or cancel.
pub(super) fn result(
    reading: &mut Reading,
    action: &str,
    summary: &Summary<'_>,
    unspoken: &Unspoken<'_>,
) {
    reading.say(&format!("{}: {}", word(action), standing(summary)));
    name(reading, summary);
    // Of a task that has ended, a handle is of use only to read on in what was cut.
    let handle = handle(summary).map(|handle| shortened(&line(handle), LONGEST_HANDLE));
    let handle = handle.map(|handle| format!("task_handle: {handle}"));
    let ended = is_terminal(summary) && !summary.incomplete && summary.artifact_page.is_none();
    if let Some(handle) = handle.as_ref().filter(|_| !ended) {
        reading.say(handle);
    }
    if let Some(page) = &summary.artifact_page {
        return self::page(reading, summary, page);
    }
    if summary.incomplete {
        reading.say("incomplete: something that the agent said may be missing.");
    }
    if let Some(next) = next(summary) {
        reading.say(&format!("next: {next}"));
    }
    let mut said = Sections::default();
    collect(summary, unspoken, &mut said);
    let advice = match handle.filter(|_| ended && !summary.artifacts.is_empty()) {
        Some(handle) => format!("{handle}\n{CUT_ARTIFACTS}"),
        None if summary.artifacts.is_empty() => CUT_WORDS.to_owned(),
        None => CUT_ARTIFACTS.to_owned(),
    };
    reading.fenced(&said, Some(&advice));
}

/// News of a call that is under way.
pub(super) fn update(reading: &mut Reading, action: &str, summary: &Summary<'_>) {
    reading.at_most(LONGEST_UPDATE);
    reading.say(&format!(
        "{} under way: {}",
        word(action),
        standing(summary)
    ));
    place(reading, summary);
    let mut said = Sections::default();
    if let Some(text) = &summary.status_message {
        said.urgent(Section::new("status message", &**text));
    }
    reading.fenced(&said, None);
}

/// What is kept of an error's `latest_event_summary`: where the task stands and whose it is.
pub(super) fn kept(reading: &mut Reading, summary: &Summary<'_>) {
    reading.say(&format!("so far: {}", standing(summary)));
    place(reading, summary);
}

/// What the agent said, of an answer or of what came before an error.
pub(super) fn collect<'a>(
    summary: &'a Summary<'a>,
    unspoken: &'a Unspoken<'a>,
    said: &mut Sections<'a>,
) {
    let question = question_label(summary);
    let label = question.unwrap_or("status message");
    let more = format!("{label}, files and data");
    let status = summary.status_message.as_deref().unwrap_or_default();
    for (label, text) in [(label, status), (&more, &unspoken.status)] {
        if text.is_empty() {
            continue;
        }
        let section = Section::new(label, text);
        match question {
            Some(_) => said.urgent(section),
            None => said.shared(section),
        }
    }
    ids(summary, said);
    // With artifacts it is only their texts once more, and without them it may be the status message.
    let answer = summary.message_text.as_deref();
    let answer = answer.filter(|answer| Some(*answer) != summary.status_message.as_deref());
    let answer = answer.filter(|answer| !answer.is_empty() && summary.artifacts.is_empty());
    if let Some(text) = answer {
        said.shared(Section::new("answer", text));
    }
    if !unspoken.answer.is_empty() {
        said.shared(Section::new("answer, files and data", &*unspoken.answer));
    }
    for artifact in &summary.artifacts {
        said.shared(of_artifact(artifact));
    }
}

fn page<'a>(reading: &mut Reading, summary: &'a Summary<'a>, page: &'a Page<'a>) {
    let text = first(&page.text, page_chars(reading.cap()));
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
    reading.say(&format!("next: {next}"));
    let mut said = Sections::default();
    said.urgent(Section::part(
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
        said.note(format!("next artifact_id {}", quoted(id)));
    }
    if let (Some(label), Some(text)) = (question_label(summary), &summary.status_message) {
        said.shared(Section::new(label, &**text));
    }
    reading.fenced(&said, None);
}

/// Whose result it is, and the handle of its task.
fn place(reading: &mut Reading, summary: &Summary<'_>) {
    name(reading, summary);
    if let Some(handle) = handle(summary) {
        let handle = shortened(&line(handle), LONGEST_HANDLE);
        reading.say(&format!("task_handle: {handle}"));
    }
}

/// Whose result it is.
fn name(reading: &mut Reading, summary: &Summary<'_>) {
    let name = summary
        .target_alias
        .as_ref()
        .or(summary.target_url.as_ref());
    if let Some(name) = name {
        reading.say(&format!("agent: {}", shortened(&line(name), LONGEST_NAME)));
    }
}

/// The task is over: nothing can be sent to it, and nothing more comes of it.
fn is_terminal(summary: &Summary<'_>) -> bool {
    matches!(
        state(summary),
        Some("completed" | "failed" | "rejected" | "canceled")
    )
}

/// The handle of the task that a summary speaks of.
pub(super) fn handle<'a>(summary: &'a Summary<'a>) -> Option<&'a str> {
    let task = summary.continuation.as_ref()?.task.as_ref()?;
    Some(&task.task_handle)
}

fn state<'a>(summary: &'a Summary<'a>) -> Option<&'a str> {
    let task = summary.continuation.as_ref()?.task.as_ref()?;
    task.status.as_deref()
}

/// `task working`, or that there is no task. A state is a word that the agent chose, so one that is no word is not repeated.
fn standing(summary: &Summary<'_>) -> String {
    let is_word = |state: &&str| {
        state.len() <= LONGEST_STATE
            && state
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    match (handle(summary), state(summary)) {
        (None, _) => "answered, without a task".to_owned(),
        (Some(_), Some(state)) => match Some(state).filter(is_word) {
            Some(word) => format!("task {word}"),
            None => "task in a state of the agent's own".to_owned(),
        },
        (Some(_), None) => "task in an unknown state".to_owned(),
    }
}

/// What the status message is where the task waits for its caller.
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
        Some(step) => Some(shortened(&line(step), next_step::LONGEST)),
        None => next_step(summary).map(str::to_owned),
    }
}

/// The ids by which an open task is found again without its handle, as after a restart, and a conversation is continued.
fn ids(summary: &Summary<'_>, said: &mut Sections<'_>) {
    let Some(going_on) = &summary.continuation else {
        return;
    };
    let task = going_on.task.as_ref().map(|task| &task.task_id);
    let task = task.filter(|_| !is_terminal(summary));
    let context = going_on
        .conversation
        .as_ref()
        .map(|conversation| &conversation.context_id);
    for (name, id) in [("task_id", task), ("context_id", context)] {
        let quoted = id.map(|id| quoted(id)).filter(|id| id.len() <= LONGEST_ID);
        if let Some(id) = quoted {
            said.note(format!("{name} {id}"));
        }
    }
}

fn of_artifact<'a>(artifact: &'a Artifact<'a>) -> Section<'a> {
    let name: Option<String> = artifact
        .name
        .and_then(|name| serde_json::from_str(name.get()).ok());
    let name = name.filter(|name| !name.is_empty());
    let name = name.map(|name| format!(" {}", shortened(&line(&name), LONGEST_NAME)));
    let label = format!("artifact{}", name.as_deref().unwrap_or_default());
    let section = Section::new(label, parts::text(&artifact.parts));
    let section = section.with_id(quoted(&artifact.artifact_id));
    match name {
        Some(_) => section.titled(),
        None => section,
    }
}
