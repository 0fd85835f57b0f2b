//! The table of the documents: the results of every official client, as the tests expect them.

use std::fmt::Write as _;

use super::COLUMNS;
use super::columns::Column;
use super::expected::{self, Expected};
use crate::serve::generated;

/// A heading, and the operations below it.
const THEMES: [(&str, &[&str]); 9] = [
    ("card", &["card"]),
    (
        "send",
        &["send", "message", "at_once", "fail", "reject", "ask"],
    ),
    ("files, data", &["parts", "gift"]),
    ("stream", &["stream"]),
    ("resubscribe", &["resubscribe"]),
    ("get, cancel", &["get", "cancel"]),
    ("list", &["list"]),
    ("push", &["push_configs", "push"]),
    ("errors", &["not_found", "not_cancelable", "bad_webhook"]),
];

/// Compares the document with the expectations, or writes it with `UPDATE=1`.
pub fn check() {
    generated::part("docs/reference/serve.md", "serve", &table());
}

fn table() -> String {
    let mut notes = Vec::new();
    let mut table = String::from("| client | binding | version |");
    for (theme, _) in THEMES {
        write!(table, " {theme} |").unwrap();
    }
    table += "\n|---|---|---|";
    table += &":-:|".repeat(THEMES.len());
    for column in COLUMNS {
        let (client, binding) = (column.client.package(), column.binding.name());
        write!(
            table,
            "\n| {client} | {binding} | {} |",
            column.version.name()
        )
        .unwrap();
        for (_, operations) in THEMES {
            write!(table, " {} |", cell(*column, operations, &mut notes)).unwrap();
        }
    }
    table += "\n\n✓: everything arrives unchanged, and a refusal states its reason. ≈: the same, except for the footnote, which is a limit of \
              the client. –: the client lacks the feature.\n\n";
    for (at, note) in notes.iter().enumerate() {
        writeln!(table, "- <sup>{}</sup> {note}.", letter(at)).unwrap();
    }
    table
}

/// Returns the results of one group of operations.
fn cell(column: Column, operations: &[&str], notes: &mut Vec<&'static str>) -> String {
    let mut letters = Vec::new();
    let mut offered = false;
    for operation in operations {
        let note = match expected::of(column, operation) {
            Expected::NotOffered => continue,
            Expected::But(note, _) => Some(note),
            Expected::Refused(refusal) => refusal.fault,
            Expected::Seen(_) => None,
        };
        offered = true;
        if let Some(note) = note {
            let at = notes.iter().position(|known| *known == note);
            let at = at.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            letters.push(letter(at));
        }
    }
    letters.dedup();
    match (offered, letters.is_empty()) {
        (false, _) => "–".to_owned(),
        (true, true) => "✓".to_owned(),
        (true, false) => format!("≈<sup>{}</sup>", letters.into_iter().collect::<String>()),
    }
}

fn letter(at: usize) -> char {
    char::from(b'a' + u8::try_from(at).unwrap())
}
