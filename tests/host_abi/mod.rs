//! The shared library, loaded from Cargo's file through each of its host interfaces.

use std::env;

mod close;
pub(crate) mod fixture;
mod loading;
pub(crate) use crate::support::node;
#[cfg(feature = "real")]
mod node_api;
pub(crate) use crate::support::process;
mod rust_abi;

use base::log::Silent;
use gateway_bridge::delegation::{DELEGATION_KEY, Delegation, DelegationFile};
use openclaw_remote_agent_interface::{RNone, RSome, load};
use serde_json::{Value, json};
use uuid::Uuid;

/// One file serves both hosts.
#[cfg(feature = "real")]
#[tokio::test]
async fn one_file_serves_rust_and_node() {
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

/// A call names its chain of delegations, or the instance finds it by session in the host's state directory, over both
/// interfaces.
#[tokio::test]
async fn both_interfaces_accept_delegations() {
    let peers = fixture::peers().await;
    let state = env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
    let work = Delegation {
        hop: 4,
        chain: Some("row-1".to_owned()),
    };
    let file = DelegationFile::of_host(&state);
    file.record("deep", &work, &Silent).unwrap();
    let callers = json!([
        {"agent_id": "a", "chain": {"hop": 3, "chain": "row-1"}},
        {"agent_id": "a", "chain": {"hop": 4, "chain": "row-1"}},
        {"agent_id": "a", "session_key": "deep", "state_dir": state},
        {"agent_id": "a", "session_key": "other", "state_dir": state},
    ]);
    let library = fixture::library();
    let tool = fixture::tool(&load(&library).unwrap(), &fixture::config(&peers));
    let mut from_rust = Vec::new();
    for caller in callers.as_array().unwrap() {
        let caller = RSome(caller.to_string().into());
        let call = tool.execute(fixture::request("streams").into(), caller, RNone);
        let envelope = fixture::parse(call.future.await);
        from_rust.push(envelope["error"]["reason"].clone());
    }
    let sent = |name: &str| -> Vec<Value> {
        let calls = peers.log(name).into_iter();
        let bodies = calls.filter_map(|request| request.body);
        bodies
            .map(|body| body["params"]["metadata"][DELEGATION_KEY].clone())
            .collect()
    };
    let refused = "delegation_too_deep";
    assert_eq!(json!(from_rust), json!([null, refused, refused, null]));
    let reported = sent("streams");
    assert_eq!(reported[0], json!({"hop": 4, "chain": "row-1"}));
    assert_eq!((reported.len(), &reported[1]["hop"]), (2, &json!(1)));

    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const reasons = [];
        for (const caller of JSON.parse(args[2])) {
          const envelope = await agent.execute(args[1], JSON.stringify(caller), new CancelToken(), null);
          reasons.push(JSON.parse(envelope).error?.reason ?? null);
        }
        done(reasons);
    "#;
    let args = [
        &fixture::config(&peers),
        &fixture::request("streams"),
        &callers.to_string(),
    ];
    if let Some(node) = fixture::node(&library, script, &args.map(String::as_str)) {
        assert_eq!(node.finish().await, json!(from_rust));
        assert_eq!(sent("streams")[2], reported[0]);
    }
    std::fs::remove_dir_all(state).unwrap();
}

/// A restricted target requires the caller from the host, over both interfaces.
#[tokio::test]
async fn both_interfaces_accept_the_caller() {
    let peers = fixture::peers().await;
    let mut config: Value = fixture::parse(fixture::config(&peers));
    config["targets"][1]["allowedAgents"] = json!(["clerk"]);
    let callers = json!([{"agent_id": "clerk"}, {"agent_id": "other"}, null]);
    let library = fixture::library();
    let tool = fixture::tool(&load(&library).unwrap(), &config.to_string());
    let mut from_rust = Vec::new();
    for caller in callers.as_array().unwrap() {
        let caller = if caller.is_null() {
            RNone
        } else {
            RSome(caller.to_string().into())
        };
        let call = tool.execute(fixture::request("streams").into(), caller, RNone);
        let envelope = fixture::parse(call.future.await);
        from_rust.push(envelope["error"]["reason"].clone());
    }
    let refused = "agent_not_allowed";
    assert_eq!(json!(from_rust), json!([null, refused, refused]));
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const reasons = [];
        for (const caller of JSON.parse(args[2])) {
          const envelope = await agent.execute(args[1], caller && JSON.stringify(caller), new CancelToken(), null);
          reasons.push(JSON.parse(envelope).error?.reason ?? null);
        }
        done(reasons);
    "#;
    let args = [
        &config.to_string(),
        &fixture::request("streams"),
        &callers.to_string(),
    ];
    if let Some(node) = fixture::node(&library, script, &args.map(String::as_str)) {
        assert_eq!(node.finish().await, json!(from_rust));
    }
}
