//! The official clients send a proposal to the card of the triad and read the decision.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::support::sdk::{self, Sdk};

use super::collective::serve;
use crate::gateway::support::reference_gateway::ReferenceGateway;
use crate::gateway::support::voters;
use crate::serve::root;

/// Runs a client against the triad, and returns its report.
async fn run_client(client: impl Fn() -> Command) -> Value {
    let gateway = ReferenceGateway::start(json!({"triad": {"quorum": "all"}})).await;
    let _triad = voters::start_triad(&gateway.url).await;
    let server = serve(&gateway.url, &[]);
    let mut command = client();
    command.arg(format!("{}/agents/triad", server.url()));
    command.arg("alpha=approve beta=reject charlie=approve");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn expected_report() -> Value {
    json!({
        "skill": "decide",
        "votes": {"alpha": "approve", "beta": "reject", "charlie": "approve"},
        "decision": {"name": "decision", "result": "approved"},
        "state": "TASK_STATE_COMPLETED",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn python_client_reads_decision_of_triad() {
    let report = run_client(|| {
        let mut command = Command::new(sdk::home(Sdk::Py13).join("bin/python"));
        command.arg(root("tests/serve/collective_client.py"));
        command
    });
    assert_eq!(report.await, expected_report());
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_client_reads_decision_of_triad() {
    let report = run_client(|| {
        let home = sdk::home(Sdk::Js13);
        let mut command = Command::new("node");
        command
            .arg(root("tests/serve/collective_client.mjs"))
            .arg(&home);
        command
    });
    assert_eq!(report.await, expected_report());
}
