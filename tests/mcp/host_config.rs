//! `remote-agent mcp --print-config`.

use super::*;

/// Returns the output of the command for a host.
fn printed(host: &str, flags: &[&str]) -> String {
    let printed = command(&["--print-config", host])
        .args(flags)
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    assert!(!printed.stderr.is_empty(), "the place of the configuration");
    String::from_utf8(printed.stdout).unwrap()
}

const URL: [&str; 2] = ["--url", "https://support.example"];

#[test]
fn hosts_get_their_own_form() {
    let places = [
        ("claude-desktop", "/mcpServers/a2a"),
        ("claude-code", "/mcpServers/a2a"),
        ("cursor", "/mcpServers/a2a"),
        ("vscode", "/servers/a2a"),
        ("openclaw", "/mcp/servers/a2a"),
    ];
    for (host, place) in places {
        let config: Value = serde_json::from_str(&printed(host, &URL)).unwrap();
        let entry = config
            .pointer(place)
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
    let codex = printed("codex", &URL);
    assert!(codex.starts_with("[mcp_servers.a2a]\n"), "{codex}");
}

#[test]
fn printed_command_serves_the_tool() {
    let config: Value =
        serde_json::from_str(&printed("cursor", &["--url", "http://127.0.0.1:9"])).unwrap();
    let arguments: Vec<&str> = config["mcpServers"]["a2a"]["args"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|argument| argument.as_str().unwrap())
        .collect();
    let mut host = Host::of_version("2025-11-25", &arguments);
    let listed = host.request("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"][0]["name"], "remote_agent");
}

#[test]
fn secrets_are_references_to_variables() {
    let flags = [&URL[..], &["--bearer-env", "SUPPORT_TOKEN"]].concat();
    let config: Value = serde_json::from_str(&printed("claude-code", &flags)).unwrap();
    assert_eq!(
        config["mcpServers"]["a2a"]["env"],
        json!({"SUPPORT_TOKEN": "${SUPPORT_TOKEN}"})
    );
    assert!(printed("codex", &flags).contains("env_vars = [\"SUPPORT_TOKEN\"]"));
}

#[test]
fn server_over_http_is_named_by_its_url() {
    let config: Value =
        serde_json::from_str(&printed("openclaw", &["--listen", "127.0.0.1:9100"])).unwrap();
    let entry = &config["mcp"]["servers"]["a2a"];
    assert_eq!(entry["url"], "http://127.0.0.1:9100/mcp");
    assert_eq!(entry["transport"], "streamable-http");
}

#[test]
fn missing_agent_is_a_usage_error() {
    let printed = command(&["--print-config", "cursor"]).output().unwrap();
    assert_eq!(printed.status.code(), Some(2));
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
    let shown = format!("{refused:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}
