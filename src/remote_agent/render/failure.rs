//! A call that failed: why, whether it may pass, and what to do.

use super::cap::{length, shortened};
use super::neutral::{line, quoted};
use super::parts::Unspoken;
use super::sections::{Section, Sections};
use super::task;
use super::view::Failure;
use super::{Reading, word};

/// The longest message of the tool's own and the longest hint, in characters.
const LONGEST_MESSAGE: usize = 300;
const LONGEST_HINT: usize = 240;

/// The failure as a model reads it. What the agent said before it follows, as in a result.
pub(super) fn failure(reading: &mut Reading, action: &str, failure: &Failure<'_>) {
    let details = &failure.details;
    let again = if failure.retryable { "yes" } else { "no" };
    reading.say(&format!(
        "{} failed: {} ({}), retryable: {again}",
        word(action),
        word(&failure.code),
        word(&failure.reason)
    ));
    let before = details.latest_event_summary.as_deref();
    if let Some(before) = before {
        task::kept(reading, before);
    }
    if let Some(status) = details.http_status {
        reading.say(&format!("http_status: {status}"));
    }
    if let Some(delivered) = &details.delivered {
        reading.say(&format!("delivered: {}", word(delivered)));
    }
    let hint = shortened(
        &line(details.hint.as_deref().unwrap_or_default()),
        LONGEST_HINT,
    );
    let stands_for = match before.and_then(task::handle) {
        Some(_) => " The task_handle above stands for its continuation.",
        None => "",
    };
    reading.say(&format!("next: {hint}{stands_for}"));
    let mut said = Sections::default();
    if is_ours(failure) {
        let message = format!("message: {}", line(&failure.message));
        reading.say(&shortened(&message, LONGEST_MESSAGE.min(reading.left())));
        complaints(reading, failure);
    } else {
        said.urgent(Section::new("message", &*failure.message));
    }
    if let Some(text) = &details.message_text {
        said.shared(Section::new("answer", &**text));
    }
    if let Some(id) = &details.context_id {
        said.note(format!("context_id {}", quoted(id)));
    }
    let ids: Vec<String> = details
        .known_artifact_ids
        .iter()
        .map(|id| quoted(id))
        .collect();
    if !ids.is_empty() {
        said.shared(Section::new("artifact ids", ids.join("\n")));
    }
    // An error has no `raw`.
    let unspoken = Unspoken::default();
    if let Some(before) = before {
        task::collect(before, &unspoken, &mut said);
    }
    if let Some(data) = details.rpc_data {
        said.shared(Section::new("error data", data.get()));
    }
    reading.fenced(&said, None);
}

/// The message is the tool's own and quotes nothing that an agent chose.
fn is_ours(failure: &Failure<'_>) -> bool {
    &*failure.reason != "contradiction"
        && matches!(
            &*failure.code,
            "VALIDATION_ERROR"
                | "TARGET_RESOLUTION_ERROR"
                | "UNKNOWN_TASK_HANDLE"
                | "EXPIRED_TASK_HANDLE"
                | "INTERNAL_ERROR"
        )
}

/// What is wrong with the request, place by place, and the aliases to choose from.
fn complaints(reading: &mut Reading, failure: &Failure<'_>) {
    let mut room = (reading.cap() / 4).min(reading.left());
    let wrong = failure.details.errors.iter().map(|wrong| {
        let [place, message] =
            [&wrong.instance_path, &wrong.message].map(|text| shortened(text, LONGEST_MESSAGE));
        // As one line: what is harmless by itself may not be so beside the other.
        line(&format!("- {place} {message}"))
    });
    let aliases = failure.details.aliases.iter();
    let aliases = aliases.map(|alias| format!("- target_alias {}", line(alias)));
    for told in wrong.chain(aliases) {
        let Some(left) = room.checked_sub(length(&told) + 1) else {
            return;
        };
        room = left;
        reading.say(&told);
    }
}
