//! Checks the dependencies against `deny.toml` without a network: licences, sources, crates in several versions. Checks that
//! all are used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::contract::architecture::metadata;
use crate::contract::{root, text};

/// A crate of the lock file for this platform.
struct Dependency {
    name: String,
    version: String,
    licence: String,
    /// Its source, unless it is crates.io or the workspace.
    source: Option<String>,
}

static DEPENDENCIES: LazyLock<Vec<Dependency>> = LazyLock::new(|| {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--workspace",
            "--locked",
            "--offline",
            "--all-features",
            "--edges",
            "normal,build,dev",
        ])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p}\t{l}"])
        .current_dir(root(""))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: BTreeSet<_> = lines.lines().filter(|line| !line.is_empty()).collect();
    let dependencies = lines.into_iter().map(|line| {
        let (package, licence) = line.split_once('\t').unwrap();
        // The tests of the command use the xtask, which links the command: cargo marks such a cycle.
        let licence = licence.trim_end_matches(" (*)");
        let package = package.replace(" (proc-macro)", "");
        let mut words = package.split(' ');
        let (name, version) = (words.next().unwrap(), words.next().unwrap());
        let source = words.next().filter(|source| !source.starts_with("(/"));
        Dependency {
            name: name.to_owned(),
            version: version.trim_start_matches('v').to_owned(),
            licence: licence.to_owned(),
            source: source.map(str::to_owned),
        }
    });
    dependencies.collect()
});

/// Returns the texts in quotation marks of a list in `deny.toml`.
fn listed(name: &str) -> BTreeSet<String> {
    let file = text("deny.toml");
    let (_, rest) = file.split_once(&format!("\n{name} = [")).unwrap();
    let (list, _) = rest.split_once(']').unwrap();
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns whether the allowed licences satisfy an SPDX expression. Old crates write `/` for `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut rest = expression.as_str();
    let mut simple = String::new();
    // An expression in parentheses becomes the word `yes` or `no`.
    while let Some((before, inner)) = rest.split_once('(') {
        let (inner, after) = inner.split_once(')').unwrap();
        let word = if is_allowed(inner, allowed) {
            "yes"
        } else {
            "no"
        };
        simple += &format!("{before}{word}");
        rest = after;
    }
    simple += rest;
    let holds = |licence: &str| licence == "yes" || allowed.contains(licence.trim());
    let mut alternatives = simple.split(" OR ");
    alternatives.any(|alternative| alternative.split(" AND ").all(holds))
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let allowed = listed("allow");
    let refused: Vec<_> = DEPENDENCIES
        .iter()
        .filter(|one| !is_allowed(&one.licence, &allowed))
        .map(|one| format!("{} {}: `{}`", one.name, one.version, one.licence))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn dependencies_come_from_crates_io() {
    let others = DEPENDENCIES.iter().filter(|one| one.source.is_some());
    let others: Vec<_> = others.map(|one| (&one.name, &one.source)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn duplicate_crate_versions_have_a_reason() {
    let skipped = listed("skip");
    let mut versions = BTreeMap::<_, BTreeSet<_>>::new();
    for one in &*DEPENDENCIES {
        versions.entry(&one.name).or_default().insert(&one.version);
    }
    for (name, mut versions) in versions {
        versions.retain(|version| !skipped.contains(&format!("{name}@{version}")));
        assert!(
            versions.len() <= 1,
            "{name} {versions:?}: give a reason in deny.toml, or remove one"
        );
    }
}

#[test]
fn banned_crates_are_absent() {
    let banned = listed("deny");
    let found = DEPENDENCIES.iter().find(|one| banned.contains(&one.name));
    assert!(found.is_none_or(|one| panic!("{} is banned", one.name)));
}

/// Returns the text of every source below a directory.
fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| match path.extension() {
        _ if path.is_dir() => sources(&path),
        Some(extension) if extension == "rs" => fs::read_to_string(&path).unwrap(),
        _ => String::new(),
    });
    texts.collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[test]
fn every_dependency_is_used() {
    let metadata = metadata();
    let mut unused = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let (mut product, mut tests) = (String::new(), String::new());
        for target in package["targets"].as_array().unwrap() {
            let kind = target["kind"][0].as_str().unwrap();
            let folder = Path::new(target["src_path"].as_str().unwrap())
                .parent()
                .unwrap();
            match kind {
                "test" | "bench" | "example" => tests += &sources(folder),
                "custom-build" => {}
                _ => product += &sources(folder),
            }
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["rename"]
                .as_str()
                .or(dependency["name"].as_str());
            let name = name.unwrap().replace('-', "_");
            let is_used = match dependency["kind"].as_str() {
                None => has_word(&product, &name),
                Some("dev") => has_word(&product, &name) || has_word(&tests, &name),
                Some(_) => true,
            };
            if !is_used {
                unused.push(format!("{} of {}", name, package["name"]));
            }
        }
    }
    assert!(unused.is_empty(), "{unused:?}");
}

#[test]
fn licence_expressions_are_read() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for (expression, is) in [
        ("MIT", true),
        ("GPL-3.0/MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND BSD-3-Clause", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), is, "{expression}");
    }
}
