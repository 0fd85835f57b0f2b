//! Closes an instance with an open connection to the local gateway.

use openclaw_remote_agent_interface::{RNone, load};
use serde_json::{Value, json};
use testkit::conformance::gateways::{Gateways, LogEvent, Received};
use tokio::time::timeout;

use crate::host_abi::fixture::{EXIT_TIMEOUT, library, node, parse, tool};

const LIST: &str = r#"{"action": "list_targets"}"#;

async fn gateway() -> (Gateways, String) {
    let gateway = Gateways::named("reference-11.2").await.unwrap();
    let config = json!({"gateway": {"enabled": true, "url": gateway.url()}}).to_string();
    (gateway, config)
}

fn is_closed(all: &[Received]) -> bool {
    all.iter().any(|one| one.what == LogEvent::Disconnected)
}

#[cfg(feature = "real")]
#[tokio::test]
async fn close_with_open_gateway_leaves_no_thread() {
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
    timeout(EXIT_TIMEOUT, gateway.log().until(is_closed))
        .await
        .expect("the connection ends");
}

#[tokio::test]
async fn close_waits_until_the_gateway_is_disconnected() {
    let (gateway, config) = gateway().await;
    let tool = tool(&load(library()).unwrap(), &config);
    let call = tool.execute(LIST.into(), RNone, RNone);
    let listed: Value = parse(
        timeout(EXIT_TIMEOUT, call.future)
            .await
            .expect("an envelope"),
    );
    assert_eq!(listed["summary"]["gateway"]["state"], "OPEN", "{listed}");
    let closed = tokio::task::spawn_blocking(move || tool.close_and_wait());
    timeout(EXIT_TIMEOUT, closed)
        .await
        .expect("an end")
        .unwrap();
    // The frame was sent before the wait ended, so it arrives even if the process ends.
    let farewell = json!({"/type": "disconnect"});
    let disconnect = gateway.log().frame(1, &farewell);
    let disconnect = timeout(EXIT_TIMEOUT, disconnect).await.expect("a farewell");
    assert_eq!(disconnect["content"]["reason"], "shutdown");
}
