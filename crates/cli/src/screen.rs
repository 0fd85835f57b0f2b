//! Shows a running call: its progress on standard error, with a spinner or with plain lines if that is not a terminal, and the
//! agent's text on standard output as it arrives, which is the artifacts, or the message if there are none.

use std::{
    collections::HashMap,
    io::{self, IsTerminal},
    time::Duration,
};

use a2a::{Artifact, TaskState};
use base::visible::visible;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::{
    answer::{self, render, render_message},
    output::{note, write},
    text,
};

const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// The output of a running call.
pub(super) struct Screen {
    bar: ProgressBar,
    /// The state line.
    state: String,
    /// The state lines of a group.
    states: Vec<String>,
    pub(super) answer_writer: AnswerWriter,
}

impl Screen {
    /// Shows that a call is running.
    pub(super) fn new(initial_message: &str) -> Self {
        // The spinner is on standard error, and hidden if that is not a terminal.
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(initial_message.to_owned());
        if !bar.is_hidden() {
            bar.enable_steady_tick(FRAME_INTERVAL);
        }
        Self {
            answer_writer: AnswerWriter::new(bar.clone()),
            bar,
            state: String::new(),
            states: Vec::new(),
        }
    }

    /// Shows an update.
    pub(super) fn update(&mut self, update: &Value) {
        let event = &update["raw"];
        if !matches!(event["kind"].as_str(), Some("artifact-update" | "message")) {
            self.state(&update["summary"], event);
        }
        self.answer_writer.event(event);
    }

    fn state(&mut self, summary: &Value, event: &Value) {
        let state = summary["continuation"]["task"]["status"].as_str();
        let status_text = summary["status_message"].as_str();
        // For any other state, the outcome contains the status text.
        let status_text = status_text.filter(|_| matches!(state, Some("submitted" | "working")));
        let both = [state, status_text].into_iter().flatten().map(text::line);
        let state = both.collect::<Vec<_>>().join(": ");
        if state.is_empty() || state == self.state {
            return;
        }
        if self.bar.is_hidden() {
            let is_over = summary["continuation"]["task"]["status"]
                .as_str()
                .map(TaskState::from_name)
                .is_some_and(|state| state.is_terminal_or_interrupted());
            // The outcome names the state of an ended task, after the text, which a snapshot may still continue.
            if !is_over {
                note(&state);
            }
            self.answer_writer.status_text =
                status_text.and_then(|_| answer::status_text(summary, event));
        } else {
            self.bar.set_message(state.clone());
        }
        self.state = state;
    }

    /// Shows the states of the agents of a group, each as a line.
    pub(super) fn states(&mut self, states: Vec<String>) {
        self.answer_writer.finish();
        if self.bar.is_hidden() {
            let is_new = |state: &&String| !self.states.contains(state);
            states.iter().filter(is_new).for_each(note);
        } else {
            self.bar.set_message(states.join(", "));
        }
        self.states = states;
    }

    /// Ends the last line and shows no spinner from now on: a question to the person uses the terminal.
    pub(super) fn give_way(&mut self) {
        self.stop();
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
    }

    /// Removes the spinner.
    pub(super) fn stop(&mut self) {
        self.answer_writer.finish();
        self.bar.finish_and_clear();
    }
}

/// The maximum number of characters of an unfinished line that the writer holds back while a spinner is visible.
const MAX_TAIL_CHARS: usize = 60;

/// Where the text of an answer goes.
type TextOutput = Box<dyn FnMut(&str) + Send>;

/// Returns whether a task in this state waits for its caller.
pub(super) fn is_waiting(state: &str) -> bool {
    matches!(state, "input-required" | "auth-required")
}

/// The printed text of an artifact.
#[derive(Default)]
struct Shown {
    text: String,
    /// How much of it the agent has repeated, in bytes, while it repeats its pieces.
    repeated: Option<usize>,
}

/// The output of one call.
pub(super) struct AnswerWriter {
    bar: ProgressBar,
    output: TextOutput,
    /// Whether a spinner shares the terminal. If so, the writer holds an unfinished line back.
    shared: bool,
    /// The unfinished line that the writer holds back.
    unfinished_line: String,
    /// The text of each artifact, by artifact id.
    shown: HashMap<String, Shown>,
    /// The artifact that the last piece belongs to.
    newest: String,
    /// The artifact that the last printed text belongs to; `None` after any other output.
    open: Option<String>,
    /// The last message.
    message: Option<String>,
    /// The printed answers of a group, by agent.
    answers: HashMap<String, String>,
    /// The status text, if it goes to standard error.
    pub(super) status_text: Option<String>,
    started: bool,
    at_line_start: bool,
}

impl AnswerWriter {
    /// Creates an empty output. `bar` is hidden unless standard error is a terminal.
    pub(super) fn new(bar: ProgressBar) -> Self {
        let shared = !bar.is_hidden() && io::stdout().is_terminal();
        let output = Box::new(|text: &str| {
            write(text);
        });
        Self {
            bar,
            shared,
            ..Self::to(output)
        }
    }

    /// Creates an empty output that is not standard output. `output` gets the text piece by piece.
    pub(super) fn to(output: TextOutput) -> Self {
        Self {
            bar: ProgressBar::hidden(),
            output,
            shared: false,
            unfinished_line: String::new(),
            shown: HashMap::new(),
            newest: String::new(),
            open: None,
            message: None,
            answers: HashMap::new(),
            status_text: None,
            started: false,
            at_line_start: true,
        }
    }

    /// Prints the text of an event.
    pub(super) fn event(&mut self, event: &Value) {
        match event["kind"].as_str() {
            Some("artifact-update") => {
                let append = event["append"].as_bool().unwrap_or_default();
                self.append_chunk(&event["artifact"], append);
            }
            Some("message") => {
                if let Some(text) = render_message(event) {
                    self.message(&text);
                }
            }
            _ => {
                let artifacts = event["artifacts"].as_array();
                let artifacts = artifacts.into_iter().flatten();
                for (place, artifact) in artifacts.enumerate() {
                    let id = artifact_id(artifact).unwrap_or_else(|| Artifact::id_at(place));
                    self.show(&id, 0, &render(artifact));
                }
            }
        }
    }

    /// Prints a chunk of an artifact. With `append`, the chunk continues the previous one.
    fn append_chunk(&mut self, artifact: &Value, append: bool) {
        // The library numbers artifacts without an id in the same way.
        let id = artifact_id(artifact).unwrap_or_else(|| match append && !self.newest.is_empty() {
            true => self.newest.clone(),
            false => Artifact::id_at(self.shown.len()),
        });
        let text = render(artifact);
        let from = self.shown.get(&id).map(|shown| match append {
            true => shown.repeated.unwrap_or(shown.text.len()),
            false => 0,
        });
        self.show(&id, from.unwrap_or_default(), &text);
        self.newest = id;
    }

    /// Prints the rest of an artifact that is complete.
    pub(super) fn artifact(&mut self, artifact: &Value) {
        let id = artifact_id(artifact).unwrap_or_default();
        let text = render(artifact);
        // No more pieces follow that would make it what is printed.
        if let Some(shown) = self.shown.get_mut(&id)
            && shown.text.starts_with(&text)
            && shown.text != text
        {
            *shown = Shown::default();
        }
        self.show(&id, 0, &text);
    }

    /// Prints what is new of a text that continues the artifact after its first `from` bytes. A text that is printed already
    /// is a repetition.
    fn show(&mut self, id: &str, from: usize, text: &str) {
        let Some(shown) = self.shown.get_mut(id) else {
            return self.append_text(id, text, false);
        };
        // An empty last piece says nothing.
        if text.is_empty() && from > 0 {
            return;
        }
        let printed = &shown.text[from..];
        if let Some(more) = text.strip_prefix(printed) {
            shown.repeated = None;
            if !more.is_empty() {
                let append = !shown.text.is_empty();
                self.append_text(id, more, append);
            }
        } else if !text.is_empty() && printed.starts_with(text) {
            shown.repeated = Some(from + text.len());
        } else {
            let mut whole = shown.text[..from].to_owned();
            whole.push_str(text);
            self.append_text(id, &whole, false);
        }
    }

    /// Prints a message, unless it equals the last one.
    pub(super) fn message(&mut self, text: &str) {
        if self.message.as_deref() == Some(text) {
            return;
        }
        self.start_block();
        self.write(text);
        self.open = None;
        self.message = Some(text.to_owned());
    }

    /// Prints those of the messages that follow the last printed one.
    pub(super) fn messages(&mut self, texts: &[String]) {
        let printed = |text: &String| self.message.as_ref() == Some(text);
        let from = texts.iter().rposition(printed).map_or(0, |last| last + 1);
        for text in &texts[from..] {
            self.message(text);
        }
    }

    /// Prints the answer of an agent of a group, unless it has been printed. Indented, so that no agent can write what looks like the
    /// answer of another.
    pub(super) fn answer(&mut self, alias: String, text: &str) {
        if self.answers.get(&alias).is_some_and(|shown| shown == text) {
            return;
        }
        let indented = visible(text).replace('\n', "\n  ");
        self.message(&format!("{alias}:\n  {indented}"));
        self.answers.insert(alias, text.to_owned());
    }

    /// Returns whether the message was shown.
    pub(super) fn has_shown(&self, message: &str) -> bool {
        let shown = self.message.as_deref().map(text::line);
        shown.is_some_and(|shown| shown == text::line(message))
    }

    /// Returns whether there was any text.
    pub(super) fn has_text(&self) -> bool {
        self.started
    }

    /// Returns whether there were artifacts.
    pub(super) fn has_artifacts(&self) -> bool {
        !self.shown.is_empty()
    }

    /// Ends the last line.
    pub(super) fn finish(&mut self) {
        // The spinner redraws its line, which would erase an unfinished line.
        let mut rest = std::mem::take(&mut self.unfinished_line);
        if !self.at_line_start {
            rest.push('\n');
            self.at_line_start = true;
            self.bar.set_message("");
        }
        self.write_output(&rest);
    }

    fn append_text(&mut self, id: &str, text: &str, append: bool) {
        let continues_chunk = append && self.open.as_deref() == Some(id);
        if continues_chunk {
            self.write(text);
        } else {
            self.start_block();
            self.write(text.trim_start_matches('\n'));
            self.open = Some(id.to_owned());
        }
        let shown = self.shown.entry(id.to_owned()).or_default();
        shown.repeated = None;
        if !append {
            shown.text.clear();
        }
        shown.text.push_str(text);
    }

    /// Starts a new block after a blank line.
    fn start_block(&mut self) {
        self.finish();
        if self.started {
            self.write_output("\n");
        }
    }

    fn write(&mut self, text: &str) {
        let text = text::block(text);
        if let Some(last) = text.chars().last() {
            self.started = true;
            self.at_line_start = last == '\n';
        }
        if !self.shared {
            return self.write_output(&text);
        }
        self.unfinished_line.push_str(&text);
        if let Some(end) = self.unfinished_line.rfind('\n') {
            let rest = self.unfinished_line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.unfinished_line, rest);
            self.write_output(&lines);
        }
        if !self.unfinished_line.is_empty() {
            let skip = self
                .unfinished_line
                .chars()
                .count()
                .saturating_sub(MAX_TAIL_CHARS);
            let tail: String = self.unfinished_line.chars().skip(skip).collect();
            self.bar.set_message(tail);
        }
    }

    /// Writes to the output. The call continues if that fails.
    fn write_output(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let output = &mut self.output;
        if self.shared {
            self.bar.suspend(|| output(text));
        } else {
            output(text);
        }
    }
}

/// Returns the id of an artifact, if it has one.
fn artifact_id(artifact: &Value) -> Option<String> {
    let id = artifact["artifactId"].as_str()?;
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod answer_writer_tests {
    use serde_json::json;

    use super::*;

    /// Returns what a writer prints for these updates, and then for the whole artifacts.
    fn printed(updates: &[Value], artifacts: &[Value]) -> String {
        let text = std::sync::Arc::new(parking_lot::Mutex::new(String::new()));
        let output = std::sync::Arc::clone(&text);
        let mut writer = AnswerWriter::to(Box::new(move |text| output.lock().push_str(text)));
        updates.iter().for_each(|update| writer.event(update));
        artifacts
            .iter()
            .for_each(|artifact| writer.artifact(artifact));
        writer.finish();
        let text = text.lock();
        text.clone()
    }

    fn artifact(id: Value, text: &str) -> Value {
        json!({"artifactId": id, "parts": [{"text": text}]})
    }

    fn piece(id: Value, text: &str, append: bool) -> Value {
        json!({"kind": "artifact-update", "append": append, "artifact": artifact(id, text)})
    }

    #[test]
    fn artifact_without_an_id_is_printed_once() {
        for id in [json!(null), json!("")] {
            let updates = [piece(id.clone(), "a", false), piece(id, "b", true)];
            let whole = artifact(json!("artifact-1"), "ab");
            assert_eq!(printed(&updates, &[whole]), "ab\n");
        }
    }

    #[test]
    fn snapshot_and_repetition_continue_the_text() {
        let id = || json!("a");
        let start = || vec![piece(id(), "hel", false)];
        let snapshot = || json!({"kind": "task", "artifacts": [artifact(id(), "hello")]});
        let whole = [artifact(id(), "hello")];
        for more in [
            vec![snapshot()],
            vec![piece(id(), "hel", false), piece(id(), "lo", true)],
            vec![
                snapshot(),
                piece(id(), "hel", false),
                piece(id(), "lo", true),
            ],
            vec![],
        ] {
            let updates = [start(), more].concat();
            assert_eq!(printed(&updates, &whole), "hello\n", "{updates:?}");
        }
        let replaced = [start(), vec![piece(id(), "bye", false)]].concat();
        assert_eq!(printed(&replaced, &[]), "hel\n\nbye\n");
        let shorter = [artifact(id(), "he")];
        assert_eq!(printed(&start(), &shorter), "hel\n\nhe\n");
    }
}
