//! The caller in `remote-agent call --jsonl` and in the commands for people.

use std::fs;

use gateway_bridge::delegation::DELEGATION_KEY;
use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::call::run;
use crate::callers::{
    folder::Folder,
    received_calls, start_desk,
    tool_fixture::{reason, send_request},
};

/// Returns a configuration with one target, `main`, and these settings of it.
fn config(peers: &Peers, mut target: Value, settings: Value) -> Value {
    target["alias"] = json!("main");
    target["baseUrl"] = json!(peers.origin("main"));
    target["default"] = json!(true);
    let mut config = settings;
    config["targets"] = json!([target]);
    config
}

/// Returns the answer to one `send` of a script on behalf of `caller`.
async fn call_as(config: &Value, caller: Value) -> Value {
    let init = json!({"id": 0, "op": "init", "config": config});
    let call = json!({"id": 1, "op": "execute", "request": send_request(), "caller": caller});
    let output = run(&["call", "--jsonl"], &format!("{init}\n{call}\n")).await;
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let last = output.stdout.lines().last().unwrap();
    serde_json::from_str::<Value>(last).unwrap()["result"].clone()
}

#[tokio::test]
async fn unreadable_caller_is_refused() {
    let bad = json!({"chain": {"hop": "x"}}).to_string();
    let request = r#"{"action":"list_targets"}"#;
    let call = run(&["call", "--caller", &bad, request], "").await;
    assert_eq!(call.status.code(), Some(2), "{call:?}");
    assert!(call.stderr.contains("the caller is not"), "{call:?}");
    let line = format!(r#"{{"id":1,"op":"execute","request":{request},"caller":{bad}}}"#);
    let script = run(&["call", "--jsonl"], &format!("{line}\n")).await;
    assert!(script.stdout.contains("BAD_LINE"), "{script:?}");
}

#[tokio::test]
async fn script_sets_the_delegation_depth() {
    let peers = start_desk().await;
    let config = config(
        &peers,
        json!({}),
        json!({"policy": {"maxDelegationDepth": 2}}),
    );
    let at = |hop: u64| json!({"chain": {"hop": hop, "chain": "row-1"}});
    let allowed = call_as(&config, at(1)).await;
    assert_eq!(allowed["ok"], true, "{allowed}");
    let refused = call_as(&config, at(2)).await;
    assert_eq!(reason(&refused), "delegation_too_deep", "{refused}");
    let sent = received_calls(&peers);
    assert_eq!(sent.len(), 1);
    let body = sent[0].body.as_ref().unwrap();
    assert_eq!(
        body["params"]["metadata"][DELEGATION_KEY],
        json!({"hop": 2, "chain": "row-1"})
    );
}

#[tokio::test]
async fn script_sets_calling_agent() {
    let peers = start_desk().await;
    let config = config(&peers, json!({"allowedAgents": ["clerk"]}), json!({}));
    let allowed = call_as(&config, json!({"agent_id": "clerk"})).await;
    assert_eq!(allowed["ok"], true, "{allowed}");
    let refused = call_as(&config, json!(null)).await;
    assert_eq!(reason(&refused), "agent_not_allowed", "{refused}");
}

#[tokio::test]
async fn option_sets_the_calling_agent() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let config = config(&peers, json!({"allowedAgents": ["clerk"]}), json!({}));
    let file = folder.path().join("agents.json");
    fs::write(&file, config.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for (agent, answer) in [("clerk", "none"), ("other", "agent_not_allowed")] {
        let send = [
            "send", "--json", "--config", file, "--agent", agent, "hello",
        ];
        let output = run(&send, "").await;
        let envelope: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(reason(&envelope), answer, "{output:?}");
        let targets = ["targets", "--json", "--config", file, "--agent", agent];
        let listed: Value = serde_json::from_str(&run(&targets, "").await.stdout).unwrap();
        let count = listed["summary"]["targets"].as_array().unwrap().len();
        assert_eq!(count, usize::from(agent == "clerk"), "{listed}");
    }
}

#[tokio::test]
async fn audit_log_is_complete_when_command_ends() {
    let (peers, folder) = (start_desk().await, Folder::new());
    let path = folder.path().join("audit.jsonl");
    let audit = json!({"audit": {"enabled": true, "path": path}});
    let caller = json!({"agent_id": "clerk"});
    let envelope = call_as(&config(&peers, json!({}), audit), caller).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    let line: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        (&line["agent"], &line["outcome"]),
        (&json!("clerk"), &json!("ok"))
    );
}
