//! Checks the picture and the code map in ARCHITECTURE.md against Cargo's metadata.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use serde_json::Value;

use crate::contract::{files, generated, root, text};

/// The prefix of every other package name in the workspace.
const PRODUCT: &str = "openclaw-remote-agent";

const XTASK: &str = "xtask";

/// The hosts and networks in the picture.
const EXTERNAL_NODES: &str = r#"    openclaw(["OpenClaw on Node.js"]) -.->|Node-API| plugin
    rust(["a Rust host"]) -.->|abi_stable| plugin
    egress -.->|HTTP| agents(["agents elsewhere"])
    egress -.->|WebSocket| gateways(["a gateway on this machine"])
    bridges(["agents and bridges"]) -.->|WebSocket| gateway
    clients(["A2A clients"]) -.->|HTTP| a2a-server"#;

/// Returns the short name of a package: its folder in `crates/`, `plugin` or `xtask`.
fn short(package: &str) -> Option<String> {
    if package == XTASK {
        return Some(package.to_owned());
    }
    let rest = package.strip_prefix(PRODUCT)?;
    Some(match rest.strip_prefix('-') {
        Some(name) => name.to_owned(),
        None => "plugin".to_owned(),
    })
}

/// Returns Cargo's metadata of the workspace.
pub(super) fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root(""))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the dependencies between crates, without those of tests and benchmarks.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let mut arrows = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap();
        let linked = dependencies
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| short(dependency["name"].as_str().unwrap()))
            .collect();
        let name = short(package["name"].as_str().unwrap()).unwrap();
        arrows.insert(name, linked);
    }
    arrows
}

/// Returns every crate that `from` links, through others too.
fn linked(arrows: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(name) = open.pop() {
        for next in &arrows[&name] {
            if all.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    all
}

/// Returns the crates in the order of the code map.
fn code_map() -> Vec<String> {
    let document = text("ARCHITECTURE.md");
    let map = document.split_once("## Code map").expect("a code map").1;
    map.lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cell = line.split('|').nth(1).unwrap().trim();
            let cell = cell.trim_matches('`').trim_end_matches('/');
            match cell.strip_prefix("crates/") {
                Some(name) => name.to_owned(),
                None if cell == XTASK => cell.to_owned(),
                None => "plugin".to_owned(),
            }
        })
        .collect()
}

#[test]
fn code_map_lists_every_crate_once() {
    let mut listed = code_map();
    listed.sort();
    assert_eq!(listed, arrows().into_keys().collect::<Vec<_>>());
}

#[test]
fn every_dependency_points_down_the_code_map() {
    let order = code_map();
    let height = |name: &str| order.iter().position(|listed| listed == name).unwrap();
    for (from, used) in arrows() {
        for to in used {
            assert!(height(&from) < height(&to), "`{from}` links `{to}`");
        }
    }
}

#[test]
fn picture_shows_the_dependencies_between_crates() {
    let mut picture = "```mermaid\nflowchart TD\n".to_owned();
    let arrows = arrows();
    for name in code_map() {
        let direct = &arrows[&name];
        for to in direct {
            if !direct
                .iter()
                .any(|through| linked(&arrows, through).contains(to))
            {
                picture += &format!("    {name} --> {to}\n");
            }
        }
    }
    picture += &format!("{EXTERNAL_NODES}\n```");
    generated::part("ARCHITECTURE.md", "crates", &picture);
}

#[test]
fn no_crate_links_tests_and_the_plugin_links_no_server() {
    const DEV_ONLY: &[&str] = &["fuzzing", "testkit", XTASK];
    const SERVERS: &[&str] = &[
        "a2a-server",
        "cli",
        "conformance",
        "gateway",
        "openclaw-server",
    ];
    let arrows = arrows();
    let everywhere = arrows.keys().map(|from| (from.as_str(), DEV_ONLY));
    for (from, excluded) in everywhere.chain([("plugin", SERVERS)]) {
        let linked = linked(&arrows, from);
        for name in excluded {
            assert!(!linked.contains(*name), "`{from}` links `{name}`");
        }
    }
}

#[test]
fn build_id_hashes_every_crate_of_the_library() {
    let build = text("build.rs");
    for name in linked(&arrows(), "plugin") {
        let folder = format!("crates/{name}");
        let whole = build.contains(&format!("\"{folder}\","));
        let source = build.contains(&format!("\"{folder}/src\","));
        assert!(whole || source, "build.rs does not hash {folder}");
        assert!(root(&folder).join("src").is_dir(), "{folder}");
    }
}

#[test]
fn protocol_crates_link_no_openclaw_and_no_sockets() {
    let arrows = arrows();
    assert_eq!(
        linked(&arrows, "collective"),
        BTreeSet::from(["base".to_owned()])
    );
    assert_eq!(linked(&arrows, "a2a"), BTreeSet::new());
    assert_eq!(
        linked(&arrows, "a2a-server"),
        BTreeSet::from(["a2a", "base", "http-server"].map(str::to_owned))
    );
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    for folder in [
        "src", "crates", "xtask", "tests", "benches", "examples", "openclaw",
    ] {
        for path in files(&root(folder)) {
            let kind = path.extension().and_then(|kind| kind.to_str());
            if !matches!(kind, Some("rs" | "js" | "mjs" | "py")) {
                continue;
            }
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 600, "{} has {lines} lines", path.display());
        }
    }
}

/// Returns the paths in backticks in the document, with `*` for any characters.
#[test]
fn paths_in_the_architecture_exist() {
    let document = text("ARCHITECTURE.md");
    let folders = [
        "src/",
        "crates/",
        "xtask/",
        "tests/",
        "fixtures/",
        "openclaw/",
        "schema/",
        "docs/",
        "benches/",
        ".ci/",
    ];
    let named: Vec<&str> = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| folders.iter().any(|folder| word.starts_with(folder)))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for path in named {
        let Some((before, _)) = path.split_once('*') else {
            assert!(root(path).exists(), "`{path}`");
            continue;
        };
        let (folder, prefix) = before.rsplit_once('/').unwrap();
        let mut names = root(folder).read_dir().unwrap();
        let there = names.any(|entry| {
            let name = entry.unwrap().file_name();
            name.to_str().unwrap().starts_with(prefix)
        });
        assert!(there, "`{path}`");
    }
}
