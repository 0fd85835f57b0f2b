//! `remote-agent mcp --print-config`.

use super::*;

/// Prints the configuration for a host.
fn print_config(host: &str, flags: &[&str]) -> String {
    let output = command(&["--print-config", host])
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!output.stderr.is_empty(), "the place of the configuration");
    String::from_utf8(output.stdout).unwrap()
}

const URL: [&str; 2] = ["--url", "https://support.example"];

#[test]
fn each_host_gets_its_configuration_format() {
    let pointers = [
        ("claude-desktop", "/mcpServers/a2a"),
        ("claude-code", "/mcpServers/a2a"),
        ("cursor", "/mcpServers/a2a"),
        ("vscode", "/servers/a2a"),
        ("openclaw", "/mcp/servers/a2a"),
    ];
    for (host, pointer) in pointers {
        let config: Value = serde_json::from_str(&print_config(host, &URL)).unwrap();
        let entry = config
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{host}: {config}"));
        assert_eq!(
            entry["args"],
            json!(["mcp", "--url", "https://support.example"]),
            "{host}"
        );
        assert!(
            entry["command"].as_str().unwrap().starts_with('/'),
            "{host}"
        );
    }
    let codex = print_config("codex", &URL);
    assert!(codex.starts_with("[mcp_servers.a2a]\n"), "{codex}");
}

#[test]
fn printed_command_serves_the_tool() {
    let config: Value =
        serde_json::from_str(&print_config("cursor", &["--url", "http://127.0.0.1:9"])).unwrap();
    let arguments: Vec<&str> = config["mcpServers"]["a2a"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|argument| argument.as_str().unwrap())
        .collect();
    let mut host = Host::with_version("2025-11-25", &arguments);
    let listed = host.request("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"][0]["name"], "remote_agent");
}

#[test]
fn secrets_are_references_to_variables() {
    let flags = [&URL[..], &["--bearer-env", "SUPPORT_TOKEN"]].concat();
    let config: Value = serde_json::from_str(&print_config("claude-code", &flags)).unwrap();
    assert_eq!(
        config["mcpServers"]["a2a"]["env"],
        json!({"SUPPORT_TOKEN": "${SUPPORT_TOKEN}"})
    );
    assert!(print_config("codex", &flags).contains("env_vars = [\"SUPPORT_TOKEN\"]"));
}

#[test]
fn host_that_replaces_no_variables_gets_none() {
    let flags = [&URL[..], &["--bearer-env", "SUPPORT_TOKEN"]].concat();
    let output = command(&["--print-config", "claude-desktop"])
        .args(&flags)
        .output()
        .unwrap();
    let config: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(config["mcpServers"]["a2a"].get("env"), None, "{config}");
    let place = String::from_utf8(output.stderr).unwrap();
    assert!(place.contains(r#""SUPPORT_TOKEN": "VALUE""#), "{place}");
    let over_http = [
        "--print-config",
        "claude-desktop",
        "--listen",
        "127.0.0.1:9100",
    ];
    assert_eq!(command(&over_http).output().unwrap().status.code(), Some(2));
}

#[test]
fn secret_in_place_of_a_variable_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agents.json");
    let auth = json!({"type": "bearer", "token": {"source": "env", "id": "hunter2"}});
    let target = json!({"alias": "a", "baseUrl": "https://desk.example", "auth": auth});
    std::fs::write(&file, json!({ "targets": [target] }).to_string()).unwrap();
    for host in ["claude-desktop", "claude-code"] {
        let flags = ["--print-config", host, "--config", file.to_str().unwrap()];
        let refused = command(&flags).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{host}");
        let shown = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.stdout.is_empty() && !shown.contains("hunter2"),
            "{shown}"
        );
        for part in [
            file.to_str().unwrap(),
            "/targets/0/auth/token",
            "not its value",
        ] {
            assert!(shown.contains(part), "{shown}");
        }
    }
}

#[test]
fn server_over_http_is_named_by_its_url() {
    let config: Value =
        serde_json::from_str(&print_config("openclaw", &["--listen", "127.0.0.1:9100"])).unwrap();
    let entry = &config["mcp"]["servers"]["a2a"];
    assert_eq!(entry["url"], "http://127.0.0.1:9100/mcp");
    assert_eq!(entry["transport"], "streamable-http");
}

#[test]
fn missing_agent_is_a_usage_error() {
    let output = command(&["--print-config", "cursor"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn credentials_in_a_url_are_not_printed() {
    let flags = [
        "--print-config",
        "cursor",
        "--url",
        "https://user:s3cret@support.example",
    ];
    let refused = command(&flags).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let output = format!("{refused:?}");
    assert!(!output.contains("s3cret"), "{output}");
}

#[test]
fn settings_of_openclaw_are_named_by_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let reference = |id: &str| json!({"source": "env", "id": id});
    let target = |alias: &str, id: &str| json!({"alias": alias, "baseUrl": "https://desk.example", "auth": {"type": "bearer", "token": reference(id)}});
    let settings = json!({"targets": [target("a", "OF_THE_HOST"), target("b", "OF_DOTENV")]});
    let host = json!({"plugins": {"entries": {"remote-agent": {"config": settings}}}});
    let file = folder.path().join("openclaw.json");
    std::fs::write(&file, host.to_string()).unwrap();
    std::fs::write(folder.path().join(".env"), "OF_DOTENV=s3cret\n").unwrap();
    let named = format!("--openclaw={}", file.display());
    let config = print_config("claude-code", &[&named]);
    let config: Value = serde_json::from_str(&config).unwrap();
    let entry = &config["mcpServers"]["a2a"];
    assert_eq!(entry["args"], json!(["mcp", named]));
    assert_eq!(entry["env"], json!({"OF_THE_HOST": "${OF_THE_HOST}"}));
}
