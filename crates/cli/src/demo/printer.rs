//! The output of the demo: a few lines per step, or only the envelopes.

use std::io::{self, IsTerminal};

use clap::ColorChoice;
use console::Style;
use serde_json::Value;

use crate::{output::LineWriter, text};

/// Prints to standard output, from any thread.
pub(super) struct Printer {
    pub(super) lines: LineWriter,
    json: bool,
    bold: Style,
    dim: Style,
    sent: Style,
    received_style: Style,
    good: Style,
}

impl Printer {
    pub(super) fn new(json: bool, color: ColorChoice) -> Self {
        let with_color = match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => supports_color(),
        };
        let style = || Style::new().force_styling(with_color);
        Self {
            lines: LineWriter::default(),
            json,
            bold: style().bold(),
            dim: style().dim(),
            sent: style().cyan(),
            received_style: style().yellow(),
            good: style().green(),
        }
    }

    /// Prints a line about the demo.
    pub(super) fn print_update(&self, line: &str) {
        self.line(line.to_owned());
    }

    /// Prints a new step: the tool's action and its purpose.
    pub(super) fn step(&self, number: usize, action: &str, purpose: &str) {
        let head = self.bold.apply_to(format!("{number:>2} {action}"));
        self.line(format!("\n{head}  {purpose}"));
    }

    /// Prints a message to an agent.
    pub(super) fn sent(&self, to: &str, message: &str) {
        self.line(format!("   -> {to}: {}", self.sent.apply_to(message)));
    }

    /// Prints a message of an agent.
    pub(super) fn received(&self, by: &str, message: &str) {
        let message = text::line(message);
        self.line(format!(
            "   <- {by}: {}",
            self.received_style.apply_to(message)
        ));
    }

    /// Prints a status change of a running task.
    pub(super) fn status_change(&self, what: &str) {
        let what = text::line(what);
        self.line(format!("   .. {}", self.dim.apply_to(what)));
    }

    /// Prints the result of the step.
    pub(super) fn step_passed(&self, what: &str) {
        self.line(format!("   {} {what}", self.good.apply_to("ok")));
    }

    /// Prints an update of a running call.
    pub(super) fn update(&self, update: &Value) {
        let event = &update["raw"];
        let artifact = &event["artifact"];
        if let Some(message) = artifact["parts"][0]["text"].as_str() {
            let id = artifact["artifactId"].as_str().unwrap_or_default();
            let more = if event["append"] == true {
                ", more"
            } else {
                ""
            };
            return self.status_change(&format!("artifact {id}{more}: \"{message}\""));
        }
        let state = event["status"]["state"].as_str().unwrap_or_default();
        match update["summary"]["status_message"].as_str() {
            Some(message) => self.status_change(&format!("{state}: \"{message}\"")),
            None => self.status_change(state),
        }
    }

    /// Prints the result of a call.
    pub(super) fn envelope(&self, envelope: &str) {
        if self.json {
            self.lines.write(envelope.to_owned());
        }
    }

    fn line(&self, line: String) {
        if !self.json {
            self.lines.write(line);
        }
    }
}

/// Returns whether the output may use colors: the terminal supports them and `NO_COLOR` is unset (<https://no-color.org>).
fn supports_color() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    io::stdout().is_terminal()
        && set("NO_COLOR").is_none()
        && set("TERM").is_none_or(|term| term != "dumb")
}
