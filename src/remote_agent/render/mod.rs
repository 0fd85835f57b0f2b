//! What a model reads of an envelope.
//!
//! Short labelled lines, not JSON: a model reads `task_handle: rah_…` as surely as the same in braces, at half the tokens,
//! and a peer's text stays as the peer wrote it, where JSON would escape every quote and line end of it. The tool's own
//! words come first and are short: what came of the call, whose it is, the task's handle, one next step. Everything that an
//! agent wrote, ids included, stands below inside one fence ([`fence`]), made harmless ([`neutral`]).
//!
//! The text has at most `limits.modelTextChars` characters (Unicode scalar values). The alias, the task's state, its
//! handle, the question of a task that waits and the next step come before anything else, so they are there however small
//! the cap is; what else there is shares the rest, and `status` with `artifact_id` and `offset` brings what was cut.

mod cap;
mod failure;
mod fence;
#[cfg(test)]
mod injection_tests;
mod neutral;
mod next_step;
mod parts;
mod sections;
mod targets;
mod task;
#[cfg(test)]
mod tests;
mod view;

use uuid::Uuid;

use fence::Fence;
use parts::Unspoken;
use sections::Sections;
use view::Envelope;

/// Of a page so many characters are kept for what stands around its text, or three fifths of a small cap.
const AROUND_A_PAGE: usize = 800;

/// The longest action, code or reason that is shown, in characters.
const LONGEST_WORD: usize = 64;

/// How many characters of an artifact go on one page under a cap, so that the page is read whole.
pub(super) fn page_chars(cap: usize) -> usize {
    cap - AROUND_A_PAGE.min(cap * 3 / 5)
}

/// The text of an envelope or an update, in at most `cap` characters. `id` makes the fence's markers unguessable.
///
/// Text that is no envelope gives a sentence that says so.
pub(super) fn render(envelope: &str, cap: usize, id: Uuid) -> String {
    let mut reading = Reading {
        text: String::new(),
        cap,
        fence: Fence::new(id),
    };
    let read: Result<Envelope<'_>, _> = serde_json::from_str(envelope);
    match read {
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            reading.say(&format!(
                "remote_agent: the result cannot be read: it is no envelope at line {line}, column {column}."
            ));
        }
        Ok(envelope) => match (&envelope.error, &envelope.summary) {
            (Some(error), _) => failure::failure(&mut reading, &envelope.action, error),
            (None, Some(summary)) => match &summary.targets {
                Some(targets) => targets::targets(&mut reading, targets),
                None if envelope.phase.is_some() => {
                    task::update(&mut reading, &envelope.action, summary);
                }
                None => {
                    let unspoken = Unspoken::of(envelope.raw);
                    task::result(&mut reading, &envelope.action, summary, &unspoken);
                }
            },
            (None, None) => reading.say(
                "remote_agent: the result cannot be read: it has neither a summary nor an error.",
            ),
        },
    }
    reading.text
}

/// A word of the contract, on one line and not too long whoever wrote it.
fn word(text: &str) -> String {
    cap::shortened(&neutral::line(text), LONGEST_WORD)
}

/// The text as it is written.
struct Reading {
    text: String,
    cap: usize,
    fence: Fence,
}

impl Reading {
    fn cap(&self) -> usize {
        self.cap
    }

    /// Makes the cap smaller.
    fn at_most(&mut self, cap: usize) {
        self.cap = self.cap.min(cap);
    }

    /// How many characters another line may have.
    fn left(&self) -> usize {
        self.cap.saturating_sub(cap::length(&self.text) + 1)
    }

    /// Adds a line of the tool's own words.
    fn say(&mut self, line: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(line);
    }

    /// Adds what an agent said, with `advice` above it where it had to be cut.
    fn fenced(&mut self, said: &Sections<'_>, advice: Option<&str>) {
        if said.is_empty() {
            return;
        }
        let Some(room) = self
            .left()
            .checked_sub(Fence::CHARS)
            .filter(|room| *room > 0)
        else {
            return;
        };
        let mut body = said.body(room);
        if let Some(advice) = advice.filter(|_| body.cut) {
            body = said.body(room.saturating_sub(cap::length(advice) + 1));
            self.say(advice);
        }
        let fenced = self.fence.around(&body.text);
        self.say(&fenced);
    }
}
