//! The table of the documents: the expected results of every official client.

use std::fmt::Write as _;

use super::COLUMNS;
use super::columns::Column;
use super::expected::{self, Expected};
use crate::serve::generated;

/// A heading, and the operations below it.
const GROUPS: [(&str, &[&str]); 9] = [
    ("card", &["card"]),
    (
        "send",
        &[
            "send",
            "message",
            "return_immediately",
            "fail",
            "reject",
            "ask",
        ],
    ),
    ("files, data", &["parts", "artifact_parts"]),
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
    for (group, _) in GROUPS {
        write!(table, " {group} |").unwrap();
    }
    table += "\n|---|---|---|";
    table += &":-:|".repeat(GROUPS.len());
    for column in COLUMNS {
        let (client, binding) = (column.client.package(), column.binding.name());
        write!(
            table,
            "\n| {client} | {binding} | {} |",
            column.version.name()
        )
        .unwrap();
        for (_, operations) in GROUPS {
            write!(table, " {} |", cell(*column, operations, &mut notes)).unwrap();
        }
    }
    table += "\n\n✓: everything arrives unchanged, and a refusal states its reason. ≈: the same, except for the footnote, which is a limit of \
              the client. –: the client lacks the feature.\n\n";
    for (index, note) in notes.iter().enumerate() {
        writeln!(table, "- <sup>{}</sup> {note}.", footnote_letter(index)).unwrap();
    }
    table
}

/// Returns the results of one group of operations.
fn cell(column: Column, operations: &[&str], notes: &mut Vec<&'static str>) -> String {
    let mut letters = Vec::new();
    let mut offered = false;
    for operation in operations {
        let note = match expected::expected_result(column, operation) {
            Expected::NotOffered => continue,
            Expected::Deviates(note, _) => Some(note),
            Expected::Refused(refusal) => refusal.client_fault,
            Expected::Returned(_) => None,
        };
        offered = true;
        if let Some(note) = note {
            let index = notes.iter().position(|existing| *existing == note);
            let index = index.unwrap_or_else(|| {
                notes.push(note);
                notes.len() - 1
            });
            letters.push(footnote_letter(index));
        }
    }
    letters.dedup();
    match (offered, letters.is_empty()) {
        (false, _) => "–".to_owned(),
        (true, true) => "✓".to_owned(),
        (true, false) => format!("≈<sup>{}</sup>", letters.into_iter().collect::<String>()),
    }
}

fn footnote_letter(index: usize) -> char {
    char::from(b'a' + u8::try_from(index).unwrap())
}
