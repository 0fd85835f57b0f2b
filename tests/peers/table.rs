//! The table of servers in the documents, from the expectations of the tests.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use crate::expected;
use crate::generated;
use crate::outcome::Expected;
use crate::scenarios::SCENARIOS;
use crate::servers::{Column, columns};

/// Compares the table with the expectations, or updates it with `UPDATE=1`.
pub fn check() {
    generated::part("docs/reference/tested-servers.md", "peers", &table());
}

fn table() -> String {
    let mut themes: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.theme).collect();
    themes.dedup();
    let mut legend = Legend::default();
    let mut table = String::from("| server |");
    for theme in &themes {
        write!(table, " {theme} |").unwrap();
    }
    table += "\n|---|";
    table += &":-:|".repeat(themes.len());
    table.push('\n');
    for column in columns() {
        write!(table, "| {column} |").unwrap();
        for theme in &themes {
            write!(table, " {} |", cell(column, theme, &mut legend)).unwrap();
        }
        table.push('\n');
    }
    let mut servers: Vec<String> = columns()
        .into_iter()
        .map(|column| format!("{} is `{}`", column.server(), column.package()))
        .collect();
    servers.sort();
    servers.dedup();
    format!("{table}\n{}.\n\n{}", servers.join(", "), legend.written())
}

/// Returns the outcomes of the scenarios of one theme.
fn cell(column: Column, theme: &str, legend: &mut Legend) -> String {
    let scenarios = SCENARIOS.iter().filter(|scenario| scenario.theme == theme);
    let mut marks: Vec<String> = scenarios
        .map(|scenario| match expected::expected(column, scenario) {
            Expected::Green => "✓".to_owned(),
            Expected::Deviates(note) => format!("≈ {}", legend.letter(note)),
            Expected::Refused(label, message) => legend.refusal(label, message),
            Expected::NotOffered => "–".to_owned(),
        })
        .collect();
    let mut seen = HashSet::new();
    marks.retain(|mark| seen.insert(mark.clone()));
    // A plain mark beside others has no information.
    if marks.len() > 1 {
        marks.retain(|mark| mark != "✓");
    }
    marks.join(", ")
}

/// The legend of the marks.
#[derive(Default)]
struct Legend {
    notes: Vec<&'static str>,
    refusals: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Legend {
    fn letter(&mut self, note: &'static str) -> String {
        let at = self.notes.iter().position(|messages| *messages == note);
        let at = at.unwrap_or_else(|| {
            self.notes.push(note);
            self.notes.len() - 1
        });
        let letter = char::from(b'a' + u8::try_from(at).unwrap());
        format!("<sup>{letter}</sup>")
    }

    fn refusal(&mut self, label: &'static str, message: &'static str) -> String {
        let messages = self.refusals.entry(label).or_default();
        if !messages.contains(&message) {
            messages.push(message);
        }
        format!("`{label}`")
    }

    fn written(&self) -> String {
        let mut legend = String::from(
            "✓: everything arrives unchanged. ≈: the same, except for the footnote. A code: the peer refuses with this text. –: the \
             peer lacks the feature.\n",
        );
        for (at, note) in self.notes.iter().enumerate() {
            let letter = char::from(b'a' + u8::try_from(at).unwrap());
            writeln!(legend, "- <sup>{letter}</sup> {note}").unwrap();
        }
        for (label, message) in &self.refusals {
            let message: Vec<String> = message
                .iter()
                .map(|message| format!("“{message}”"))
                .collect();
            writeln!(legend, "- `{label}` {}", message.join(", ")).unwrap();
        }
        legend.replace(".\n- ", ".\n\n- ")
    }
}
