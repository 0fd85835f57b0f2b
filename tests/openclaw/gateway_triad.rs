//! Three real agents that vote.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use testkit::support::sdk::{self, Sdk};

use crate::{
    GatewayFixture,
    gateway_fixture::{send_request, task_state, with_field},
    host::TOKEN,
    server::Server,
};

type Test = (&'static str, fn(&GatewayFixture));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&GatewayFixture))),*] };
}

/// The tests, in their order.
pub const TESTS: &[Test] = tests![
    three_agents_vote_and_the_decision_is_the_artifact
    invalid_vote_is_requested_again
    slow_member_is_missing_and_its_run_stops
    canceled_vote_is_terminal
    official_clients_read_the_decision_of_openclaw_members
];

fn decision(envelope: &Value) -> &Value {
    let parts = envelope["summary"]["artifacts"][0]["parts"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("no decision in {envelope:#}"));
    &parts.iter().find(|part| part["kind"] == "data").unwrap()["data"]
}

fn three_agents_vote_and_the_decision_is_the_artifact(fixture: &GatewayFixture) {
    let tool = fixture.new_tool(json!({"triad": {"members": ["alpha", "beta", "charlie"], "deadlineMs": 60_000, "quorum": "all"}}));
    let proposal = "Move the backups to the new disk. (alpha:approve beta:reject charlie:approve)";
    let running = tool.start(with_field(
        send_request("triad", proposal),
        "follow_updates",
        json!(true),
    ));
    let updates = running.updates.clone();
    let envelope = running.envelope();
    assert_eq!(task_state(&envelope), "completed", "{envelope:#}");
    for update in updates.all(|_| true) {
        println!(
            "update: {}",
            update["raw"]["status"]["message"]["parts"][0]["text"]
        );
    }
    println!("decision: {:#}", envelope["summary"]["artifacts"]);
    let decided = decision(&envelope);
    assert_eq!(
        (
            &decided["result"],
            &decided["consensus"],
            &decided["votes"],
            &decided["missing"]
        ),
        (
            &json!("approved"),
            &json!(true),
            &json!({"alpha": "approve", "beta": "reject", "charlie": "approve"}),
            &json!([])
        )
    );
    let has_update = |text: &str| {
        !updates
            .all(|update| update.to_string().contains(text))
            .is_empty()
    };
    assert!(
        has_update("beta votes reject (confidence 0.8): My script says reject."),
        "{:#?}",
        updates.all(|_| true)
    );
    // Status and watch work as long as this process runs.
    let id = &envelope["summary"]["continuation"]["task"]["task_id"];
    for action in ["status", "watch"] {
        let repeated =
            tool.call_ok(json!({"action": action, "target_alias": "gateway:triad", "task_id": id}));
        assert_eq!(decision(&repeated), decided, "{action}");
    }
    let other_tool = fixture.new_tool(json!({}));
    let forgotten = other_tool
        .call(json!({"action": "status", "target_alias": "gateway:triad", "task_id": id}));
    assert_eq!(
        forgotten["error"]["reason"], "task_forgotten",
        "{forgotten:#}"
    );
}

fn invalid_vote_is_requested_again(fixture: &GatewayFixture) {
    let envelope = fixture.tool.call_ok(send_request(
        "triad",
        "Paint it blue. (alpha:nonsense beta:reject charlie:approve)",
    ));
    assert_eq!(
        decision(&envelope)["votes"]["alpha"],
        "approve",
        "{envelope:#}"
    );
    assert_eq!(decision(&envelope)["result"], "approved", "{envelope:#}");
}

fn slow_member_is_missing_and_its_run_stops(fixture: &GatewayFixture) {
    let envelope = fixture.tool.call_ok(send_request(
        "triad",
        "Paint it green. (alpha:reject beta:reject charlie:sleep)",
    ));
    let decided = decision(&envelope);
    assert_eq!(
        (&decided["result"], &decided["missing"]),
        (&json!("rejected"), &json!(["charlie"])),
        "{envelope:#}"
    );
    // Polls the gateway until it reports that charlie is idle.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let listed = fixture.tool.call_ok(json!({"action": "list_targets"}));
        let targets = listed["summary"]["targets"].as_array().unwrap();
        let charlie = targets
            .iter()
            .find(|target| target["target_alias"] == "gateway:charlie")
            .unwrap();
        if charlie.to_string().contains("idle") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{charlie:#}");
    }
}

fn canceled_vote_is_terminal(fixture: &GatewayFixture) {
    let mut proposal = send_request(
        "triad",
        "Paint it red. (alpha:sleep beta:sleep charlie:sleep)",
    );
    proposal["task_requirement"] = json!("required");
    let started = fixture.tool.call_ok(proposal);
    assert_eq!(task_state(&started), "working", "{started:#}");
    let canceled = fixture.tool.call_ok(
        json!({"action": "cancel", "target_alias": "gateway:triad", "task_id": started["summary"]["continuation"]["task"]["task_id"]}),
    );
    assert_eq!(task_state(&canceled), "canceled", "{canceled:#}");
}

/// A process that prints lines of JSON. It ends with its value.
struct JsonProcess(Child, BufReader<std::process::ChildStdout>);

impl JsonProcess {
    fn new(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_remote-agent"))
            .args(args)
            .env("OPENCLAW_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }
}

impl Drop for JsonProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// OpenClaw's agents are members of the reference gateway, and `remote-agent serve` offers them with their triad.
fn official_clients_read_the_decision_of_openclaw_members(fixture: &GatewayFixture) {
    let folder = tempfile::tempdir().unwrap();
    let members = ["alpha", "beta", "charlie"];
    let openclaw = fixture.http_url().replace("http://", "ws://");
    let token = json!({"source": "env", "id": "OPENCLAW_TOKEN"});
    let agents = members.map(|name| {
        json!({"name": name, "role": "Triad member", "backend": {
            "timeoutMs": 300_000, "openclaw": {"agent": name, "url": openclaw, "token": token},
        }})
    });
    let config = json!({
        "listen": "127.0.0.1:0", "stateDir": folder.path(), "triad": {"quorum": "all"}, "agents": agents,
    });
    let file = folder.path().join("gateway.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let mut gateway = JsonProcess::new(&["gateway", "--json", "--config", file]);
    let url = gateway.next()["url"].as_str().unwrap().to_owned();
    let mut watch = JsonProcess::new(&["gateway", "watch", "--json", "--url", &url]);
    for _ in members {
        while watch.next()["status"] != "online" {}
    }
    let flags = ["--port", "0", "--executor", "gateway", "--gateway", &url];
    let no_token = [("OPENCLAW_GATEWAY_TOKEN".to_owned(), String::new())];
    let server = Server::start(&flags, &no_token);
    let triad = format!("{}/agents/triad", server.url());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/serve");
    let mut python = Command::new(sdk::home(Sdk::Py13).join("bin/python"));
    python.arg(root.join("collective_client.py"));
    let mut javascript = Command::new("node");
    javascript
        .arg(root.join("collective_client.mjs"))
        .arg(sdk::home(Sdk::Js13));
    for mut client in [python, javascript] {
        let proposal = "Move the backups. (alpha:approve beta:reject charlie:approve)";
        let output = client.args([&*triad, proposal]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        println!("{client:?}: {report:#}");
        let expected = json!({
            "skill": "decide",
            "votes": {"alpha": "approve", "beta": "reject", "charlie": "approve"},
            "decision": {"name": "decision", "result": "approved"},
            "state": "TASK_STATE_COMPLETED",
        });
        assert_eq!(report, expected);
    }
}
