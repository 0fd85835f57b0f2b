//! A numbered resolution decides where the protocol's texts are contradictory or incomplete. Each resolution of behaviour has
//! tests with its number in their names; `cargo test --test suite gateway::resolutions -- --nocapture` lists them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The number of resolutions.
const COUNT: u32 = 64;

/// The resolutions without behaviour, and the reason.
const UNTESTED: &[(u32, &str)] = &[(
    44,
    "No message of the protocol carries the steward's casting vote, escalation or unanimity.",
)];

fn rust_files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, all);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            all.push(path);
        }
    }
}

/// Returns the tests of each resolution, with their files.
fn tests() -> BTreeMap<u32, Vec<String>> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    for folder in ["src", "crates", "tests"] {
        rust_files(&root.join(folder), &mut files);
    }
    files.sort();
    let mut tests: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in files {
        let path = file.strip_prefix(root).unwrap().display();
        for line in fs::read_to_string(&file).unwrap().lines() {
            if let Some((number, name)) = parse_test_name(line) {
                tests
                    .entry(number)
                    .or_default()
                    .push(format!("{name} ({path})"));
            }
        }
    }
    tests
}

/// Returns the resolution in the name of a line's test: a function, or an entry of a table of tests.
fn parse_test_name(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    let name = line
        .strip_prefix("async fn ")
        .or_else(|| line.strip_prefix("fn "))
        .unwrap_or(line);
    let numbered = name.strip_prefix("h_")?;
    let number = numbered.get(..2)?.parse().ok()?;
    numbered.get(2..)?.strip_prefix('_')?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    Some((number, &name[..end?]))
}

#[test]
fn each_resolution_has_a_test_or_an_exemption() {
    let tests = tests();
    let mut missing = Vec::new();
    for number in 1..=COUNT {
        let reason = UNTESTED.iter().find(|(other, _)| *other == number);
        match (tests.get(&number), reason) {
            (Some(names), None) => {
                println!("H-{number:02}");
                for name in names {
                    println!("    {name}");
                }
            }
            (None, Some((_, reason))) => println!("H-{number:02}\n    nothing to test: {reason}"),
            (Some(names), Some(_)) => {
                panic!("H-{number:02} is listed without tests, but has {names:?}")
            }
            (None, None) => missing.push(format!("H-{number:02}")),
        }
    }
    assert_eq!(missing, [""; 0], "these have no test");
    let unknown: Vec<_> = tests
        .keys()
        .filter(|number| **number > COUNT || **number == 0)
        .collect();
    assert_eq!(unknown, [&0; 0], "these numbers are no resolutions");
}

#[test]
fn protocol_page_lists_each_resolution() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let page = fs::read_to_string(root.join("docs/reference/a2a-v1.md")).unwrap();
    let (rules, untested) = page.split_once("\n## Untested rules\n").unwrap();
    let ids = |text: &str| -> Vec<String> {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
        let rows = rows.filter(|row| row.starts_with("H-"));
        rows.map(|row| row[..4].to_owned()).collect()
    };
    let all: Vec<String> = (1..=COUNT).map(|number| format!("H-{number:02}")).collect();
    assert_eq!(ids(rules), all);
    let rows: Vec<&str> = untested
        .lines()
        .filter(|line| line.starts_with("| H-"))
        .collect();
    let expected: Vec<String> = UNTESTED
        .iter()
        .map(|(number, reason)| format!("| H-{number:02} | {reason} |"))
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn parses_names_of_functions_and_tables() {
    assert_eq!(
        parse_test_name("    async fn h_07_pings_are_answered() {"),
        Some((7, "h_07_pings_are_answered"))
    );
    assert_eq!(
        parse_test_name("    h_24_answer_is_forwarded: \"agent\" => Nothing;"),
        Some((24, "h_24_answer_is_forwarded"))
    );
    assert_eq!(parse_test_name("fn h_7_too_short() {"), None);
    assert_eq!(parse_test_name("// as h_07_pings_are_answered"), None);
}
