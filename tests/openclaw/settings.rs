//! Reloads of the plugin, edits of its settings, and other configurations.

use serde_json::json;

use crate::{
    plugin_fixture::{PluginFixture, plugin_settings},
    process, send,
};

pub fn reload_keeps_one_image_and_leaves_no_thread(fixture: &PluginFixture) {
    let pid = fixture.gateway.pid();
    fixture.gateway.envelope(send("before the reload"));
    assert!(process::plugin_threads(pid) > 0);
    fixture.socket.request(
        "plugins.reload",
        json!({"plugins": [{"pluginId": "remote-agent"}]}),
    );
    process::wait_for_no_plugin_thread(pid);
    fixture.gateway.envelope(send("after the reload"));
    assert_eq!(process::images(pid), 1);
}

pub fn edited_settings_apply_and_keep_one_image(fixture: &PluginFixture) {
    let pid = fixture.gateway.pid();
    let mut settings = plugin_settings(&fixture.peer);
    settings["targets"][0]["alias"] = json!("renamed");
    fixture.gateway.envelope(send("before the edit"));
    fixture.settings(&settings);
    process::wait_for_no_plugin_thread(pid);
    let envelope = fixture.gateway.envelope(json!({"action": "list_targets"}));
    assert_eq!(
        envelope["summary"]["targets"][0]["target_alias"], "renamed",
        "{envelope}"
    );
    assert_eq!(process::images(pid), 1);
}

pub fn edited_settings_keep_handles_and_tasks(fixture: &PluginFixture) {
    let mut settings = plugin_settings(&fixture.peer);
    settings["targets"][0]["description"] = json!("before the edit");
    fixture.settings(&settings);
    let mut request = send("later, after an edit");
    request["timeout_ms"] = json!(500);
    let sent = fixture.gateway.envelope(request);
    let task = &sent["summary"]["continuation"]["task"];
    let handle = task["task_handle"].as_str().unwrap();
    settings["targets"][0]["description"] = json!("after the edit");
    fixture.settings(&settings);
    let status = json!({"action": "status", "task_handle": handle});
    let envelope = fixture.gateway.envelope(status);
    assert_eq!(
        envelope["summary"]["continuation"]["task"]["task_id"], task["task_id"],
        "{envelope}"
    );
    let listed = fixture.socket.request("remoteAgent.tasks", json!({}));
    let tasks = listed["tasks"].as_array().unwrap();
    assert!(
        tasks
            .iter()
            .any(|listed| listed["taskId"] == task["task_id"]),
        "{listed}"
    );
}

pub fn tool_is_absent_unless_enabled(fixture: &PluginFixture) {
    let mut settings = plugin_settings(&fixture.peer);
    settings["enabled"] = json!(false);
    let line = fixture.settings_until(&settings, "remote_agent is switched off");
    assert!(
        line.contains("plugins.entries.remote-agent.config.enabled is not true"),
        "{line}"
    );
    let (status, answer) = fixture.gateway.invoke(json!({"action": "list_targets"}));
    assert_eq!(status, 404, "{answer}");
    process::wait_for_no_plugin_thread(fixture.gateway.pid());
}

pub fn invalid_settings_are_logged_with_their_place(fixture: &PluginFixture) {
    let mut settings = plugin_settings(&fixture.peer);
    let duplicate = settings["targets"][0].clone();
    settings["targets"].as_array_mut().unwrap().push(duplicate);
    let line = fixture.settings_until(&settings, "remote_agent is not available");
    assert!(
        line.contains("plugins.entries.remote-agent.config is not valid")
            && line.contains("/targets/1/alias"),
        "{line}"
    );
    assert_eq!(
        fixture.gateway.invoke(json!({"action": "list_targets"})).0,
        404
    );
}

pub fn settings_of_the_legacy_id_apply(fixture: &PluginFixture) {
    let settings =
        json!({"enabled": true, "targets": [{"alias": "legacy", "baseUrl": fixture.peer.url()}]});
    fixture.configure(|entries| {
        *entries = json!({"openclaw-a2a-outbound": {"enabled": true, "config": settings}, "remote-agent": {"enabled": true}});
    });
    let envelope = fixture.gateway.envelope(json!({"action": "list_targets"}));
    assert_eq!(
        envelope["summary"]["targets"][0]["target_alias"], "legacy",
        "{envelope}"
    );
}

pub fn directory_installs_over_the_tarball(fixture: &PluginFixture) {
    fixture.settings(&plugin_settings(&fixture.peer));
    fixture
        .host
        .install(fixture.packaged.directory.to_str().unwrap());
    assert!(
        fixture
            .host
            .state()
            .join("extensions/remote-agent/index.js")
            .is_file()
    );
    let envelope = fixture.gateway.envelope(send("from the directory"));
    assert_eq!(envelope["ok"], true, "{envelope}");
}
