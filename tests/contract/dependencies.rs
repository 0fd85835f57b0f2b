//! Checks the dependencies against `deny.toml` without a network: licences, sources, crates in several versions. Checks that
//! all are used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use crate::contract::architecture::metadata;
use crate::contract::{files, root, text};

/// The name, the version and the licence of each crate of the lock file for this platform.
static DEPENDENCIES: LazyLock<BTreeSet<[String; 3]>> = LazyLock::new(|| {
    let arguments = "tree --workspace --locked --offline --all-features --edges normal,build,dev --prefix none --format {p}\t{l}";
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo
        .args(arguments.split(' '))
        .current_dir(root(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let dependencies = lines.lines().filter_map(|line| {
        let (package, licence) = line.split_once('\t')?;
        let (name, version) = package.split_once(" v").unwrap();
        let version = version.split(' ').next().unwrap();
        // `cargo tree` marks a crate that it has shown before.
        Some([name, version, licence.trim_end_matches(" (*)")].map(str::to_owned))
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

/// Returns whether the allowed licences satisfy an SPDX expression. Old crates write `/` for `OR`. The test reads every
/// expression as alternatives joined by `AND`, and so refuses some of the others that the licences satisfy, but allows none that
/// they do not.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ").replace(['(', ')'], "");
    let holds = |alternatives: &str| {
        alternatives
            .split(" OR ")
            .any(|licence| allowed.contains(licence))
    };
    expression.split(" AND ").all(holds)
}

#[test]
fn licences_of_dependencies_are_allowed() {
    let allowed = listed("allow");
    for [name, version, licence] in &*DEPENDENCIES {
        assert!(
            is_allowed(licence, &allowed),
            "{name} {version}: `{licence}`"
        );
    }
}

#[test]
fn dependencies_come_from_crates_io() {
    let lock = text("Cargo.lock");
    let mut sources = lock.lines().filter(|line| line.starts_with("source = "));
    let other = sources
        .find(|line| !line.contains("registry+https://github.com/rust-lang/crates.io-index"));
    assert_eq!(other, None);
}

#[test]
fn duplicate_crate_versions_have_a_reason() {
    let skipped = listed("skip");
    let counted = DEPENDENCIES
        .iter()
        .filter(|[name, version, _]| !skipped.contains(&format!("{name}@{version}")));
    let mut versions = BTreeMap::new();
    for [name, version, _] in counted {
        let other = versions.insert(name, version);
        assert_eq!(
            other, None,
            "{name} {version}: give a reason in deny.toml, or remove one"
        );
    }
}

#[test]
fn banned_crates_are_absent() {
    let banned = listed("deny");
    let found = DEPENDENCIES.iter().find(|[name, ..]| banned.contains(name));
    assert_eq!(found, None);
}

/// Returns the text of every source below a directory.
fn sources(directory: &Path) -> String {
    let files = files(directory).into_iter();
    let sources = files.filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    sources
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
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
            let folder = Path::new(target["src_path"].as_str().unwrap()).parent();
            let folder = folder.unwrap();
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
