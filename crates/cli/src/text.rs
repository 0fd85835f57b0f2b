//! Text for a terminal. Text of agents must not move the cursor, change colors or hide other text. A table has aligned columns, or
//! one block per row on a narrow terminal, and never breaks words, so that users can copy ids and addresses.

use std::time::Duration;

use a2a::Usage;
pub(super) use base::text::shell_word as shell;
use base::text::shortened;
pub(super) use base::visible::visible as block;
use console::{Alignment, Term, measure_text_width, pad_str, style};
use serde_json::Value;

/// Removes what is hidden like [`block`], and replaces each run of white space with a space.
pub(super) fn line(text: &str) -> String {
    block(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a field of an object on one line; empty if it is no text.
pub(super) fn field(value: &Value, name: &str) -> String {
    value[name].as_str().map(line).unwrap_or_default()
}

/// The longest shown data of an error, in characters.
const MAX_ERROR_DATA_CHARS: usize = 500;

/// Adds the data of an agent's error to its message, on one line, unless the data only repeats the code or the message.
pub(super) fn with_error_data(mut message: String, data: &Value) -> String {
    let repeats_code = |detail: &Value| {
        let name = detail["@type"].as_str().unwrap_or_default();
        let metadata = detail["metadata"].as_object();
        name.ends_with("/google.rpc.ErrorInfo") && metadata.is_none_or(|all| all.is_empty())
    };
    let data = match data {
        Value::Null => return message,
        Value::Array(details) if details.iter().all(repeats_code) => return message,
        Value::String(data) => line(data),
        data => line(&data.to_string()),
    };
    let data = shortened(&data, MAX_ERROR_DATA_CHARS);
    if !message.contains(&data) {
        message.push_str("; the error's data: ");
        message.push_str(&data);
    }
    message
}

/// Returns a text of the library with the options `source` in the commands that it suggests.
pub(super) fn with_source(text: &str, source: &str) -> String {
    let commands = [
        "remote-agent sign-in",
        "remote-agent budget",
        "remote-agent pin",
    ];
    commands.iter().fold(text.to_owned(), |text, command| {
        text.replace(command, &format!("{command}{source}"))
    })
}

/// Formats a usage as `openclaw/usage.js` does.
pub(super) fn usage(usage: &Usage) -> String {
    let mut parts = Vec::new();
    if let Some(total) = usage.tokens.total {
        parts.push(format!("{total} tokens"));
    }
    if let Some(micros) = usage.usd_micros {
        // Tenths of a thousandth of a dollar.
        let rounded = micros.saturating_add(50) / 100;
        parts.push(format!("${}.{:04}", rounded / 10_000, rounded % 10_000));
    }
    match usage.unknown_currency.as_deref() {
        Some("unknown") => parts.push("in an unknown currency".to_owned()),
        Some(currency) => parts.push(format!("in {currency}")),
        None => {}
    }
    let mark = if usage.estimated { "~" } else { "" };
    format!("{mark}{}", parts.join(" "))
}

const GAP: &str = "  ";
/// The minimum width at which the last column wraps.
const MIN_WRAPPED_WIDTH: usize = 16;

/// A table of text without control characters.
#[derive(Debug)]
pub(super) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these column headings.
    pub(super) fn new(head: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            head: head.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with one cell per column.
    pub(super) fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Renders the lines for standard output, with the width of the terminal or without a limit.
    pub(super) fn render(self) -> String {
        self.layout(terminal_width())
    }

    fn layout(mut self, width: Option<usize>) -> String {
        let Some(width) = width else {
            return self.columns();
        };
        if self.width() > width {
            self.drop_empty_columns();
        }
        if self.width() <= width {
            return self.columns();
        }
        let widths = self.widths();
        let last = widths.last().copied().unwrap_or_default();
        let room = (width + last).saturating_sub(self.width());
        let texts = || self.rows.iter().filter_map(|row| row.last());
        let mut words = texts().flat_map(|text| text.split_whitespace());
        if room < MIN_WRAPPED_WIDTH || words.any(|word| measure_text_width(word) > room) {
            return self.blocks(width);
        }
        for text in self.rows.iter_mut().filter_map(|row| row.last_mut()) {
            *text = wrap(text, room);
        }
        self.columns()
    }

    /// Removes columns without text.
    fn drop_empty_columns(&mut self) {
        for column in (0..self.head.len()).rev() {
            if self.rows.iter().all(|row| is_empty(&row[column])) {
                self.head.remove(column);
                for row in &mut self.rows {
                    row.remove(column);
                }
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].as_str());
            cells
                .chain([self.head[column]])
                .map(measure_text_width)
                .max()
        };
        (0..self.head.len()).filter_map(width).collect()
    }

    fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    fn columns(&self) -> String {
        let widths = self.widths();
        let last = widths.len().saturating_sub(1);
        let indent: usize = widths
            .iter()
            .take(last)
            .map(|width| width + GAP.len())
            .sum();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.zip(&widths);
            let padded = padded.map(|(cell, width)| pad_str(cell, *width, Alignment::Left, None));
            let line = padded.collect::<Vec<_>>().join(GAP);
            line.trim_end().replace('\n', &format!("\n{:indent$}", ""))
        };
        let head = line(&mut self.head.iter().copied());
        let rows = self.rows.iter();
        let rows = rows.map(|row| line(&mut row.iter().map(String::as_str)));
        [style(head).bold().to_string()]
            .into_iter()
            .chain(rows)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn blocks(&self, width: usize) -> String {
        let labels = self.head.iter().map(|label| measure_text_width(label));
        let indent = labels.max().unwrap_or_default() + GAP.len();
        let block = |row: &Vec<String>| {
            let cells = self
                .head
                .iter()
                .zip(row)
                .filter(|(_, cell)| !is_empty(cell));
            let lines = cells.map(|(label, cell)| {
                let text = wrap(cell, width.saturating_sub(indent).max(MIN_WRAPPED_WIDTH));
                let text = text.replace('\n', &format!("\n{:indent$}", ""));
                let label = pad_str(label, indent, Alignment::Left, None);
                format!("{}{text}", style(label).bold())
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let blocks: Vec<String> = self.rows.iter().map(block).collect();
        blocks.join("\n\n")
    }
}

fn is_empty(cell: &str) -> bool {
    matches!(cell, "" | "-")
}

/// Returns the width of the terminal on standard output; `None` without a terminal.
pub(super) fn terminal_width() -> Option<usize> {
    let terminal = Term::stdout();
    terminal.is_term().then(|| usize::from(terminal.size().1))
}

/// Wraps `text` between words, but not inside backticks, so that users can copy commands. A word longer than `width` gets
/// its own line.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut column = 0;
    let mut in_code = false;
    let mut backticks = text.matches('`').count();
    let words = text.split(|c: char| {
        if c == '`' {
            // The last of an odd number of backticks opens no code.
            in_code = !in_code && backticks > 1;
            backticks -= 1;
        }
        c.is_whitespace() && !in_code
    });
    for word in words.filter(|word| !word.is_empty()) {
        let length = measure_text_width(word);
        if column > 0 && column + 1 + length > width {
            lines.push('\n');
            column = 0;
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// Formats an age like `openclaw remote-agent tasks`.
pub(super) fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_line_has_single_spaces() {
        assert_eq!(line(" a\n\n b\u{2028}c\t d "), "a b c d");
    }

    #[test]
    fn error_shows_its_data_once() {
        let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "X", "metadata": {}});
        let with_metadata =
            json!([{"@type": info["@type"], "reason": "X", "metadata": {"field": "id"}}]);
        for (data, shown) in [
            (json!("no\n\u{1b}[31mquota"), "; the error's data: no quota"),
            (
                json!({"field": "id"}),
                r#"; the error's data: {"field":"id"}"#,
            ),
            (
                json!([{"msg": "no id"}]),
                r#"; the error's data: [{"msg":"no id"}]"#,
            ),
            (json!(null), ""),
            (json!(""), ""),
            (json!("Invalid"), ""),
            (json!([]), ""),
            (json!([info]), ""),
        ] {
            let message = with_error_data("Invalid".to_owned(), &data);
            assert_eq!(message, format!("Invalid{shown}"), "{data}");
        }
        let message = with_error_data(String::new(), &with_metadata);
        assert!(message.contains(r#""field":"id""#), "{message}");
        let long = with_error_data(String::new(), &json!("x".repeat(9000)));
        assert!(long.len() < 600, "{}", long.len());
    }

    const ID: &str = "2245188d-8e9f-4898-95d9-a947b1288617";

    fn tasks(asked: &str) -> Table {
        let mut table = Table::new(["TASK", "STATE", "AGENT", "ASKED"]);
        table.add_row([ID, "completed", "-", asked].map(str::to_owned));
        table
    }

    #[test]
    fn columns_are_aligned_and_unbounded_without_a_terminal() {
        let shown = tasks(&"word ".repeat(40)).layout(None);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert_eq!(lines[0].find("STATE"), lines[1].find("completed"));
    }

    #[test]
    fn narrow_terminal_hides_empty_columns() {
        let shown = tasks("stream 5 200").layout(Some(64));
        assert!(!shown.contains("AGENT"), "{shown}");
        assert!(tasks("stream 5 200").layout(Some(80)).contains("AGENT"));
    }

    #[test]
    fn last_column_wraps_at_spaces() {
        let shown = tasks("Summarize the incident of last Friday").layout(Some(70));
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[2].trim_start(), "incident of last");
        assert_eq!(lines[2].find("incident"), lines[0].find("ASKED"));
    }

    #[test]
    fn text_after_an_unpaired_backtick_wraps() {
        assert_eq!(wrap("`a b` c` d e f", 6), "`a b`\nc` d e\nf");
    }

    #[test]
    fn row_is_a_block_if_columns_do_not_fit() {
        let shown = tasks("Summarize the incident").layout(Some(50));
        let expected = format!("TASK   {ID}\nSTATE  completed\nASKED  Summarize the incident");
        assert_eq!(shown, expected);
    }

    #[test]
    fn no_width_splits_words_or_overflows() {
        for width in 44..160 {
            let shown = tasks("Summarize the incident of last Friday").layout(Some(width));
            assert!(shown.contains(ID) && shown.contains("completed"), "{shown}");
            assert!(shown.lines().all(|line| line.len() <= width), "{shown}");
        }
    }

    #[test]
    fn age_has_the_largest_unit() {
        let shown = [5, 119, 120, 7199, 7200].map(|secs| age(Duration::from_secs(secs)));
        assert_eq!(shown, ["5 s", "119 s", "2 min", "119 min", "2 h"]);
    }
}
