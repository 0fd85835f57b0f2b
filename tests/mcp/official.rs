//! The official clients, the Inspector and the conformance suite against the command.

use std::process::{Command, Output};

use super::http::HttpServer;
use super::*;
use crate::support::node::{Installed, mcp_clients};

/// Runs a Node.js program beside the installed packages, so that it finds its imports.
fn run_node(installed: &Installed, script: &str, arguments: &[&str]) -> Output {
    Command::new(installed.node())
        .arg(installed.package(script))
        .args(arguments)
        .current_dir(installed.package(".."))
        .output()
        .unwrap()
}

/// The expected results of every client.
fn check_client(flavor: &str, transport: &str, target: &[&str]) {
    let installed = mcp_clients();
    let script = installed.package("../clients.mjs");
    std::fs::write(&script, include_str!("clients.mjs")).unwrap();
    let arguments = [&[flavor, transport], target].concat();
    let output = run_node(&installed, "../clients.mjs", &arguments);
    let results: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let expected = json!({
        "tools": ["remote_agent"], "listed": "list_targets: 1 agent", "streamed": true, "progress": true, "cancelled": true,
        "after": true, "unknownAlias": true, "unknownTool": true, "continued": true, "parallel": true,
    });
    assert_eq!(results, expected);
}

fn check_over_stdio(flavor: &str) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let command = executable();
    let command = command.to_str().unwrap();
    check_client(flavor, "stdio", &[command, "mcp", "--url", server.url()]);
}

fn check_over_http(flavor: &str) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mcp_server = HttpServer::start(&["--url", server.url()]);
    check_client(flavor, "http", &[&format!("{}/mcp", mcp_server.url())]);
}

#[test]
fn sdk_1_x_calls_over_stdio() {
    check_over_stdio("sdk");
}

#[test]
fn sdk_1_x_calls_over_http() {
    check_over_http("sdk");
}

#[test]
fn client_2_x_calls_over_stdio() {
    check_over_stdio("client");
}

#[test]
fn client_2_x_calls_over_http() {
    check_over_http("client");
}

#[test]
fn inspector_lists_and_calls() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let installed = mcp_clients();
    let command = executable();
    let target = [command.to_str().unwrap(), "mcp", "--url", server.url()];
    let inspect = |arguments: &[&str]| {
        let all = [&["--cli"], arguments, &["--"], &target].concat();
        let package = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
        let output = run_node(&installed, package, &all);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{stdout}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        stdout
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
fn run_conformance_suite(revision: &str) {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mcp_server = HttpServer::start(&["--url", server.url()]);
    let installed = mcp_clients();
    let url = format!("{}/mcp", mcp_server.url());
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
    let output = run_node(
        &installed,
        "@modelcontextprotocol/conformance/dist/index.js",
        &arguments,
    );
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let total = stdout.lines().find(|line| line.starts_with("Total:"));
    println!("{revision}: {}", total.unwrap_or_default());
}

#[test]
fn server_conforms_to_2025_11_25() {
    run_conformance_suite("2025-11-25");
}

#[test]
fn server_conforms_to_2026_07_28() {
    run_conformance_suite("2026-07-28");
}
