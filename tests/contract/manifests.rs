//! Checks the manifests: one version, consistent names, and existing paths.

use std::sync::Arc;

use base::log::Silent;
use openclaw_remote_agent::PLUGIN_ID;
use openclaw_remote_agent::plugin::Plugin;
use serde_json::{Value, json};

use crate::contract::{json as read_json, root, text};

const PACKAGE: &str = "openclaw-remote-agent";
const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn every_manifest_has_the_version_of_cargo_toml() {
    for path in [
        "openclaw/package.json",
        "openclaw/openclaw.plugin.json",
        "plugin.json",
    ] {
        assert_eq!(read_json(path)["version"], VERSION, "{path}");
    }
    for path in [
        "Cargo.toml",
        "crates/interface/Cargo.toml",
        "crates/cli/Cargo.toml",
    ] {
        assert!(
            text(path).contains("\nversion.workspace = true\n"),
            "{path}"
        );
    }
    let versions = text("Cargo.toml").matches("\nversion = ").count();
    assert_eq!(
        versions, 1,
        "versions in Cargo.toml besides those of dependencies"
    );
}

/// ClawHub shows it, and refuses a package without it.
#[test]
fn package_names_the_openclaw_that_it_is_tested_with() {
    let package = &read_json("openclaw/package.json")["openclaw"];
    let version = package["build"]["openclawVersion"].as_str().unwrap();
    let pinned = format!("const OPENCLAW_PACKAGE: &str = \"openclaw@{version}\";");
    assert!(text("tests/openclaw/main.rs").contains(&pinned), "{pinned}");
}

#[test]
fn changelog_begins_with_this_version() {
    let changelog = text("CHANGELOG.md");
    let first = changelog
        .lines()
        .find(|line| line.starts_with("## "))
        .unwrap();
    assert!(first.starts_with(&format!("## [{VERSION}]")), "{first}");
}

#[test]
fn every_manifest_has_the_same_plugin_and_tool_names() {
    let openclaw = read_json("openclaw/openclaw.plugin.json");
    let agents = read_json("plugin.json");
    let tool = Plugin::new("{}", Arc::new(Silent)).unwrap();
    let tool: Value = serde_json::from_str(&tool.definition()).unwrap();
    let tools = json!([tool["name"]]);
    assert_eq!(openclaw["id"], PLUGIN_ID);
    assert_eq!(openclaw["contracts"]["tools"], tools);
    assert!(openclaw["toolMetadata"]["remote_agent"].is_object());
    let extension = &agents["extensions"]["io.github.openclaw-remote-agent"];
    assert_eq!(extension["tools"], tools);
    assert_eq!(agents["name"], PACKAGE);
    assert_eq!(read_json("openclaw/package.json")["name"], PACKAGE);
}

#[test]
fn send_is_never_marked_safe_to_repeat() {
    let metadata = &read_json("openclaw/openclaw.plugin.json")["toolMetadata"]["remote_agent"];
    assert_eq!(metadata["sideEffecting"], true);
    assert!(
        metadata.get("replaySafe").is_none_or(|safe| safe == false),
        "{metadata}"
    );
}

#[test]
fn paths_of_the_agent_plugins_manifest_exist() {
    let manifest = read_json("plugin.json");
    let extension = &manifest["extensions"]["io.github.openclaw-remote-agent"];
    let schemas = extension["schemas"].as_object().unwrap();
    assert_eq!(schemas.len(), 3, "{schemas:?}");
    for path in schemas.values() {
        read_json(path.as_str().unwrap());
    }
    // The library exists after a build with the profile of that name.
    let profiles = text("Cargo.toml");
    for path in extension["library"]["searchPaths"].as_array().unwrap() {
        let profile = path.as_str().unwrap().strip_prefix("./target/").unwrap();
        let known = profile == "debug" || profiles.contains(&format!("[profile.{profile}]"));
        assert!(known, "{path}");
    }
    let library = extension["library"]["name"].as_str().unwrap();
    assert!(
        profiles.contains(&format!("[lib]\nname = \"{library}\"\n")),
        "{library}"
    );
}

#[test]
fn skill_has_the_front_matter_of_openclaw() {
    for skill in read_json("openclaw/openclaw.plugin.json")["skills"]
        .as_array()
        .unwrap()
    {
        let folder = root("openclaw").join(skill.as_str().unwrap());
        let mut count = 0;
        for entry in folder.read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let skill = std::fs::read_to_string(folder.join(&name).join("SKILL.md")).unwrap();
            let front = skill
                .strip_prefix("---\n")
                .unwrap()
                .split_once("\n---\n")
                .unwrap()
                .0;
            let field = |key: &str| {
                front
                    .lines()
                    .find_map(|line| line.strip_prefix(key))
                    .unwrap()
            };
            assert_eq!(field("name: "), name);
            assert!(field("description: ").chars().count() <= 160, "{name}");
            count += 1;
        }
        assert!(count > 0, "no skill in {}", folder.display());
    }
}
