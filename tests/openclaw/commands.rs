//! `remote-agent install`, and the command `openclaw remote-agent`, with a running gateway and a real A2A server.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use remote_agent_cli::package;
use serde_json::{Value, json};

use crate::{
    host::{Gateway, Host, TOKEN},
    http,
    node::Installed,
    server::Server,
};

type Test = (&'static str, fn(&Setup));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&Setup))),*] };
}

/// The tests, in the order they run in.
pub const TESTS: &[Test] = tests![
    install_stops_at_the_operators_policy
    install_adds_agent_and_sends_message
    targets_shows_the_card
    send_prints_the_reply
    unknown_alias_exits_with_usage_code
    unreachable_agent_is_not_added
    http_api_calls_behind_the_token_of_the_gateway
    mcp_client_finds_the_tool
    tasks_shows_what_the_gateway_delegated
    tasks_shows_what_the_agent_lists
    audit_without_log_says_how_to_enable_it
    doctor_repairs_the_tool_policy
    remove_drops_the_agent
    uninstall_restores_the_configuration
    bundle_offers_the_tool_over_mcp
];

/// An OpenClaw without the plugin, its running gateway, and an A2A server.
pub struct Setup {
    host: Host,
    gateway: Gateway,
    peer: Server,
}

impl Setup {
    /// Starts the gateway and the server.
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-commands");
        let config = json!({"agents": {"defaults": {"skipBootstrap": true}}});
        let host = Host::new(installed, &scratch, &config, &[]);
        let gateway = host.boot();
        let peer = Server::scripted(&[]);
        Self {
            host,
            gateway,
            peer,
        }
    }

    /// Runs `remote-agent` with this OpenClaw.
    fn remote_agent(&self, arguments: &[&str]) -> Output {
        Command::new(testkit::support::command())
            .args(arguments)
            .arg("--openclaw")
            .arg(self.host.executable())
            .envs(self.host.variables())
            .output()
            .unwrap()
    }

    /// Runs `openclaw remote-agent`.
    fn openclaw(&self, arguments: &[&str]) -> Output {
        let all = [&["remote-agent"], arguments].concat();
        self.host.command(&all).output().unwrap()
    }
}

/// Returns the exit code, standard output and standard error.
fn parts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Makes OpenClaw ask a program about each installation, which answers `decision`.
fn set_install_policy(setup: &Setup, decision: &Value) {
    let program = setup.host.state().join("policy.sh");
    fs::create_dir_all(setup.host.state()).unwrap();
    fs::write(
        &program,
        format!("#!/bin/sh\ncat > /dev/null\necho '{decision}'\n"),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let exec = json!({"source": "exec", "command": program});
    setup.host.edit_config(|config| {
        config["security"]["installPolicy"] = json!({"enabled": true, "exec": exec});
    });
}

/// The installations of the tests after this one pass the policy.
fn install_stops_at_the_operators_policy(setup: &Setup) {
    let reason = "native code needs a review";
    let block = json!({"protocolVersion": 1, "decision": "block", "reason": reason});
    set_install_policy(setup, &block);
    let (code, _, stderr) = parts(&setup.remote_agent(&["install"]));
    println!("{stderr}");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(reason), "{stderr}");
    let config = setup.host.config();
    assert_eq!(config["plugins"]["entries"]["remote-agent"], Value::Null);
    set_install_policy(setup, &json!({"protocolVersion": 1, "decision": "allow"}));
}

fn install_adds_agent_and_sends_message(setup: &Setup) {
    let install = ["install", "--url", setup.peer.url(), "--allow-private"];
    let (code, stdout, stderr) = parts(&setup.remote_agent(&install));
    println!("{stderr}{stdout}");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("you said Hello"), "{stdout}");
    assert!(
        stderr.contains("the running gateway has the agent"),
        "{stderr}"
    );
}

fn targets_shows_the_card(setup: &Setup) {
    let (code, stdout, stderr) = parts(&setup.openclaw(&["targets"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("agent (default)  OpenClaw"), "{stdout}");
}

fn send_prints_the_reply(setup: &Setup) {
    let (code, stdout, stderr) = parts(&setup.openclaw(&["send", "two", "words"]));
    assert_eq!(
        (code, stdout.trim()),
        (Some(0), "you said two words"),
        "{stderr}"
    );
    assert!(stderr.contains("completed"), "{stderr}");
}

fn unknown_alias_exits_with_usage_code(setup: &Setup) {
    let (code, _, stderr) = parts(&setup.openclaw(&["send", "--target", "other", "x"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("allowed values: [\"agent\"]"), "{stderr}");
}

fn unreachable_agent_is_not_added(setup: &Setup) {
    let add = [
        "add",
        "http://127.0.0.1:9",
        "--allow-private",
        "--alias",
        "away",
    ];
    let (code, _, stderr) = parts(&setup.openclaw(&add));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    let (_, stdout, _) = parts(&setup.openclaw(&["targets", "--json"]));
    assert!(!stdout.contains("away"), "{stdout}");
}

fn http_api_calls_behind_the_token_of_the_gateway(setup: &Setup) {
    let post = |route: &str, token: &str, body: Value| {
        let path = format!("/remote_agent/{route}");
        http::post(setup.gateway.address(), &path, token, &body.to_string())
    };
    let parts = json!([{"kind": "text", "text": "over HTTP"}]);
    let send = json!({"app": "agent", "action": "send", "input": {"parts": parts}});
    let (status, body) = post("write", TOKEN, send.clone());
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["isError"], false);
    assert_eq!(
        body["data"]["summary"]["message_text"], "you said over HTTP",
        "{body}"
    );
    assert_eq!(post("write", "wrong", send.clone()).0, 401);
    let (status, body) = post("read", TOKEN, send);
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("\"WRONG_KIND\""), "{body}");
}

fn mcp_client_finds_the_tool(setup: &Setup) {
    let printed = Command::new(testkit::support::command())
        .args([
            "mcp",
            "--print-config",
            "openclaw",
            "--url",
            setup.peer.url(),
        ])
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let file = setup.host.state().join("mcp-patch.json");
    fs::write(&file, &printed.stdout).unwrap();
    setup
        .host
        .cli(&["config", "patch", "--file", file.to_str().unwrap()]);
    let probed = setup.host.cli(&["mcp", "probe", "a2a", "--json"]);
    assert!(probed.contains("a2a__remote_agent"), "{probed}");
}

fn tasks_shows_what_the_gateway_delegated(setup: &Setup) {
    let request = json!({"action": "send", "parts": [{"kind": "text", "text": "for the list"}]});
    let envelope = setup.gateway.envelope(request);
    let task_id = envelope["summary"]["continuation"]["task"]["task_id"].as_str();
    let (code, stdout, stderr) = parts(&setup.openclaw(&["tasks", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    let task = &listed["tasks"][0];
    assert_eq!(
        (task["taskId"].as_str(), &task["target"], &task["state"]),
        (task_id, &json!("agent"), &json!("completed")),
        "{listed}"
    );
}

/// The command sends with an instance of its own, so the gateway does not know the task.
fn tasks_shows_what_the_agent_lists(setup: &Setup) {
    let (code, stdout, stderr) = parts(&setup.openclaw(&["send", "--json", "beside the gateway"]));
    assert_eq!(code, Some(0), "{stderr}");
    let envelope: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let task_id = &envelope["summary"]["continuation"]["task"]["task_id"];
    let (code, stdout, stderr) = parts(&setup.openclaw(&["tasks", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    let task = listed["tasks"].as_array().unwrap().iter();
    let task = task.clone().find(|task| task["taskId"] == *task_id);
    assert_eq!(task.unwrap()["state"], "completed", "{listed}");
}

fn audit_without_log_says_how_to_enable_it(setup: &Setup) {
    let (code, _, stderr) = parts(&setup.openclaw(&["audit"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("config.audit.enabled"), "{stderr}");
}

fn doctor_repairs_the_tool_policy(setup: &Setup) {
    setup.host.cli(&["config", "unset", "tools.alsoAllow"]);
    let (code, stdout, stderr) = parts(&setup.openclaw(&["doctor"]));
    println!("{stdout}");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("warn: agents do not have the tool"),
        "{stdout}"
    );
    assert!(stdout.contains("ok: `agent` at "), "{stdout}");
    let picture = anstyle_svg::Term::new().render_svg(&stdout);
    let folder = testkit::support::target().join("screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("openclaw-doctor.svg"), picture).unwrap();
    let (code, stdout, stderr) = parts(&setup.openclaw(&["doctor", "--fix"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stdout.contains("do not have the tool"), "{stdout}");
    let allowed = setup
        .host
        .cli(&["config", "get", "tools.alsoAllow", "--json"]);
    assert!(allowed.contains("remote_agent"), "{allowed}");
}

fn remove_drops_the_agent(setup: &Setup) {
    let (code, _, stderr) = parts(&setup.openclaw(&["remove", "agent"]));
    assert_eq!(code, Some(0), "{stderr}");
    let (code, _, stderr) = parts(&setup.openclaw(&["remove", "agent"]));
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("no target has that alias"), "{stderr}");
}

fn uninstall_restores_the_configuration(setup: &Setup) {
    let (code, _, stderr) = parts(&setup.remote_agent(&["uninstall"]));
    assert_eq!(code, Some(0), "{stderr}");
    let config = setup.host.config();
    assert_eq!(
        (&config["plugins"]["entries"], config.get("tools")),
        (&json!({}), None),
        "{config}"
    );
}

fn bundle_offers_the_tool_over_mcp(setup: &Setup) {
    let out = setup.host.state().join("bundle");
    let library = crate::world::library();
    let root = testkit::support::root("");
    let bundled = package::bundle(&root, &testkit::support::command(), &library, &out);
    let directory = bundled.unwrap().directory;
    setup.host.install(directory.to_str().unwrap());
    let data = setup.host.state().join("plugin-data/remote-agent-mcp");
    fs::create_dir_all(&data).unwrap();
    let target = json!({"alias": "desk", "baseUrl": setup.peer.url()});
    fs::write(
        data.join("agents.json"),
        json!({"targets": [target]}).to_string(),
    )
    .unwrap();
    let listed = setup
        .host
        .cli(&["plugins", "inspect", "remote-agent-mcp", "--json"]);
    assert!(listed.contains("mcpServers"), "{listed}");
}
