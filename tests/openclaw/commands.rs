//! `remote-agent install`, and the command `openclaw remote-agent`, with a running gateway and a real A2A server.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use remote_agent_cli::package::Platform;
use serde_json::{Value, json};

use crate::{
    host::{Gateway, Host, TOKEN},
    http,
    node::Installed,
    server::Server,
    target_commands::*,
};

type Test = (&'static str, fn(&CommandsFixture));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&CommandsFixture))),*] };
}

/// The tests, in their order.
pub const TESTS: &[Test] = tests![
    install_stops_at_the_operators_policy
    install_adds_agent_and_sends_message
    installation_meets_no_closing_plugin
    targets_shows_the_card
    send_prints_the_reply
    unknown_alias_exits_with_usage_code
    task_without_an_option_names_the_option
    message_to_an_ended_task_shows_its_conversation
    expired_wait_exits_with_timeout_code
    unreachable_agent_is_not_added
    agent_that_requires_a_token_exits_with_auth_code
    add_changes_the_known_agent_and_finds_what_the_gateway_lacks
    add_of_a_web_page_proposes_no_force
    http_api_calls_behind_the_token_of_the_gateway
    mcp_client_finds_the_tool
    tasks_shows_what_the_gateway_delegated
    tasks_shows_what_the_agent_lists
    tasks_without_a_gateway_names_the_tried_port
    audit_without_log_explains_how_to_enable_it
    doctor_repairs_the_tool_policy
    commands_use_the_gateway_of_openclaw
    doctor_reports_clock_skew
    doctor_reports_a_library_of_another_platform
    migrate_moves_the_settings_of_an_installed_predecessor
    setting_of_one_target_is_changed
    remove_drops_the_agent
    uninstall_restores_the_configuration
    second_uninstall_changes_nothing
    bundle_offers_the_tool_over_mcp
];

/// An OpenClaw without the plugin, its running gateway, and an A2A server.
pub struct CommandsFixture {
    pub host: Host,
    pub gateway: Gateway,
    pub peer: Server,
}

impl CommandsFixture {
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
    pub fn openclaw(&self, arguments: &[&str]) -> Output {
        let all_arguments = [&["remote-agent"], arguments].concat();
        self.host.command(&all_arguments).output().unwrap()
    }
}

/// Returns the exit code, standard output and standard error.
pub fn decode_output(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Makes OpenClaw ask a program about each installation, which answers `decision`.
fn set_install_policy(fixture: &CommandsFixture, decision: &Value) {
    let program = fixture.host.state().join("policy.sh");
    fs::create_dir_all(fixture.host.state()).unwrap();
    fs::write(
        &program,
        format!("#!/bin/sh\ncat > /dev/null\necho '{decision}'\n"),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let exec = json!({"source": "exec", "command": program});
    fixture.host.edit_config(|config| {
        config["security"]["installPolicy"] = json!({"enabled": true, "exec": exec});
    });
}

/// The installations of the tests after this one pass the policy.
fn install_stops_at_the_operators_policy(fixture: &CommandsFixture) {
    let reason = "native code needs a review";
    let block = json!({"protocolVersion": 1, "decision": "block", "reason": reason});
    set_install_policy(fixture, &block);
    let (code, _, stderr) = decode_output(&fixture.remote_agent(&["install"]));
    println!("{stderr}");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains(reason), "{stderr}");
    let config = fixture.host.config();
    assert_eq!(config["plugins"]["entries"]["remote-agent"], Value::Null);
    set_install_policy(fixture, &json!({"protocolVersion": 1, "decision": "allow"}));
}

fn install_adds_agent_and_sends_message(fixture: &CommandsFixture) {
    let url = fixture.peer.url();
    let install = [
        "install",
        "--url",
        url,
        "--alias",
        "agent",
        "--allow-private",
    ];
    let (code, stdout, stderr) = decode_output(&fixture.remote_agent(&install));
    println!("{stderr}{stdout}");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("you said Hello"), "{stdout}");
    assert!(
        stderr.contains("the running gateway has the agent"),
        "{stderr}"
    );
}

fn targets_shows_the_card(fixture: &CommandsFixture) {
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["targets"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("agent (default)  OpenClaw"), "{stdout}");
}

fn send_prints_the_reply(fixture: &CommandsFixture) {
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["send", "two", "words"]));
    assert_eq!(
        (code, stdout.trim()),
        (Some(0), "you said two words"),
        "{stderr}"
    );
    assert!(stderr.contains("completed"), "{stderr}");
}

fn unknown_alias_exits_with_usage_code(fixture: &CommandsFixture) {
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["send", "--target", "other", "x"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("allowed values: [\"agent\"]"), "{stderr}");
}

fn task_without_an_option_names_the_option(fixture: &CommandsFixture) {
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["watch", "task-1"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("watch --task task-1"), "{stderr}");
}

fn message_to_an_ended_task_shows_its_conversation(fixture: &CommandsFixture) {
    let (_, stdout, _) = decode_output(&fixture.openclaw(&["send", "--json", "echo Hello"]));
    let envelope: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let continuation = &envelope["summary"]["continuation"];
    let task = continuation["task"]["task_id"].as_str().unwrap();
    let context = continuation["conversation"]["context_id"].as_str().unwrap();
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["send", "--task", task, "more"]));
    assert_eq!(code, Some(1), "{stderr}");
    let command = format!("send --target agent --context {context} 'TEXT'");
    assert!(stderr.contains(&command), "{stderr}");
}

fn expired_wait_exits_with_timeout_code(fixture: &CommandsFixture) {
    let send = ["send", "--follow", "--timeout-ms", "1000", "stream 50 200"];
    let (code, _, stderr) = decode_output(&fixture.openclaw(&send));
    assert_eq!(code, Some(5), "{stderr}");
    assert!(stderr.contains("remote-agent watch"), "{stderr}");
}

/// Serves one card with this `Date`, and refuses every other request.
fn agent_with_date(date: &'static str) -> String {
    let address = http::serve(move |request, stream| {
        let origin = format!("http://{}", stream.local_addr().unwrap());
        let card = json!({"protocolVersion": "0.3.0", "name": "Clock", "description": "", "version": "1", "url": origin,
            "capabilities": {}, "defaultInputModes": [], "defaultOutputModes": [], "skills": []});
        let (status, body) = match request.method == "GET" {
            true => ("200 OK", card.to_string()),
            false => ("404 Not Found", String::new()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ndate: {date}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        let _ = stream.write_all((head + &body).as_bytes());
    });
    format!("http://{address}")
}

fn agent_that_requires_a_token_exits_with_auth_code(fixture: &CommandsFixture) {
    let server_url = http::serve(|_, stream| {
        http::answer(stream, "401 Unauthorized", "text/plain", "a token, please");
    });
    let url = format!("http://{server_url}");
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["add", &url, "--allow-private"]));
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("`--bearer-env VAR`"), "{stderr}");
}

fn unreachable_agent_is_not_added(fixture: &CommandsFixture) {
    let add = [
        "add",
        "http://127.0.0.1:9",
        "--allow-private",
        "--alias",
        "away",
    ];
    let (code, _, stderr) = decode_output(&fixture.openclaw(&add));
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("nothing was changed"), "{stderr}");
    let (_, stdout, _) = decode_output(&fixture.openclaw(&["targets", "--json"]));
    assert!(!stdout.contains("away"), "{stdout}");
}

fn http_api_calls_behind_the_token_of_the_gateway(fixture: &CommandsFixture) {
    let post = |route: &str, token: &str, body: Value| {
        let path = format!("/remote_agent/{route}");
        http::post(fixture.gateway.address(), &path, token, &body.to_string())
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

fn mcp_client_finds_the_tool(fixture: &CommandsFixture) {
    let printed = Command::new(testkit::support::command())
        .args([
            "mcp",
            "--print-config",
            "openclaw",
            "--url",
            fixture.peer.url(),
        ])
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let file = fixture.host.state().join("mcp-patch.json");
    fs::write(&file, &printed.stdout).unwrap();
    fixture
        .host
        .cli(&["config", "patch", "--file", file.to_str().unwrap()]);
    let probed = fixture.host.cli(&["mcp", "probe", "a2a", "--json"]);
    assert!(probed.contains("a2a__remote_agent"), "{probed}");
}

fn tasks_shows_what_the_gateway_delegated(fixture: &CommandsFixture) {
    let request = json!({"action": "send", "parts": [{"kind": "text", "text": "for the list"}]});
    let envelope = fixture.gateway.envelope(request);
    let task_id = envelope["summary"]["continuation"]["task"]["task_id"].as_str();
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["tasks", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    let task = &listed["tasks"][0];
    assert_eq!(
        (task["taskId"].as_str(), &task["target"], &task["state"]),
        (task_id, &json!("agent"), &json!("completed")),
        "{listed}"
    );
}

/// The command sends with a separate instance, so the gateway has no such task.
fn tasks_shows_what_the_agent_lists(fixture: &CommandsFixture) {
    let (code, stdout, stderr) =
        decode_output(&fixture.openclaw(&["send", "--json", "beside the gateway"]));
    assert_eq!(code, Some(0), "{stderr}");
    let envelope: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let task_id = &envelope["summary"]["continuation"]["task"]["task_id"];
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["tasks", "--json"]));
    assert_eq!(code, Some(0), "{stderr}");
    let listed: Value = serde_json::from_str(&stdout).unwrap();
    let task = listed["tasks"].as_array().unwrap().iter();
    let task = task.clone().find(|task| task["taskId"] == *task_id);
    let task = task.unwrap();
    assert_eq!(task["state"], "completed", "{listed}");
    assert_eq!(task["lastWord"], "you said beside the gateway", "{listed}");
}

fn tasks_without_a_gateway_names_the_tried_port(fixture: &CommandsFixture) {
    let mut command = fixture.host.command(&["remote-agent", "tasks"]);
    let output = command.env("OPENCLAW_GATEWAY_PORT", "9").output().unwrap();
    let (_, _, stderr) = decode_output(&output);
    assert!(
        stderr.contains("no gateway answers at ws://127.0.0.1:9 "),
        "{stderr}"
    );
    assert!(
        stderr.contains("correct the environment variable `OPENCLAW_GATEWAY_PORT`"),
        "{stderr}"
    );
}

fn audit_without_log_explains_how_to_enable_it(fixture: &CommandsFixture) {
    let (code, _, stderr) = decode_output(&fixture.openclaw(&["audit"]));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("config.audit.enabled"), "{stderr}");
}

fn doctor_repairs_the_tool_policy(fixture: &CommandsFixture) {
    fixture.host.cli(&["config", "unset", "tools.alsoAllow"]);
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["doctor"]));
    println!("{stdout}");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("warn: agents do not have the tool"),
        "{stdout}"
    );
    assert!(stdout.contains("ok: `agent` at "), "{stdout}");
    let svg = anstyle_svg::Term::new().render_svg(&stdout);
    let folder = testkit::support::target().join("screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("openclaw-doctor.svg"), &svg).unwrap();
    crate::surfaces::update_docs_image("openclaw-doctor.svg", svg.as_bytes());
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["doctor", "--fix"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!stdout.contains("do not have the tool"), "{stdout}");
    let allowed = fixture
        .host
        .cli(&["config", "get", "tools.alsoAllow", "--json"]);
    assert!(allowed.contains("remote_agent"), "{allowed}");
}

/// Runs the doctor with changed settings, and restores them.
fn doctor_output(fixture: &CommandsFixture, change: impl FnOnce(&mut Value)) -> String {
    let before = fixture.host.config();
    fixture
        .host
        .edit_config(|config| change(&mut config["plugins"]["entries"]["remote-agent"]["config"]));
    let (_, stdout, stderr) = decode_output(&fixture.openclaw(&["doctor"]));
    fixture.host.edit_config(|config| *config = before);
    stdout + &stderr
}

/// Settings without an address select OpenClaw's own gateway, which has no triad.
fn commands_use_the_gateway_of_openclaw(fixture: &CommandsFixture) {
    let before = fixture.host.config();
    fixture.host.edit_config(|config| {
        config["plugins"]["entries"]["remote-agent"]["config"]["gateway"] =
            json!({"enabled": true});
    });
    let (_, doctor, doctor_errors) = decode_output(&fixture.openclaw(&["doctor"]));
    let (_, targets, errors) = decode_output(&fixture.openclaw(&["targets", "--json"]));
    fixture.host.edit_config(|config| *config = before);
    println!("{doctor}{doctor_errors}{targets}{errors}");
    let doctor = doctor + &doctor_errors;
    assert!(
        !doctor.contains("the local gateway has no token")
            && !doctor.contains("error: the gateway"),
        "{doctor}"
    );
    assert!(targets.contains("gateway:main"), "{targets}{errors}");
    assert!(!targets.contains("gateway:triad"), "{targets}");
}

fn doctor_reports_clock_skew(fixture: &CommandsFixture) {
    let url = agent_with_date("Tue, 01 Jan 2030 00:00:00 GMT");
    let output = doctor_output(fixture, |settings| {
        settings["targets"] =
            json!([{"alias": "clock", "baseUrl": url, "allowPrivateNetwork": true}]);
    });
    println!("{output}");
    let line = output.lines().find(|line| line.contains("its clock is"));
    assert!(
        line.unwrap()
            .contains("s ahead of the clock of this machine"),
        "{output}"
    );
}

fn doctor_reports_a_library_of_another_platform(fixture: &CommandsFixture) {
    let installed = "npm/projects/openclaw-remote-agent/node_modules/openclaw-remote-agent/native";
    let file = fixture
        .host
        .state()
        .join(installed)
        .join(Platform::current().library_name());
    let library = std::fs::read(&file).unwrap();
    let mut other_library = library.clone();
    // `e_machine` of ELF: a machine that no OpenClaw runs on.
    other_library[18..20].copy_from_slice(&[0x02, 0x00]);
    let replace_library = |bytes: &[u8]| {
        std::fs::remove_file(&file).unwrap();
        std::fs::write(&file, bytes).unwrap();
    };
    replace_library(&other_library);
    let (code, stdout, stderr) = decode_output(&fixture.openclaw(&["doctor"]));
    replace_library(&library);
    println!("{stdout}");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stdout.contains("error: the native library for"), "{stdout}");
    assert!(
        stdout.contains("a package built for this machine"),
        "{stdout}"
    );
}

/// OpenClaw refuses changes that halve the file, unless they ask for it.
fn uninstall_restores_the_configuration(fixture: &CommandsFixture) {
    fixture.host.edit_config(|config| {
        let target = |n: usize| json!({"alias": format!("agent-{n}"), "baseUrl": format!("https://agent-{n}.example"), "description": "x".repeat(200)});
        config["plugins"]["entries"]["remote-agent"]["config"]["targets"] = (0..8).map(target).collect();
    });
    let (code, _, stderr) = decode_output(&fixture.remote_agent(&["uninstall"]));
    assert_eq!(code, Some(0), "{stderr}");
    let config = fixture.host.config();
    assert_eq!(
        (&config["plugins"]["entries"], config.get("tools")),
        (&json!({}), None),
        "{config}"
    );
    let folder = fixture.host.state();
    let files = fs::read_dir(folder.parent().unwrap()).unwrap();
    let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.find(|name| name.contains("rejected")), None);
}

fn second_uninstall_changes_nothing(fixture: &CommandsFixture) {
    let (code, _, stderr) = decode_output(&fixture.remote_agent(&["uninstall"]));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("nothing to do: the plugin is not installed"),
        "{stderr}"
    );
}

fn bundle_offers_the_tool_over_mcp(fixture: &CommandsFixture) {
    let out = fixture.host.state().join("bundle");
    let library = crate::plugin_fixture::library();
    let root = testkit::support::root("");
    let bundled = xtask::bundle::assemble(&root, &testkit::support::command(), &library, &out);
    let directory = bundled.unwrap().directory;
    fixture.host.install(directory.to_str().unwrap());
    let data = fixture.host.state().join("plugin-data/remote-agent-mcp");
    fs::create_dir_all(&data).unwrap();
    let target = json!({"alias": "desk", "baseUrl": fixture.peer.url()});
    fs::write(
        data.join("agents.json"),
        json!({"targets": [target]}).to_string(),
    )
    .unwrap();
    let listed = fixture
        .host
        .cli(&["plugins", "inspect", "remote-agent-mcp", "--json"]);
    assert!(listed.contains("mcpServers"), "{listed}");
}
