//! The findings of the `doctor` commands: one line per check, and a fix for each problem.

use console::style;
use serde_json::{Value, json};

use crate::{
    output::LineWriter,
    table::{terminal_width, wrap},
};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Ok,
    Warning,
    Error,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The result of a check.
#[derive(Debug)]
struct Finding {
    check: &'static str,
    severity: Severity,
    message: String,
    repair: Option<String>,
}

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding. An empty `repair` means that there is no fix.
    pub(crate) fn push(
        &mut self,
        check: &'static str,
        severity: Severity,
        message: String,
        repair: &str,
    ) {
        self.0.push(Finding {
            check,
            severity,
            message,
            repair: (!repair.is_empty()).then(|| repair.to_owned()),
        });
    }

    /// Returns whether a check found an error.
    pub(crate) fn has_error(&self) -> bool {
        self.0
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Prints the findings: one line each, or all of them as one line of JSON.
    pub(crate) fn print(&self, as_json: bool) {
        let lines = LineWriter::default();
        if as_json {
            let all: Vec<Value> = self.0.iter().map(Finding::to_json).collect();
            lines.write(json!({ "findings": all }).to_string());
            return;
        }
        for finding in &self.0 {
            let severity = format!("{:<8}", finding.severity.as_str());
            let severity = match finding.severity {
                Severity::Ok => style(severity).green(),
                Severity::Warning => style(severity).yellow(),
                Severity::Error => style(severity).red(),
            };
            lines.write(format!("{severity} {}", finding.text(terminal_width())));
        }
    }
}

/// The width of the columns before the message.
const INDENT: usize = 24;

impl Finding {
    /// Returns the check, the message and the repair, wrapped to the width of the terminal.
    fn text(&self, terminal_width: Option<usize>) -> String {
        let paragraph = |text: &str| match terminal_width {
            Some(width) if width > 2 * INDENT => {
                wrap(text, width - INDENT).replace('\n', &format!("\n{:INDENT$}", ""))
            }
            _ => text.to_owned(),
        };
        let message = format!("{:<14} {}", self.check, paragraph(&self.message));
        match &self.repair {
            Some(repair) => {
                let repair = paragraph(&format!("repair: {repair}"));
                format!("{message}\n{:INDENT$}{repair}", "")
            }
            None => message,
        }
    }

    fn to_json(&self) -> Value {
        json!({"check": self.check, "severity": self.severity.as_str(), "message": self.message, "repair": self.repair})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_wraps_below_its_message_and_keeps_commands_whole() {
        let finding = Finding {
            check: "agent",
            severity: Severity::Warning,
            message: "the clock of the agent is an hour behind the clock of this machine"
                .to_owned(),
            repair: Some("Start it with `remote-agent gateway agent --name coder` now.".to_owned()),
        };
        let indent = format!("\n{:INDENT$}", "");
        let lines = [
            "agent          the clock of the agent is an hour behind the clock of",
            "this machine",
            "repair: Start it with",
            "`remote-agent gateway agent --name coder` now.",
        ];
        assert_eq!(finding.text(Some(80)), lines.join(&indent));
        assert_eq!(finding.text(None).lines().count(), 2);
    }
}
