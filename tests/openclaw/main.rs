//! The plugin in a real OpenClaw: installed, inspected, called directly and by an agent, reloaded and reconfigured.
//!
//! Groups of these tests share a gateway each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

mod approval;
#[allow(dead_code, reason = "the tests of credentials use the rest")]
#[path = "../credentials/authorization_server.rs"]
mod authorization_server;
mod calls;
#[allow(dead_code, reason = "other tests press keys and click")]
#[path = "../serve/chromium.rs"]
mod chromium;
mod commands;
mod files;
mod first_agent;
mod gateway_fixture;
mod gateway_runs;
mod gateway_triad;
mod groups;
mod javascript;
mod mcp;
mod model;
mod notify;
mod operator;
mod peer;
mod person;
mod plugin_fixture;
mod process;
mod registry;
mod serve_fixture;
mod serve_runs;
mod settings;
mod several;
mod sign_in;
mod subagent;
mod surfaces;
mod target_commands;
mod telegram;

use std::{process::ExitCode, sync::Arc};

use calls::{
    direct_call_answers, refused_direct_call_is_an_envelope, secret_reference_arrives_resolved,
    secret_reference_in_a_header_arrives_resolved, trace_of_the_run_reaches_the_agent,
};
use commands::CommandsFixture;
use files::{file_outside_of_the_workspace_is_refused, files_are_sent_by_path_in_both_directions};
use first_agent::FirstAgent;
use gateway_fixture::GatewayFixture;
use groups::{Fixture, Groups};
use javascript::{javascript_checks_pass, javascript_has_no_type_errors};
use libtest_mimic::Arguments;
use node::Installed;
use notify::NotifyFixture;
use operator::OperatorFixture;
use peer::{PeerEvent, answer_text};
use plugin_fixture::PluginFixture;
use remote_agent_cli::package::Platform;
use serde_json::{Value, json};
use serve_fixture::OpenClawPair;
use settings::{
    directory_installs_over_the_tarball, edited_settings_apply_and_keep_one_image,
    edited_settings_keep_handles_and_tasks, invalid_settings_are_logged_with_their_place,
    reload_keeps_one_image_and_leaves_no_thread, settings_of_the_legacy_id_apply,
    tool_is_absent_unless_enabled,
};
use testkit::support::{self, host, http, journal, node, sdk, serve as server, socket};

const OPENCLAW_PACKAGE: &str = "openclaw@2026.9.6";

/// Returns the package of OpenClaw: the pinned one, or the version that `.ci/newest-openclaw` names.
fn openclaw_package() -> String {
    let version = std::env::var("OPENCLAW_VERSION");
    version.map_or_else(
        |_| OPENCLAW_PACKAGE.to_owned(),
        |version| format!("openclaw@{version}"),
    )
}

type Test = (&'static str, fn(&PluginFixture));

macro_rules! tests {
    ($($name:ident)*) => { [$((stringify!($name), $name as fn(&PluginFixture))),*] };
}

/// The tests of the installed plugin, in order. Those that change its configuration are last.
const TESTS: [Test; 23] = tests![
    tarball_omits_development_files
    registration_starts_no_thread
    inspect_shows_the_tool
    direct_call_answers
    secret_reference_arrives_resolved
    secret_reference_in_a_header_arrives_resolved
    refused_direct_call_is_an_envelope
    agent_turn_calls_the_tool_and_reads_its_result
    trace_of_the_run_reaches_the_agent
    files_are_sent_by_path_in_both_directions
    file_outside_of_the_workspace_is_refused
    skill_is_offered_to_the_model
    empty_arguments_of_a_model_are_dropped
    updates_reach_the_gateway_while_the_call_runs
    handle_of_an_agent_turn_works_in_a_direct_call
    abort_ends_the_call_at_the_peer
    reload_keeps_one_image_and_leaves_no_thread
    edited_settings_apply_and_keep_one_image
    edited_settings_keep_handles_and_tasks
    tool_is_absent_unless_enabled
    invalid_settings_are_logged_with_their_place
    settings_of_the_legacy_id_apply
    directory_installs_over_the_tarball
];

fn send(text: &str) -> Value {
    json!({"action": "send", "target_alias": "peer", "parts": [{"kind": "text", "text": text}]})
}

/// Returns the content of the fence in a text for a model.
fn fence_content(text: &str) -> &str {
    let content = || {
        let (_, rest) = text.split_once("<<<EXTERNAL_UNTRUSTED_CONTENT id=\"")?;
        let (id, rest) = rest.split_once("\">>>\n")?;
        let end = format!("\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"{id}\">>>");
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        assert!(id.len() == 8 && id.chars().all(hex), "{id}");
        rest.strip_suffix(&end)
    };
    content().unwrap_or_else(|| panic!("no fence in {text}"))
}

fn remote_agent_tool(request: &Value) -> Option<&Value> {
    request["tools"]
        .as_array()?
        .iter()
        .find(|tool| tool["function"]["name"] == "remote_agent")
}

// ---- installation -----------------------------------------------------------------------------------------------------

fn tarball_omits_development_files(fixture: &PluginFixture) {
    let installed = fixture
        .host
        .state()
        .join("npm/projects/openclaw-remote-agent/node_modules/openclaw-remote-agent");
    assert!(
        installed
            .join("native")
            .join(Platform::current().library_name())
            .is_file()
    );
    assert!(!installed.join("test").exists());
}

fn inspect_shows_the_tool(fixture: &PluginFixture) {
    let inspected: Value = serde_json::from_str(&fixture.host.cli(&[
        "plugins",
        "inspect",
        "remote-agent",
        "--runtime",
        "--json",
    ]))
    .unwrap();
    let plugin = &inspected["plugin"];
    assert_eq!(
        (&plugin["status"], &plugin["toolNames"]),
        (&json!("loaded"), &json!(["remote_agent"])),
        "{plugin}"
    );
}

fn registration_starts_no_thread(fixture: &PluginFixture) {
    assert_eq!(
        (
            process::images(fixture.gateway.pid()),
            process::plugin_threads(fixture.gateway.pid())
        ),
        (1, 0)
    );
}

// ---- agent turns ------------------------------------------------------------------------------------------------------

fn agent_turn_calls_the_tool_and_reads_its_result(fixture: &PluginFixture) {
    let request = fixture.run_turn(
        "agent:main:turn",
        "look at the logs",
        &send("look at the logs"),
    );
    let tool = remote_agent_tool(&request).expect("the tool is in the model's list");
    println!("the tool as the model sees it: {tool:#}");
    let result = model::tool_result(&request).unwrap();
    println!("the result as the model reads it: {result}");
    assert_eq!(
        tool["function"]["parameters"]["required"],
        json!(["action"])
    );
    assert!(
        result.starts_with("send: task completed\nagent: peer\n<<<"),
        "{result}"
    );
    assert!(
        fence_content(&result).contains(&answer_text("look at the logs")),
        "{result}"
    );
}

fn skill_is_offered_to_the_model(fixture: &PluginFixture) {
    let request = fixture.run_turn(
        "agent:main:skill",
        "which skills are there",
        &send("which skills are there"),
    );
    let prompt = request["messages"][0]["content"].to_string();
    assert!(prompt.contains("skills/remote-agent/SKILL.md"), "{prompt}");
}

fn empty_arguments_of_a_model_are_dropped(fixture: &PluginFixture) {
    let mut arguments = send("ignore what is empty");
    arguments["task_handle"] = json!("");
    arguments["timeout_ms"] = Value::Null;
    let request = fixture.run_turn("agent:main:empty", "ignore what is empty", &arguments);
    let result = model::tool_result(&request).unwrap();
    assert!(
        result.contains(&answer_text("ignore what is empty")),
        "{result}"
    );
}

fn updates_reach_the_gateway_while_the_call_runs(fixture: &PluginFixture) {
    let mut arguments = send("go step by step");
    arguments["follow_updates"] = json!(true);
    let run = fixture
        .socket
        .start("agent:main:updates", &format!("CALL {arguments}"));
    fixture.socket.end_of(&run);
    let updates = fixture.socket.tool_events(&run, "update");
    let states: Vec<_> = updates
        .iter()
        .map(|update| &update["partialResult"]["details"]["phase"])
        .collect();
    assert!(
        states.len() >= 2 && states.iter().all(|phase| *phase == "update"),
        "{updates:?}"
    );
    let texts = updates
        .iter()
        .map(|update| &update["partialResult"]["content"][0]["text"]);
    let is_in_progress = |text: &Value| text.as_str().unwrap().starts_with("send under way: task ");
    assert!(texts.clone().all(is_in_progress), "{updates:?}");
}

fn handle_of_an_agent_turn_works_in_a_direct_call(fixture: &PluginFixture) {
    let request = fixture.run_turn("agent:main:handle", "work on it", &send("work on it"));
    let result = model::tool_result(&request).unwrap();
    let handle = result
        .lines()
        .find_map(|line| line.strip_prefix("task_handle: "));
    let handle = handle.unwrap_or_else(|| panic!("no handle in {result}"));
    let status = fixture
        .gateway
        .envelope(json!({"action": "status", "task_handle": handle}));
    assert_eq!(
        (&status["ok"], &status["raw"]["id"]),
        (&json!(true), &json!("work on it")),
        "{status}"
    );
}

fn abort_ends_the_call_at_the_peer(fixture: &PluginFixture) {
    let session = "agent:main:abort";
    let run = fixture
        .socket
        .start(session, &format!("CALL {}", send("hold the line")));
    fixture.peer.call("hold the line");
    fixture
        .socket
        .request("sessions.abort", json!({"key": session, "runId": run}));
    fixture.peer.events.wait(
        "the caller to disconnect",
        |event| matches!(event, PeerEvent::Disconnected(text) if text == "hold the line"),
    );
    assert_eq!(fixture.socket.end_of(&run)["summary"], "aborted");
}

fn main() -> ExitCode {
    let installed = groups::fixture(|| Arc::new(node::install("openclaw", &[&openclaw_package()])));
    // A fixture that needs an OpenClaw: if that cannot be installed, its tests fail at once.
    fn with_openclaw<T: 'static>(
        installed: &Fixture<Arc<Installed>>,
        start: fn(Arc<Installed>) -> T,
    ) -> Fixture<T> {
        let installed = Arc::clone(installed);
        groups::fixture(move || start(Arc::clone(&installed)))
    }
    let mut groups = Groups::default();

    groups.begin();
    let notify = with_openclaw(&installed, NotifyFixture::start);
    groups.tests("notify::", notify::TESTS, &notify);
    groups.tests("person::", person::TESTS, &notify);
    groups.tests("person::", sign_in::TESTS, &notify);
    groups.tests("subagent::", subagent::TESTS, &notify);
    drop(notify);

    groups.begin();
    let commands = with_openclaw(&installed, CommandsFixture::start);
    groups.tests("commands::", commands::TESTS, &commands);
    drop(commands);

    groups.begin();
    let plugin = with_openclaw(&installed, PluginFixture::start);
    groups.tests("", &TESTS, &plugin);
    // Two gateways delegate to each other: the first one, and another.
    let (openclaw, first) = (Arc::clone(&installed), Arc::clone(&plugin));
    let pair = groups::fixture(move || OpenClawPair::start(Arc::clone(&openclaw), || &first));
    for (name, test) in serve_runs::TESTS {
        let (plugin, pair) = (Arc::clone(&plugin), Arc::clone(&pair));
        groups.test(format!("serve::{name}"), move || {
            // The pair is first, because it works concurrently with the start of the first OpenClaw.
            let pair: &OpenClawPair = &pair;
            test(&plugin, pair);
        });
    }
    // The gateways stop after the last test that uses them.
    drop((plugin, pair));

    groups.begin();
    let gateway = with_openclaw(&installed, GatewayFixture::start);
    let gateway_tests = gateway_runs::TESTS.iter().chain(gateway_triad::TESTS);
    let gateway_tests = gateway_tests.chain(several::TESTS);
    for (name, test) in gateway_tests.chain(gateway_runs::RESTART_TESTS) {
        let gateway = Arc::clone(&gateway);
        groups.test(format!("gateway::{name}"), move || gateway.run(*test));
    }
    drop(gateway);

    groups.begin();
    let operator = with_openclaw(&installed, OperatorFixture::start);
    groups.tests("operator::", operator::TESTS, &operator);
    drop(operator);

    groups.begin();
    let first_agent = with_openclaw(&installed, FirstAgent::start);
    groups.tests("first_agent::", first_agent::TESTS, &first_agent);
    drop(first_agent);

    groups.begin();
    groups.tests("registry::", registry::TESTS, &installed);

    groups.begin();
    let openclaw = Arc::clone(&installed);
    groups.test("mcp::agent_turns_call_the_tool_over_mcp", move || {
        mcp::agent_turns_call_the_tool_over_mcp(Arc::clone(&openclaw));
    });

    groups.begin();
    let openclaw = Arc::clone(&installed);
    groups.test("javascript_checks_pass", move || {
        javascript_checks_pass(&openclaw.node());
    });
    groups.test("javascript_has_no_type_errors", move || {
        javascript_has_no_type_errors(&installed);
    });

    // Dropping a fixture stops its gateway. Each test keeps its fixture until it has run.
    groups.run(Arguments::from_args()).exit_code()
}
