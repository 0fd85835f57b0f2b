//! Renders an envelope as text for models.
//!
//! The text is short labelled lines, not JSON: they cost a model half the tokens, and a peer's text stays unescaped. The tool's own lines come first: the outcome, the target, the task's
//! handle, one next step. Everything that an agent wrote, ids included, follows inside one fence ([`Fence`]), sanitized
//! ([`sanitize`]).
//!
//! The text has at most `limits.modelTextChars` characters (Unicode scalar values). The alias, the task's state, its
//! handle, the question of an interrupted task and the next step come first and fit the smallest limit; everything else
//! shares the rest, and `status` with `artifact_id` and `offset` returns what was cut.

mod group;
#[cfg(test)]
mod injection_tests;
mod sanitize;
mod sections;
mod targets;
mod task;
#[cfg(test)]
mod tests;
mod view;

use uuid::Uuid;

use crate::targets::local_name;
use sections::{Fence, MessageParts, Sections};
use view::Envelope;

pub(super) use sanitize::{line, sanitize};

/// How many characters of a page are reserved for what surrounds its text, or three fifths of a small limit.
const PAGE_OVERHEAD_CHARS: usize = 800;

/// The longest action, code or reason, in characters.
const MAX_WORD_CHARS: usize = 64;

/// Returns how many characters of an artifact go on one page under a limit, so that the model reads the page whole.
pub(super) fn page_chars(max_chars: usize) -> usize {
    max_chars - PAGE_OVERHEAD_CHARS.min(max_chars * 3 / 5)
}

/// Renders an envelope or an update in at most `max_chars` characters. `id` makes the fence's markers unguessable.
///
/// Returns an error sentence for text that is not an envelope.
pub(super) fn render(envelope: &str, max_chars: usize, id: Uuid) -> String {
    let mut text_out = ModelText {
        text: String::new(),
        max_chars,
        fence: Fence::new(id),
    };
    let read: Result<Envelope<'_>, _> = serde_json::from_str(envelope);
    match read {
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            text_out.push_line(&format!(
                "remote_agent: the result cannot be read: it is not an envelope at line {line}, column {column}."
            ));
        }
        Ok(envelope) => match (&envelope.error, &envelope.summary) {
            (Some(error), _) => task::failure(&mut text_out, &envelope.action, error),
            (None, Some(summary)) => match (&summary.targets, &summary.group) {
                (Some(targets), _) => targets::targets(&mut text_out, targets),
                (None, Some(group)) if envelope.phase.is_some() => {
                    let action = format!("{} under way", word(&envelope.action));
                    task::group_head(&mut text_out, &action, group);
                }
                (None, Some(group)) => {
                    group::result(
                        &mut text_out,
                        &envelope.action,
                        summary,
                        group,
                        envelope.raw,
                    );
                }
                (None, None) if envelope.phase.is_some() => {
                    task::update(&mut text_out, &envelope.action, summary);
                }
                (None, None) => {
                    let message_parts = MessageParts::from_raw(envelope.raw);
                    task::result(&mut text_out, &envelope.action, summary, &message_parts);
                }
            },
            (None, None) => text_out.push_line(
                "remote_agent: the result cannot be read: it has neither a summary nor an error.",
            ),
        },
    }
    text_out.text
}

/// Returns the name of a gateway's agent in an alias. Any program that the gateway admits chooses it, except for the triad's.
fn gateway_name(alias: &str) -> Option<&str> {
    local_name(alias).filter(|name| *name != gateway_bridge::TRIAD)
}

/// Sanitizes and shortens a word of the contract, whatever its origin.
fn word(text: &str) -> String {
    sections::shortened(&sanitize::line(text), MAX_WORD_CHARS)
}

/// The text under construction.
struct ModelText {
    text: String,
    max_chars: usize,
    fence: Fence,
}

impl ModelText {
    fn max_chars(&self) -> usize {
        self.max_chars
    }

    /// Lowers the limit.
    fn limit(&mut self, max_chars: usize) {
        self.max_chars = self.max_chars.min(max_chars);
    }

    /// Returns how many characters another line may have.
    fn remaining(&self) -> usize {
        self.max_chars
            .saturating_sub(sections::length(&self.text) + 1)
    }

    /// Adds a line of the tool's own.
    fn push_line(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    /// Adds the text of an agent, with `advice` above it if the text was cut.
    fn push_fenced(&mut self, sections: &Sections<'_>, advice: Option<&str>) {
        if sections.is_empty() {
            return;
        }
        let Some(room) = self
            .remaining()
            .checked_sub(Fence::MARKER_CHARS)
            .filter(|room| *room > 0)
        else {
            return;
        };
        let mut body = sections.body(room);
        if let Some(advice) = advice.filter(|_| body.cut) {
            body = sections.body(room.saturating_sub(sections::length(advice) + 1));
            self.push_line(advice);
        }
        let fenced = self.fence.wrap(&body.text);
        self.push_line(&fenced);
    }
}
