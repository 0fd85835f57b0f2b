//! `openclaw remote-agent add` and `migrate`, with a running gateway.

use std::fs;

use serde_json::{Value, json};

use crate::{
    commands::{CommandsFixture, decode_output},
    http,
};

/// The id of the predecessor.
const LEGACY: &str = "openclaw-a2a-outbound";

/// Returns the configured targets.
fn targets(fixture: &CommandsFixture) -> Value {
    fixture.host.config()["plugins"]["entries"]["remote-agent"]["config"]["targets"].clone()
}

/// Changes the configuration, and waits until the gateway has applied the change.
fn configure(fixture: &CommandsFixture, change: impl FnOnce(&mut Value)) {
    let from = fixture.gateway.output.len();
    fixture.host.edit_config(change);
    let is_applied = |line: &String| line.contains("config hot reload applied");
    let output = &fixture.gateway.output;
    output.wait_from(from, "the new configuration to be applied", is_applied);
}

pub fn installation_meets_no_closing_plugin(fixture: &CommandsFixture) {
    let is_refusal = |line: &String| line.contains("PluginInstanceUnavailableError");
    assert_eq!(fixture.gateway.output.all(is_refusal), [""; 0]);
}

pub fn add_changes_the_known_agent_and_finds_what_the_gateway_lacks(fixture: &CommandsFixture) {
    let before = fixture.host.config();
    let card = format!("{}/.well-known/agent-card.json", fixture.peer.url());
    let add = ["remote-agent", "add", &card, "--bearer-env", "DESK_TOKEN"];
    let mut command = fixture.host.command(&add);
    let output = command.env("DESK_TOKEN", "desk-token").output().unwrap();
    let (code, _, stderr) = decode_output(&output);
    println!("{stderr}");
    let token = json!({"source": "env", "provider": "default", "id": "DESK_TOKEN"});
    let mut changed = before["plugins"]["entries"]["remote-agent"]["config"]["targets"].clone();
    changed[0]["auth"] = json!({"type": "bearer", "token": token});
    assert_eq!(targets(fixture), changed, "{stderr}");
    assert!(stderr.contains("is already `agent`"), "{stderr}");
    let missing = "The gateway does not have DESK_TOKEN: add it to ";
    assert!(stderr.contains(missing), "{stderr}");
    assert_eq!(code, Some(2), "{stderr}");
    configure(fixture, |config| *config = before);
}

pub fn add_of_a_web_page_proposes_no_force(fixture: &CommandsFixture) {
    let page = http::serve(|_, stream| {
        http::answer(stream, "200 OK", "text/html", "<!doctype html><p>Hello");
    });
    let url = format!("http://{page}");
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["add", &url, "--allow-private"]));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("there is no agent at"), "{stderr}");
    assert!(!stderr.contains("--force"), "{stderr}");
}

/// Installs a plugin with the id of the predecessor, with one target.
fn install_predecessor(fixture: &CommandsFixture) {
    let directory = fixture.host.state().join("predecessor");
    fs::create_dir_all(&directory).unwrap();
    let manifest = json!({"id": LEGACY, "name": "Old", "description": "Old.", "version": "1.0.0", "configSchema": {"type": "object"}});
    let package = json!({"name": LEGACY, "version": "1.0.0", "type": "module", "main": "./index.js", "openclaw": {"extensions": ["./index.js"]}});
    let entry = format!(
        r#"export default {{ id: "{LEGACY}", name: "Old", description: "Old.", register() {{}} }};"#
    );
    for (name, content) in [
        ("openclaw.plugin.json", manifest.to_string()),
        ("package.json", package.to_string()),
        ("index.js", entry),
    ] {
        fs::write(directory.join(name), content).unwrap();
    }
    fixture.host.install(directory.to_str().unwrap());
    let target = json!({"alias": "old", "baseUrl": "https://old.example"});
    fixture.host.edit_config(|config| {
        config["plugins"]["entries"][LEGACY] =
            json!({"enabled": true, "config": {"targets": [target]}});
    });
}

pub fn migrate_moves_the_settings_of_an_installed_predecessor(fixture: &CommandsFixture) {
    install_predecessor(fixture);
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["migrate"]));
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("with `old`"), "{stdout}{stderr}");
    assert_eq!(targets(fixture)[1]["alias"], "old");
    fixture
        .host
        .cli(&["plugins", "uninstall", LEGACY, "--force"]);
    let (_, stdout, stderr) = decode_output(&fixture.openclaw(&["remove", "old"]));
    assert!(!(stdout + &stderr).contains("unfinished"));
    let entries = &fixture.host.config()["plugins"]["entries"];
    assert_eq!(entries[LEGACY].get("config"), None, "{entries}");
    fixture
        .host
        .cli(&["config", "unset", &format!("plugins.entries.{LEGACY}")]);
}

pub fn setting_of_one_target_is_changed(fixture: &CommandsFixture) {
    let place = "plugins.entries.remote-agent.config.targets[0].approval";
    let set = ["config", "set", place, "\"first\"", "--strict-json"];
    let output = fixture.host.command(&set).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(targets(fixture)[0]["approval"], "first");
}

pub fn remove_drops_the_agent(fixture: &CommandsFixture) {
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["remove", "agent"]));
    assert_eq!(code, Some(0), "{stderr}");
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["remove", "agent"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("no target has that alias"), "{stderr}");
}
