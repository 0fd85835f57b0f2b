//! A failed call: cause, whether a retry may help, and hint.

use super::parts::MessageParts;
use super::sanitize::{line, quoted};
use super::sections::{Section, Sections};
use super::task;
use super::text::{length, shortened};
use super::view::Failure;
use super::{ModelText, word};

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
        task::partial(text_out, before);
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
    let replacement = match before.and_then(task::handle) {
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
        task::collect(before, &message_parts, &mut sections);
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
