//! The plugin in a real OpenClaw: installed, inspected, called directly and by an agent, reloaded and reconfigured.
//!
//! One gateway serves all of these tests, one after another.
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
mod calls;
#[allow(dead_code, reason = "other tests press keys and click")]
#[path = "../serve/chromium.rs"]
mod chromium;
mod commands;
mod files;
mod gateway_rig;
mod gateway_runs;
mod gateway_triad;
mod mcp;
mod model;
mod notify;
mod peer;
mod process;
mod serve_rig;
mod serve_runs;
mod surfaces;
mod world;

use std::{
    path::Path,
    process::{Command, ExitCode},
    sync::{Arc, LazyLock},
};

use calls::{
    direct_call_answers, refused_direct_call_is_an_envelope, secret_reference_arrives_resolved,
    secret_reference_in_a_header_arrives_resolved, trace_of_the_run_reaches_the_agent,
};
use files::{file_outside_of_the_workspace_is_refused, files_are_sent_by_path_in_both_directions};
use gateway_rig::Behind;
use libtest_mimic::{Arguments, Trial};
use notify::Followed;
use peer::{Seen, answer_to};
use remote_agent_cli::package;
use serde_json::{Value, json};
use serve_rig::Pair;
use testkit::support::{host, http, journal, node, sdk, serve as server, socket};
use world::{World, plugin_settings};

const OPENCLAW: &str = "openclaw@2026.9.6";

/// Returns the package of OpenClaw: the pinned one, or the version that `.ci/newest-openclaw` names.
fn openclaw() -> String {
    let version = std::env::var("OPENCLAW_VERSION");
    version.map_or_else(
        |_| OPENCLAW.to_owned(),
        |version| format!("openclaw@{version}"),
    )
}

type Test = (&'static str, fn(&World));

macro_rules! tests {
    ($($name:ident)*) => { [$((stringify!($name), $name as fn(&World))),*] };
}

/// Every test of the gateway, in order; those that change its configuration are last.
const TESTS: [Test; 22] = tests![
    tarball_installs_without_what_only_developers_need
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
    tool_is_absent_unless_enabled
    invalid_settings_are_logged_with_their_place
    settings_under_the_legacy_id_are_taken_over
    directory_installs_over_the_tarball
];

fn send(text: &str) -> Value {
    json!({"action": "send", "target_alias": "peer", "parts": [{"kind": "text", "text": text}]})
}

/// Returns the content of the fence in a text for a model.
fn fenced(text: &str) -> &str {
    let between = || {
        let (_, rest) = text.split_once("<<<EXTERNAL_UNTRUSTED_CONTENT id=\"")?;
        let (id, rest) = rest.split_once("\">>>\n")?;
        let end = format!("\n<<<END_EXTERNAL_UNTRUSTED_CONTENT id=\"{id}\">>>");
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        assert!(id.len() == 8 && id.chars().all(hex), "{id}");
        rest.strip_suffix(&end)
    };
    between().unwrap_or_else(|| panic!("no fence in {text}"))
}

fn tool_of(request: &Value) -> Option<&Value> {
    request["tools"]
        .as_array()?
        .iter()
        .find(|tool| tool["function"]["name"] == "remote_agent")
}

// ---- installation -----------------------------------------------------------------------------------------------------

fn tarball_installs_without_what_only_developers_need(world: &World) {
    let installed = world
        .host
        .state()
        .join("npm/projects/openclaw-remote-agent/node_modules/openclaw-remote-agent");
    assert!(
        installed
            .join("native")
            .join(package::library_name())
            .is_file()
    );
    assert!(!installed.join("test").exists());
}

fn inspect_shows_the_tool(world: &World) {
    let inspected: Value = serde_json::from_str(&world.host.cli(&[
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

fn registration_starts_no_thread(world: &World) {
    assert_eq!(
        (
            process::images(world.gateway.pid()),
            process::plugin_threads(world.gateway.pid())
        ),
        (1, 0)
    );
}

// ---- agent turns ------------------------------------------------------------------------------------------------------

fn agent_turn_calls_the_tool_and_reads_its_result(world: &World) {
    let request = world.turn(
        "agent:main:turn",
        "look at the logs",
        &send("look at the logs"),
    );
    let tool = tool_of(&request).expect("the tool is in the model's list");
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
        fenced(&result).contains(&answer_to("look at the logs")),
        "{result}"
    );
}

fn skill_is_offered_to_the_model(world: &World) {
    let request = world.turn(
        "agent:main:skill",
        "which skills are there",
        &send("which skills are there"),
    );
    let prompt = request["messages"][0]["content"].to_string();
    assert!(prompt.contains("skills/remote-agent/SKILL.md"), "{prompt}");
}

fn empty_arguments_of_a_model_are_dropped(world: &World) {
    let mut arguments = send("ignore what is empty");
    arguments["task_handle"] = json!("");
    arguments["timeout_ms"] = Value::Null;
    let request = world.turn("agent:main:empty", "ignore what is empty", &arguments);
    let result = model::tool_result(&request).unwrap();
    assert!(
        result.contains(&answer_to("ignore what is empty")),
        "{result}"
    );
}

fn updates_reach_the_gateway_while_the_call_runs(world: &World) {
    let mut arguments = send("go step by step");
    arguments["follow_updates"] = json!(true);
    let run = world
        .socket
        .start("agent:main:updates", &format!("CALL {arguments}"));
    world.socket.end_of(&run);
    let updates = world.socket.tool_events(&run, "update");
    let states: Vec<_> = updates
        .iter()
        .map(|update| &update["partialResult"]["details"]["phase"])
        .collect();
    assert!(
        states.len() >= 2 && states.iter().all(|phase| *phase == "update"),
        "{updates:?}"
    );
    let read = updates
        .iter()
        .map(|update| &update["partialResult"]["content"][0]["text"]);
    let under_way = |text: &Value| text.as_str().unwrap().starts_with("send under way: task ");
    assert!(read.clone().all(under_way), "{updates:?}");
}

fn handle_of_an_agent_turn_works_in_a_direct_call(world: &World) {
    let request = world.turn("agent:main:handle", "work on it", &send("work on it"));
    let result = model::tool_result(&request).unwrap();
    let handle = result
        .lines()
        .find_map(|line| line.strip_prefix("task_handle: "));
    let handle = handle.unwrap_or_else(|| panic!("no handle in {result}"));
    let status = world
        .gateway
        .envelope(json!({"action": "status", "task_handle": handle}));
    assert_eq!(
        (&status["ok"], &status["raw"]["id"]),
        (&json!(true), &json!("work on it")),
        "{status}"
    );
}

fn abort_ends_the_call_at_the_peer(world: &World) {
    let session = "agent:main:abort";
    let run = world
        .socket
        .start(session, &format!("CALL {}", send("hold the line")));
    world.peer.call("hold the line");
    world
        .socket
        .request("sessions.abort", json!({"key": session, "runId": run}));
    world.peer.seen.wait(
        "the caller to hang up",
        |seen| matches!(seen, Seen::HungUp(text) if text == "hold the line"),
    );
    assert_eq!(world.socket.end_of(&run)["summary"], "aborted");
}

// ---- reloads and other configurations ---------------------------------------------------------------------------------

fn reload_keeps_one_image_and_leaves_no_thread(world: &World) {
    let pid = world.gateway.pid();
    world.gateway.envelope(send("before the reload"));
    assert!(process::plugin_threads(pid) > 0);
    world.socket.request(
        "plugins.reload",
        json!({"plugins": [{"pluginId": "remote-agent"}]}),
    );
    process::wait_for_no_plugin_thread(pid);
    world.gateway.envelope(send("after the reload"));
    assert_eq!(process::images(pid), 1);
}

fn edited_settings_apply_and_keep_one_image(world: &World) {
    let pid = world.gateway.pid();
    let mut settings = plugin_settings(&world.peer);
    settings["targets"][0]["alias"] = json!("renamed");
    world.gateway.envelope(send("before the edit"));
    world.settings(&settings);
    process::wait_for_no_plugin_thread(pid);
    let envelope = world.gateway.envelope(json!({"action": "list_targets"}));
    assert_eq!(
        envelope["summary"]["targets"][0]["target_alias"], "renamed",
        "{envelope}"
    );
    assert_eq!(process::images(pid), 1);
}

fn tool_is_absent_unless_enabled(world: &World) {
    let mut settings = plugin_settings(&world.peer);
    settings["enabled"] = json!(false);
    let from = world.gateway.output.len();
    world.settings(&settings);
    let line = world
        .gateway
        .output
        .wait_from(from, "the reason to be logged", |line| {
            line.contains("remote_agent is switched off")
        });
    assert!(
        line.contains("plugins.entries.remote-agent.config.enabled is not true"),
        "{line}"
    );
    let (status, answer) = world.gateway.invoke(json!({"action": "list_targets"}));
    assert_eq!(status, 404, "{answer}");
    process::wait_for_no_plugin_thread(world.gateway.pid());
}

fn invalid_settings_are_logged_with_their_place(world: &World) {
    let mut settings = plugin_settings(&world.peer);
    let twice = settings["targets"][0].clone();
    settings["targets"].as_array_mut().unwrap().push(twice);
    let from = world.gateway.output.len();
    world.settings(&settings);
    let line = world
        .gateway
        .output
        .wait_from(from, "the error to be logged", |line| {
            line.contains("remote_agent is not available")
        });
    assert!(
        line.contains("plugins.entries.remote-agent.config is not valid")
            && line.contains("/targets/1/alias"),
        "{line}"
    );
    assert_eq!(
        world.gateway.invoke(json!({"action": "list_targets"})).0,
        404
    );
}

fn settings_under_the_legacy_id_are_taken_over(world: &World) {
    let settings =
        json!({"enabled": true, "targets": [{"alias": "legacy", "baseUrl": world.peer.url()}]});
    world.configure(|entries| {
        *entries = json!({"openclaw-a2a-outbound": {"enabled": true, "config": settings}, "remote-agent": {"enabled": true}});
    });
    let envelope = world.gateway.envelope(json!({"action": "list_targets"}));
    assert_eq!(
        envelope["summary"]["targets"][0]["target_alias"], "legacy",
        "{envelope}"
    );
}

fn directory_installs_over_the_tarball(world: &World) {
    world.settings(&plugin_settings(&world.peer));
    world
        .host
        .install(world.packaged.directory.to_str().unwrap());
    assert!(
        world
            .host
            .state()
            .join("extensions/remote-agent/index.js")
            .is_file()
    );
    let envelope = world.gateway.envelope(send("from the directory"));
    assert_eq!(envelope["ok"], true, "{envelope}");
}

// ---- the package's JavaScript -----------------------------------------------------------------------------------------

fn javascript_checks_pass(node: &Path) {
    let tests = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("openclaw");
    let output = Command::new(node)
        .args(["--test", "--test-reporter=tap", "test/*.test.js"])
        .current_dir(tests)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
    assert!(
        report.contains("\n# pass ") && !report.contains("\n# pass 0\n"),
        "no check ran: {report}"
    );
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The tests share one gateway, and their order is part of them.
    arguments.test_threads = Some(1);
    // The first test installs and starts it. If that fails, the others fail at once.
    let installed = Arc::new(LazyLock::new(|| {
        Arc::new(node::install("openclaw", &[&openclaw()]))
    }));
    let (again, third, node) = (installed.clone(), installed.clone(), installed.clone());
    let (fourth, fifth) = (Arc::clone(&installed), Arc::clone(&installed));
    let sixth = Arc::clone(&installed);
    let world = Arc::new(LazyLock::new(move || World::start(Arc::clone(&installed))));
    let behind = Arc::new(LazyLock::new(move || Behind::start(Arc::clone(&again))));

    let mut trials = vec![Trial::test("javascript_checks_pass", move || {
        javascript_checks_pass(&node.node());
        Ok(())
    })];
    trials.extend(TESTS.map(|(name, test)| {
        let world = Arc::clone(&world);
        Trial::test(name, move || {
            test(&world);
            Ok(())
        })
    }));
    let setup = Arc::new(LazyLock::new(move || {
        commands::Setup::start(Arc::clone(&fourth))
    }));
    trials.extend(commands::TESTS.iter().map(|(name, test)| {
        let setup = Arc::clone(&setup);
        Trial::test(format!("commands::{name}"), move || {
            test(&setup);
            Ok(())
        })
    }));
    drop(setup);
    // Two gateways delegate to each other: the first one, and another.
    let first = Arc::clone(&world);
    let pair = Arc::new(LazyLock::new(move || {
        Pair::start(Arc::clone(&third), || &first)
    }));
    trials.extend(serve_runs::TESTS.iter().map(|(name, test)| {
        let (world, pair) = (Arc::clone(&world), Arc::clone(&pair));
        Trial::test(format!("serve::{name}"), move || {
            // The pair is first, because it works concurrently with the start of the world.
            let pair: &Pair = &pair;
            test(&world, pair);
            Ok(())
        })
    }));
    // The first gateways stop after the last test that uses them.
    drop((world, pair));
    trials.extend(
        gateway_runs::TESTS
            .iter()
            .chain(gateway_triad::TESTS)
            .chain(gateway_runs::LAST)
            .map(|(name, test)| {
                let behind = Arc::clone(&behind);
                Trial::test(format!("gateway::{name}"), move || {
                    behind.run(*test);
                    Ok(())
                })
            }),
    );
    drop(behind);
    let followed = Arc::new(LazyLock::new(move || Followed::start(Arc::clone(&fifth))));
    trials.extend(notify::TESTS.iter().map(|(name, test)| {
        let followed = Arc::clone(&followed);
        Trial::test(format!("notify::{name}"), move || {
            test(&followed);
            Ok(())
        })
    }));
    drop(followed);
    trials.push(Trial::test(
        "mcp::agent_turns_call_the_tool_over_mcp",
        move || {
            mcp::agent_turns_call_the_tool_over_mcp(Arc::clone(&sixth));
            Ok(())
        },
    ));
    // Dropping the world stops the gateway. The trials hold it until they have run.
    libtest_mimic::run(&arguments, trials).exit_code()
}
