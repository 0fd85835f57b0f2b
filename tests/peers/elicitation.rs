//! The person at an MCP client who answers the form of an agent, with the official clients and the Inspector's.

use std::process::{Command, Output};

use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::node::{self, Installed};
use crate::sdk::{self, Sdk};

pub fn trials() -> Vec<Trial> {
    let official = ["sdk", "client"].map(|flavor| {
        Trial::test(format!("form is answered over MCP: {flavor}"), move || {
            official_client_answers(flavor);
            Ok(())
        })
    });
    let inspector = ["legacy", "modern"].map(|era| {
        Trial::test(
            format!("form is answered over MCP: inspector {era}"),
            move || {
                inspector_answers(era);
                Ok(())
            },
        )
    });
    official.into_iter().chain(inspector).collect()
}

/// Returns the command of an MCP server whose agent asks with a form, and the folder with its settings.
fn server() -> ([String; 4], tempfile::TempDir) {
    let url = sdk::server(Sdk::Js13).origin("1.0");
    let target =
        |alias: &str, answers: &str| json!({"alias": alias, "baseUrl": url, "answers": answers});
    let config =
        json!({"targets": [target("peer", "person"), target("shared", "person-then-model")]});
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agents.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let paths = [testkit::support::command(), file];
    let [command, file] = paths.map(|path| path.to_str().unwrap().to_owned());
    let command = [command, "mcp".to_owned(), "--config".to_owned(), file];
    (command, folder)
}

fn official_client_answers(flavor: &str) {
    let installed = node::mcp_clients();
    let script = installed.package("../elicit.mjs");
    std::fs::write(&script, include_str!("elicit.mjs")).unwrap();
    let (server, _folder) = server();
    let output = Command::new(installed.node())
        .arg(script)
        .arg(flavor)
        .args(server)
        .output()
        .unwrap();
    let seen = json_of(&output);
    println!("{seen:#}");
    let asked = seen["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 4, "{seen}");
    let message = asked[0]["message"].as_str().unwrap();
    assert!(message.contains("\"which seat?\""), "{message}");
    let properties = &asked[0]["requestedSchema"]["properties"];
    assert_eq!(properties.as_object().unwrap().len(), 3, "{seen}");
    assert_eq!(properties["when"]["oneOf"][0]["title"], "Monday", "{seen}");
    let passing = &asked[3]["requestedSchema"]["properties"]["leave_to_model"];
    assert_eq!(passing["title"], "Leave it to the model", "{seen}");
    for (what, expected) in [
        (
            "answered",
            "you said Day: Monday\nSeats: 2\nAisle seat: true",
        ),
        (
            "declined",
            "A person declined to answer, and nothing was sent.",
        ),
        (
            "cancelled",
            "A person has to answer, and none can be reached here.",
        ),
        ("passed", "a person leaves the answer to you"),
    ] {
        let text = seen["results"][what].as_str().unwrap();
        assert!(text.contains(expected), "{what}: {text}");
    }
}

/// The Inspector's command line keeps the connection in a process of its own, and answers with a command.
fn inspector_answers(era: &str) {
    let installed = node::mcp_clients();
    let (server, folder) = server();
    let inspector = Inspector {
        installed: &installed,
        folder: folder.path(),
    };
    let mut connect = vec![
        "connect",
        "--connection",
        "x",
        "--era",
        era,
        "--elicit",
        "form",
        "--",
    ];
    connect.extend(server.iter().map(String::as_str));
    inspector.run(&connect);
    let parts = json!([{"kind": "text", "text": "form: which seat?"}]);
    let request = json!({"action": "send", "target_alias": "peer", "parts": parts}).to_string();
    let asked = inspector.run(&["--connection", "x", "tools/call", "remote_agent", &request]);
    let pending = &asked["elicitationPending"];
    assert_eq!(
        pending["requestedSchema"]["properties"]["when"]["title"], "Day",
        "{asked}"
    );
    let id = pending["elicitationId"].as_str().unwrap();
    let answer = ["when:=mon", "seats:=2", "aisle:=true"];
    let answered = inspector.run(
        &[
            &["--connection", "x", "elicitation/respond", id][..],
            &answer,
        ]
        .concat(),
    );
    let text = answered["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("you said Day: Monday"), "{text}");
    inspector.run(&["disconnect", "x"]);
}

struct Inspector<'a> {
    installed: &'a Installed,
    folder: &'a std::path::Path,
}

impl Inspector<'_> {
    fn run(&self, arguments: &[&str]) -> Value {
        json_of(&self.output(arguments))
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let script = "@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js";
        let mut command = Command::new(self.installed.node());
        command.arg(self.installed.package(script));
        command.args(["--format", "json"]).args(arguments);
        command
            .env("HOME", self.folder)
            .env("MCP_INSPECTOR_SECRET_STORE", "file")
            .env("MCP_INSPECTOR_DAEMON_DIR", self.folder.join("daemon"))
            .env("MCP_INSPECTOR_DAEMON_TOKEN", "test");
        command.output().unwrap()
    }
}

impl Drop for Inspector<'_> {
    fn drop(&mut self) {
        self.output(&["daemon", "stop"]);
    }
}

fn json_of(output: &Output) -> Value {
    let [printed, said] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{said}"))
}
