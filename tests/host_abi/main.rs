//! The shared library as its hosts see it: loaded from the file that Cargo has just built, through each of its doors.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod fixture;
mod loading;
#[path = "../support/node.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with tests that need more of it"
)]
mod node;
mod node_door;
#[path = "../support/process.rs"]
mod process;
mod rust_door;

use openclaw_remote_agent_interface::load;
use serde_json::{Value, json};

/// One file, both hosts: neither is served by a build of its own.
#[tokio::test]
async fn the_same_file_serves_a_rust_host_and_node() {
    let library = fixture::library();
    let size = library.metadata().unwrap().len();
    println!("library: {}, {size} bytes", library.display());

    let module = load(&library).unwrap();
    let tool = fixture::tool(&module, "{}");
    let definition: Value = serde_json::from_str(tool.definition().as_str()).unwrap();
    let from_rust = json!({"build": module.build_id()().as_str(), "definition": definition});

    let script =
        "done({build: buildId(), definition: JSON.parse(new RemoteAgent('{}').definition())});";
    let Some(node) = fixture::node(&library, script, &[]) else {
        return;
    };
    let from_node = node.finish().await;

    println!(
        "both say: {} {}",
        from_node["build"], from_node["definition"]["name"]
    );
    assert_eq!(from_rust, from_node);
    assert_eq!(from_rust["definition"]["name"], "remote_agent");
}
