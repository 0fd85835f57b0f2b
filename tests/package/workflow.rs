//! The workflow that publishes a release: what its steps run exists in this checkout.

use std::{collections::BTreeSet, fs, path::Path};

use clap::CommandFactory as _;
use serde_json::Value;
use xtask::task::Task;

use super::{SOURCE, release::PLATFORMS};

fn source(path: &str) -> String {
    fs::read_to_string(Path::new(SOURCE).join(path)).unwrap()
}

fn workflow() -> Value {
    serde_yaml_ng::from_str(&source(".github/workflows/release.yml")).unwrap()
}

fn jobs(workflow: &Value) -> impl Iterator<Item = (&String, &Value)> {
    workflow["jobs"].as_object().unwrap().iter()
}

fn steps(job: &Value) -> &Vec<Value> {
    job["steps"].as_array().unwrap()
}

/// Returns the shell commands of all steps, each line a word list, with continued lines joined.
fn commands(workflow: &Value) -> Vec<Vec<String>> {
    let steps = jobs(workflow).flat_map(|(_, job)| steps(job));
    let scripts = steps.filter_map(|step| step["run"].as_str());
    let lines = scripts.flat_map(|script| {
        let script = script.replace("\\\n", " ").replace("&&", "\n");
        script.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let words = |line: String| {
        let line = line.replace("${{ ", "${{").replace(" }}", "}}");
        line.split_whitespace().map(str::to_owned).collect()
    };
    lines.map(words).collect()
}

/// Returns the values of `key` in the matrices of all jobs.
fn matrix_values<'a>(workflow: &'a Value, key: &'static str) -> impl Iterator<Item = &'a str> {
    let rows = jobs(workflow).flat_map(|(_, job)| {
        let rows = job["strategy"]["matrix"]["include"].as_array();
        rows.into_iter().flatten()
    });
    rows.filter_map(move |row| row[key].as_str())
}

#[test]
fn tasks_have_the_arguments_that_the_steps_give() {
    let workflow = workflow();
    let mut tasks = BTreeSet::new();
    for words in commands(&workflow) {
        let Some(place) = words.windows(2).position(|pair| pair == ["xtask", "--"]) else {
            continue;
        };
        let arguments = &words[place + 2..];
        let parsed =
            Task::command().try_get_matches_from([&["xtask".to_owned()], arguments].concat());
        assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
        tasks.insert(arguments[0].clone());
    }
    assert_eq!(
        tasks.into_iter().collect::<Vec<_>>(),
        ["bundle", "mcp-release", "release"]
    );
}

#[test]
fn scripts_of_the_steps_exist() {
    let workflow = workflow();
    let commands = commands(&workflow).concat();
    let words = commands.iter().map(String::as_str);
    let scripts: BTreeSet<&str> = words
        .chain(matrix_values(&workflow, "link"))
        .filter(|word| word.starts_with(".ci/"))
        .collect();
    assert!(scripts.contains(".ci/load-release"), "{scripts:?}");
    let inner = source(".ci/load-release");
    let inner = inner
        .split_whitespace()
        .filter(|word| word.starts_with(".ci/"));
    for script in scripts.into_iter().chain(inner) {
        assert!(Path::new(SOURCE).join(script).exists(), "{script}");
    }
}

#[test]
fn packages_and_profiles_of_the_steps_exist() {
    let workflow = workflow();
    let mut words = commands(&workflow).concat();
    let build = workflow["env"]["BUILD"].as_str().unwrap();
    words.extend(build.split_whitespace().map(str::to_owned));
    let manifests = ["", "xtask/", "crates/base/", "crates/egress/"]
        .map(|folder| source(&format!("{folder}Cargo.toml")));
    let named = |name: &str| {
        manifests
            .iter()
            .any(|manifest| manifest.contains(&format!("\nname = \"{name}\"")))
    };
    let mut packages = 0;
    for pair in words.windows(2) {
        if pair[0] == "--package" {
            assert!(named(&pair[1]), "{pair:?}");
            packages += 1;
        }
        if pair[0] == "--profile" && pair[1] != "minimal" {
            assert!(
                manifests[0].contains(&format!("[profile.{}]", pair[1])),
                "{pair:?}"
            );
        }
    }
    assert!(packages > 3, "{words:?}");
}

#[test]
fn jobs_follow_jobs_that_exist_and_publish_last() {
    let workflow = workflow();
    let mut needed = BTreeSet::new();
    for (name, job) in jobs(&workflow) {
        let needs = match &job["needs"] {
            Value::String(one) => vec![one.as_str()],
            several => several
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect(),
        };
        for need in needs {
            assert!(workflow["jobs"].get(need).is_some(), "{name} needs {need}");
            needed.insert(need.to_owned());
        }
        assert!(job["permissions"].is_object(), "{name}");
    }
    let last: BTreeSet<_> = jobs(&workflow)
        .map(|(name, _)| name.as_str())
        .filter(|name| !needed.contains(*name))
        .collect();
    assert_eq!(last, BTreeSet::from(["clawhub", "mcp-registry"]));
}

#[test]
fn every_platform_is_built_and_its_library_loaded() {
    let workflow = workflow();
    let rows = |job: &str| {
        workflow["jobs"][job]["strategy"]["matrix"]["include"]
            .as_array()
            .unwrap()
    };
    for job in ["build", "load"] {
        let platforms: Vec<_> = rows(job).iter().map(|row| &row["platform"]).collect();
        assert_eq!(platforms, PLATFORMS, "{job}");
    }
    for build in rows("build") {
        let gnu = build["platform"].as_str().unwrap().ends_with("-gnu");
        assert_eq!(build["glibc"].as_str(), gnu.then_some(".2.28"), "{build}");
    }
    for load in rows("load") {
        let linux = load["platform"].as_str().unwrap().starts_with("linux");
        assert_eq!(load["image"].is_string(), linux, "{load}");
    }
}

#[test]
fn only_publish_changes_the_release_and_signs_what_it_publishes() {
    let workflow = workflow();
    let (mut writes, mut signs, mut secrets) = (Vec::new(), Vec::new(), Vec::new());
    for (name, job) in jobs(&workflow) {
        let may = |permission: &str| job["permissions"][permission] == "write";
        writes.extend((may("contents") || may("attestations")).then_some(name.as_str()));
        signs.extend(may("id-token").then_some(name.as_str()));
        secrets.extend(
            job.to_string()
                .contains("secrets.")
                .then_some(name.as_str()),
        );
    }
    signs.sort_unstable();
    secrets.sort_unstable();
    assert_eq!(writes, ["publish"]);
    assert_eq!(signs, ["clawhub", "mcp-registry", "publish"]);
    assert_eq!(secrets, ["clawhub", "publish"]);
    let publish = &workflow["jobs"]["publish"];
    assert_eq!(publish["if"], "github.event_name == 'push'");
    let text = publish.to_string();
    // A draft has all files before anyone sees it.
    let order = [
        "gh release download",
        "actions/attest-build-provenance",
        "gh release create \\\"$GITHUB_REF_NAME\\\" --draft",
        "gh release upload",
        "--draft=false",
        "npm publish",
    ];
    let places = order.map(|part| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    });
    assert!(places.is_sorted(), "{places:?}");
    assert!(text.contains("--provenance"));
}

#[test]
fn actions_are_commits_and_checkouts_keep_no_token() {
    let workflow = workflow();
    let steps: Vec<_> = jobs(&workflow).flat_map(|(_, job)| steps(job)).collect();
    let actions = steps.iter().filter_map(|step| step["uses"].as_str());
    for action in actions {
        let (_, commit) = action.split_once('@').unwrap();
        let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(commit.len() == 40 && is_hex, "{action}");
    }
    for step in steps {
        let action = step["uses"].as_str().unwrap_or_default();
        let keeps = &step["with"]["persist-credentials"];
        assert!(
            !action.starts_with("actions/checkout@") || keeps == false,
            "{step}"
        );
    }
}

/// The one that `cargo real` tries, with a lock file for what it needs.
#[test]
fn clawhub_is_the_tested_version() {
    let tested = source("tests/openclaw/registry.rs");
    let (_, version) = tested.split_once("\"clawhub@").unwrap();
    let (version, _) = version.split_once('"').unwrap();
    let lock: Value = serde_json::from_str(&source(".ci/clawhub/package-lock.json")).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    assert_eq!(packages["node_modules/clawhub"]["version"], version);
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        assert!(package["integrity"].is_string(), "{name}");
    }
    assert!(source(".github/workflows/release.yml").contains("npm ci --ignore-scripts"));
}
