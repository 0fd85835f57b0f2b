//! An OpenClaw without the plugin, whose agents call the tool over MCP: from a configured server and from the bundle.

use std::{fs, path::Path, sync::Arc};

use serde_json::json;

use crate::{
    host::Host,
    model::{self, Model},
    node::Installed,
    plugin_fixture,
    server::Server,
};

/// The model calls both tools, and reads the fenced answers of a real A2A server.
pub fn agent_turns_call_the_tool_over_mcp(installed: Arc<Installed>) {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-mcp");
    let (model, peer) = (
        Model::start(),
        Server::scripted(&["--task-store", "memory"]),
    );
    let config = plugin_fixture::model_config(&model);
    let host = Host::new(installed, &scratch.join("host"), &config, &[]);

    let command = testkit::support::command();
    let added = host.cli(&[
        "mcp",
        "add",
        "desk",
        "--command",
        command.to_str().unwrap(),
        "--arg",
        "mcp",
        "--arg",
        "--url",
        "--arg",
        peer.url(),
    ]);
    println!("{added}");
    let root = testkit::support::root("");
    let bundle =
        xtask::bundle::assemble(&root, &command, &plugin_fixture::library(), &scratch).unwrap();
    host.install(bundle.directory.to_str().unwrap());
    let data = host.state().join("plugin-data/remote-agent-mcp");
    fs::create_dir_all(&data).unwrap();
    let target = json!({"alias": "desk", "baseUrl": peer.url(), "default": true});
    let agents = json!({"targets": [target]});
    fs::write(data.join("agents.json"), agents.to_string()).unwrap();

    let gateway = host.boot();
    let socket = gateway.socket();
    for server in ["desk", "a2a"] {
        let text = format!("echo through {server}");
        let call = json!({"action": "send", "parts": [{"kind": "text", "text": text}]});
        let message = format!("{server}__remote_agent CALL {call}");
        socket.run(&format!("agent:main:{server}"), &message);
        let result = model::tool_result(&model.request_with_result(&text)).unwrap();
        println!("the result over MCP as the model reads it: {result}");
        assert!(result.contains("send: task completed"), "{result}");
        let (_, fenced) = result.split_once("<<<EXTERNAL_UNTRUSTED_CONTENT").unwrap();
        assert!(fenced.contains(&format!("through {server}")), "{result}");
    }
}
