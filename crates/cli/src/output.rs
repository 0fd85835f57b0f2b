//! Standard input, standard output and standard error: lines, errors, the findings of the `doctor` commands, and the log of the
//! servers.

use std::{
    borrow::Cow,
    fmt::{Display, Write as _},
    io::{self, ErrorKind, Write},
    sync::{Arc, OnceLock},
};

use base::named;
use clap::ValueEnum;
use console::style;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use super::{
    exit::Failure,
    log_line::{LineFields, LineTime},
    log_writer::{LogGuard, LogWriter, WriteErrors},
    text::{self, terminal_width, wrap},
    traces::SpanLayer,
};
use base::log::{Level, Log, SPANS};
use base::text::first_chars;
use base::visible::is_unseen;

/// The first error of standard output, which is one for the process. A closed pipe is not among them: a reader such as `head`
/// may have seen enough.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();

/// Writes `text` to standard output, and flushes. [`write_failure`] has the error of a write that failed.
///
/// Returns whether the text was written.
pub(crate) fn write(text: &str) -> bool {
    let text = without_unseen(text);
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
    {
        WRITE_ERROR.get_or_init(|| error.to_string());
    }
    written.is_ok()
}

/// Escapes, as JSON does, the characters that JSON may contain and that a reader does not see: those that a terminal obeys, such as
/// U+009B, that end a line, that reorder text, and that are invisible. Text for people has none of them.
fn without_unseen(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.contains(is_unseen) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unseen(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            false => escaped.push(c),
        }
    }
    escaped.into()
}

/// Returns the failure of a command whose output did not reach standard output; `None` if all of it did, or if the reader has
/// closed the pipe.
pub(crate) fn write_failure() -> Option<Failure> {
    let error = WRITE_ERROR.get()?;
    Some(Failure::new(format!(
        "cannot write to standard output: {error}; part of the output is missing"
    )))
}

/// Returns the failure of a command that ends because standard output takes no more.
pub(crate) fn closed_failure() -> Failure {
    write_failure().unwrap_or_else(|| Failure::new("standard output is closed"))
}

/// Writes complete lines to standard output, from any thread.
#[derive(Debug, Default)]
pub struct LineWriter {
    closed: CancellationToken,
}

impl LineWriter {
    /// Writes `text` and a line end, and flushes. Blocks while the reader is slow.
    ///
    /// Once a write has failed, drops lines and cancels [`closed`](Self::closed).
    pub fn write(&self, mut text: String) {
        text.push('\n');
        if self.closed.is_cancelled() || !write(&text) {
            self.closed.cancel();
        }
    }

    /// Writes a result: as one line of JSON, or as text for people.
    pub(crate) fn write_as(&self, as_json: bool, json: &Value, text: impl FnOnce() -> String) {
        self.write(match as_json {
            true => json.to_string(),
            false => text(),
        });
    }

    /// Returns the token that is cancelled once standard output takes no more: its reader has closed it, or a write failed.
    #[must_use]
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }
}

/// Writes an error to standard error.
pub fn print_error(message: &str) {
    // The same colors as clap's errors.
    let prefix = style("error:").for_stderr().red().bold();
    let _ = writeln!(io::stderr(), "{prefix} {}", text::block(message));
}

/// Writes one line to standard error without terminal control sequences, because many lines contain text of agents. Ignores
/// a closed standard error.
pub fn note(line: impl Display) {
    let line = line.to_string();
    let _ = writeln!(io::stderr(), "{}", text::block(&line));
}

/// Reads standard input to its end.
///
/// # Errors
/// Standard input cannot be read, or is not UTF-8. The message names the expected content, `what`.
pub async fn standard_input(what: &str) -> Result<String, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("cannot read {what} from standard input: {error}"))
    };
    let mut bytes = Vec::new();
    let read = tokio::io::stdin().read_to_end(&mut bytes).await;
    read.map_err(|error| unreadable(&error))?;
    base::text::utf8(&bytes)
        .map(str::to_owned)
        .map_err(|error| unreadable(&error))
}

named! {
    /// The severity of a finding.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Severity {
        Ok = "ok",
        Warning = "warning",
        Error = "error",
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
    /// Adds a check that found nothing wrong.
    pub(crate) fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.push(Severity::Ok, check, message.into(), "");
    }

    /// Adds a warning. An empty `repair` means that there is no fix.
    pub(crate) fn warn(&mut self, check: &'static str, message: String, repair: &str) {
        self.push(Severity::Warning, check, message, repair);
    }

    /// Adds an error. An empty `repair` means that there is no fix.
    pub(crate) fn error(&mut self, check: &'static str, message: String, repair: &str) {
        self.push(Severity::Error, check, message, repair);
    }

    fn push(&mut self, severity: Severity, check: &'static str, message: String, repair: &str) {
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

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Human,
    /// A JSON object in each line
    Json,
}

/// The options of the log.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// The format of log lines on standard error
    #[arg(
        long,
        visible_alias = "log-format",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Output"
    )]
    pub(crate) log: LogFormat,
}

/// Installs a logger that writes to standard error until the guard is dropped, and after that without batches. Does nothing if a
/// logger is already installed. `spans` exports the spans, if there is an export.
pub(crate) fn install_log(
    form: LogFormat,
    verbose: bool,
    spans: Option<SpanLayer>,
) -> LogGuard<io::Stderr> {
    let level = if verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    // The MCP library logs text that clients send about themselves.
    let levels = Targets::new()
        .with_default(level)
        .with_target("rmcp", LevelFilter::WARN)
        .with_target(
            SPANS,
            spans
                .as_ref()
                .map_or(LevelFilter::OFF, |_| LevelFilter::INFO),
        );
    let registry = tracing_subscriber::registry().with(levels).with(spans);
    let (log, guard) = LogWriter::start(io::stderr());
    let errors = WriteErrors(Arc::clone(&log));
    let lines = fmt::layer().with_writer(log).with_target(false);
    let _ = match form {
        LogFormat::Human => {
            let people = console::Term::stderr().is_term();
            let lines = lines.fmt_fields(LineFields).with_timer(LineTime);
            registry
                .with(lines.with_ansi(people))
                .with(errors)
                .try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().with_ansi(false);
            registry.with(lines).with(errors).try_init()
        }
    };
    guard
}

/// Exports the spans of a server whose log is not that of [`install_log`].
pub(crate) fn install_spans(spans: Option<SpanLayer>) {
    if let Some(spans) = spans {
        let levels = Targets::new().with_target(SPANS, LevelFilter::INFO);
        let registry = tracing_subscriber::registry().with(levels);
        let _ = registry.with(spans).try_init();
    }
}

/// The maximum length of a line of [`StandardError`], in characters.
const MAX_LINE_CHARS: usize = 2000;

/// A log on standard error. Each entry is one line.
pub(crate) struct StandardError {
    /// Whether it has lines for debugging.
    pub(crate) verbose: bool,
}

impl Log for StandardError {
    fn log(&self, level: Level, line: &str) {
        if self.enabled(level) {
            // A log line may contain text of commands, models and peers.
            let line = text::line(line);
            let line = first_chars(&line, MAX_LINE_CHARS);
            note(format_args!("{}: {line}", level.as_str()));
        }
    }

    fn enabled(&self, level: Level) -> bool {
        self.verbose || level >= Level::Info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_does_not_see_is_escaped_as_json() {
        let text = "{\"a\":\"\u{9b}2J\u{202e}b\u{e9}\u{2028}\u{200b}\u{e0041}\"}";
        let shown = without_unseen(text);
        let expected = "{\"a\":\"\\u009b2J\\u202eb\u{e9}\\u2028\\u200b\\udb40\\udc41\"}";
        assert_eq!(shown, expected);
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        assert!(read(text).is_some() && read(&shown) == read(text));
    }

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
