//! An instance whose connection to the local gateway stands when it is closed.

use openclaw_remote_agent_interface::{RNone, load};
use serde_json::{Value, json};
use testkit::conformance::gateways::{Gateways, Received, What};
use tokio::time::timeout;

use crate::host_abi::fixture::{SOON, library, node, parse, tool};

const LIST: &str = r#"{"action": "list_targets"}"#;

async fn gateway() -> (Gateways, String) {
    let gateway = Gateways::named("reference-11.2").await.unwrap();
    let config = json!({"gateway": {"enabled": true, "url": gateway.url()}}).to_string();
    (gateway, config)
}

fn gone(all: &[Received]) -> bool {
    all.iter().any(|one| one.what == What::Gone)
}

#[cfg(feature = "real")]
#[tokio::test]
async fn closing_with_an_open_gateway_connection_leaves_no_thread() {
    let (gateway, config) = gateway().await;
    let script = r#"
        const agent = new RemoteAgent(args[0]);
        const listed = JSON.parse(await agent.execute(args[1], null, new CancelToken(), null));
        agent.close();
        await noThreads();
        done(listed.summary.gateway.state);
    "#;
    let Some(node) = node(&library(), script, &[&config, LIST]) else {
        return;
    };
    assert_eq!(node.finish().await, "OPEN");
    timeout(SOON, gateway.log().until(gone))
        .await
        .expect("the connection ends");
}

#[tokio::test]
async fn who_waits_for_the_end_has_left_the_gateway() {
    let (gateway, config) = gateway().await;
    let tool = tool(&load(library()).unwrap(), &config);
    let call = tool.execute(LIST.into(), RNone, RNone);
    let listed: Value = parse(timeout(SOON, call.future).await.expect("an envelope"));
    assert_eq!(listed["summary"]["gateway"]["state"], "OPEN", "{listed}");
    let closed = tokio::task::spawn_blocking(move || tool.close_and_wait());
    timeout(SOON, closed).await.expect("an end").unwrap();
    // It was said before the wait was over, so that it arrives whatever becomes of the process.
    let farewell = json!({"/type": "disconnect"});
    let left = gateway.log().frame(1, &farewell);
    let left = timeout(SOON, left).await.expect("a farewell");
    assert_eq!(left["content"]["reason"], "shutdown");
}
