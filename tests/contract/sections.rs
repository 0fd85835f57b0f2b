//! The tables of sections and of OpenClaw's conventions: every section of Heretek A2A §3 to §13 has a row, and every test that a row names exists.

use std::collections::BTreeMap;

use crate::contract::text;

/// The number of subsections of each section.
const SUBSECTIONS: [(u32, u32); 11] = [
    (3, 5),
    (4, 5),
    (5, 5),
    (6, 4),
    (7, 5),
    (8, 3),
    (9, 2),
    (10, 6),
    (11, 3),
    (12, 4),
    (13, 5),
];

/// Returns the rows: the section, and the test and file of each link.
fn rows() -> BTreeMap<String, Vec<(String, String)>> {
    let page = text("docs/reference/sections.md");
    let rows = page.lines().filter_map(|line| {
        let (section, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
        section
            .starts_with(|c: char| c.is_ascii_digit())
            .then(|| (section.to_owned(), tests(rest)))
    });
    rows.collect()
}

/// Returns the test and the file of each link in a row.
fn tests(row: &str) -> Vec<(String, String)> {
    let links = row.split("[`").skip(1).map(|link| {
        let (test, file) = link.split_once("`](../../").unwrap();
        let file = file.split(')').next().unwrap();
        (test.to_owned(), file.to_owned())
    });
    links.collect()
}

#[test]
fn every_section_has_a_row() {
    let sections = SUBSECTIONS
        .into_iter()
        .flat_map(|(section, last)| (1..=last).map(move |sub| format!("{section}.{sub}")));
    let mut expected: Vec<_> = sections.collect();
    expected.sort();
    let rows = rows();
    assert_eq!(rows.keys().cloned().collect::<Vec<_>>(), expected);
    let bare: Vec<_> = rows.iter().filter(|(_, tests)| tests.is_empty()).collect();
    assert!(bare.is_empty(), "{bare:?}");
}

#[test]
fn every_named_test_exists() {
    let mut missing = Vec::new();
    for (section, tests) in rows() {
        for (test, file) in tests {
            let source = text(&file);
            let lines: Vec<_> = source.lines().map(str::trim).collect();
            let found = lines.windows(2).any(|pair| {
                let attribute = pair[0].starts_with("#[") && pair[0].contains("test");
                attribute && pair[1].contains(&format!("fn {test}("))
            });
            if !found {
                missing.push(format!("{section}: {test} in {file}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The tests are functions, or titles in JavaScript.
#[test]
fn every_test_of_an_openclaw_convention_exists() {
    let page = text("docs/reference/openclaw.md");
    let named: Vec<_> = page.lines().flat_map(tests).collect();
    assert!(!named.is_empty());
    for (test, file) in named {
        let source = text(&file);
        let forms = [format!("fn {test}("), format!("\"{test}\"")];
        let found = forms.iter().any(|form| source.contains(form));
        assert!(found, "{test} in {file}");
    }
}
