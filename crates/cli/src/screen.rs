//! Shows the progress of an interactive call and the agent's text: with a spinner, or with plain lines if standard error is
//! not a terminal.

use std::time::Duration;

use a2a::TaskState;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::{
    answer_writer::{AnswerWriter, render_message},
    output::note,
    text,
};

const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// The output of a running call.
pub(super) struct Screen {
    bar: ProgressBar,
    /// The state line.
    state: String,
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
        }
    }

    /// Shows an update.
    pub(super) fn update(&mut self, update: &Value) {
        let event = &update["raw"];
        match event["kind"].as_str() {
            Some("artifact-update") => {
                let append = event["append"].as_bool().unwrap_or_default();
                self.answer_writer.append_chunk(&event["artifact"], append);
            }
            Some("message") => {
                if let Some(text) = render_message(event) {
                    self.answer_writer.message(&text);
                }
            }
            _ => {
                self.state(&update["summary"]);
                let artifacts = event["artifacts"].as_array();
                artifacts
                    .into_iter()
                    .flatten()
                    .for_each(|artifact| self.answer_writer.artifact(artifact));
            }
        }
    }

    fn state(&mut self, summary: &Value) {
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
            if is_over {
                // The agent's last line is complete. The outcome names the state, after the text.
                self.answer_writer.finish();
            } else {
                note(&state);
            }
            self.answer_writer.status_text = status_text.map(str::to_owned);
        } else {
            self.bar.set_message(state.clone());
        }
        self.state = state;
    }

    /// Removes the spinner.
    pub(super) fn stop(&mut self) {
        self.answer_writer.finish();
        self.bar.finish_and_clear();
    }
}
