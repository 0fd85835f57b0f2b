//! The official clients, the Inspector and the conformance suite against the command.

use std::process::{Command, Output};

use super::http::Listening;
use super::*;
use crate::support::node::{Installed, install};

fn installed() -> Installed {
    install(
        "mcp",
        &[
            "@modelcontextprotocol/sdk@1.32.2",
            "@modelcontextprotocol/client@2.4.0",
            "@modelcontextprotocol/inspector@2.12.0",
            "@modelcontextprotocol/conformance@0.2.0-alpha.12",
        ],
    )
}

/// Runs a Node.js program beside the installed packages, so that it finds its imports.
fn node(installed: &Installed, script: &str, arguments: &[&str]) -> Output {
    Command::new(installed.node())
        .arg(installed.package(script))
        .args(arguments)
        .current_dir(installed.package(".."))
        .output()
        .unwrap()
}

/// The expected results of every client.
fn check_client(flavor: &str, transport: &str, target: &[&str]) {
    let installed = installed();
    let script = installed.package("../clients.mjs");
    std::fs::write(&script, include_str!("clients.mjs")).unwrap();
    let arguments = [&[flavor, transport], target].concat();
    let run = node(&installed, "../clients.mjs", &arguments);
    let seen: Value = serde_json::from_slice(&run.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&run.stderr)));
    let expected = json!({
        "tools": ["remote_agent"], "listed": "list_targets: 1 agent", "streamed": true, "progress": true, "cancelled": true,
        "after": true, "wrongAlias": true, "unknownTool": true, "answered": true, "parallel": true,
    });
    assert_eq!(seen, expected);
}

fn over_stdio(flavor: &str) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let command = executable();
    let command = command.to_str().unwrap();
    check_client(flavor, "stdio", &[command, "mcp", "--url", server.url()]);
}

fn over_http(flavor: &str) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let listening = Listening::start(&["--url", server.url()]);
    check_client(flavor, "http", &[&format!("{}/mcp", listening.url())]);
}

#[test]
fn sdk_of_1_x_calls_over_stdio() {
    over_stdio("sdk");
}

#[test]
fn sdk_of_1_x_calls_over_http() {
    over_http("sdk");
}

#[test]
fn client_of_2_x_calls_over_stdio() {
    over_stdio("client");
}

#[test]
fn client_of_2_x_calls_over_http() {
    over_http("client");
}

#[test]
fn inspector_lists_and_calls() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let installed = installed();
    let command = executable();
    let target = [command.to_str().unwrap(), "mcp", "--url", server.url()];
    let inspect = |arguments: &[&str]| {
        let all = [&["--cli"], arguments, &["--"], &target].concat();
        let package = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
        let run = node(&installed, package, &all);
        let output = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(
            run.status.success(),
            "{output}{}",
            String::from_utf8_lossy(&run.stderr)
        );
        output
    };
    let listed = inspect(&["--method", "tools/list"]);
    assert!(listed.contains("\"remote_agent\""), "{listed}");
    let called = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "remote_agent",
        "--tool-arg",
        "action=list_targets",
    ]);
    assert!(called.contains("list_targets: 1 agent"), "{called}");
}

/// Runs the scenarios of a revision. `tests/mcp/conformance/` lists those that fail, and the suite rejects unused entries.
fn conforms(revision: &str) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let listening = Listening::start(&["--url", server.url()]);
    let installed = installed();
    let url = format!("{}/mcp", listening.url());
    let failures = crate::support::root(&format!("tests/mcp/conformance/{revision}.yml"));
    let failures = failures.to_str().unwrap();
    let arguments = [
        "server",
        "--url",
        &url,
        "--requirements",
        revision,
        "--expected-failures",
        failures,
    ];
    let run = node(
        &installed,
        "@modelcontextprotocol/conformance/dist/index.js",
        &arguments,
    );
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success(),
        "{output}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let total = output.lines().find(|line| line.starts_with("Total:"));
    println!("{revision}: {}", total.unwrap_or_default());
}

#[test]
fn server_conforms_to_2025_11_25() {
    conforms("2025-11-25");
}

#[test]
fn server_conforms_to_2026_07_28() {
    conforms("2026-07-28");
}
