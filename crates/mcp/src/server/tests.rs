#![allow(clippy::unwrap_used)]
use std::sync::atomic::{AtomicUsize, Ordering};

use abi_stable::sabi_trait::TD_Opaque;
use openclaw_remote_agent_interface::{
    Call, ROption, RStr, RString, Tool as Interface, ToolBox, UpdatesBox,
};

use super::*;

/// A tool that is never called.
struct Uncalled;

impl Interface for Uncalled {
    fn definition(&self) -> RString {
        "{}".into()
    }

    fn execute(&self, _: RString, _: ROption<RString>, _: ROption<UpdatesBox>) -> Call {
        unreachable!("the tool is not configured")
    }

    fn close(&self) {}

    fn render(&self, envelope: RStr<'_>) -> RString {
        envelope.into()
    }
}

/// Returns a server with one slot for each client, and how many calls started.
pub(crate) fn server() -> (McpServer, Arc<AtomicUsize>) {
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let unconfigured = Arc::new(ToolBox::from_value(Uncalled, TD_Opaque));
    let tool = Tool::new(unconfigured, move || {
        count.fetch_add(1, Ordering::Relaxed);
        Err("started".to_owned())
    });
    (McpServer::new(tool, Options::default()).limited(1), started)
}

async fn run(
    server: &McpServer,
    request: &Value,
    caller: &Value,
    stop: CancellationToken,
) -> Result<String, String> {
    let slot = server.acquire_slot(caller, &stop).await?;
    server.run_alone(request, caller, slot, stop).await
}

#[tokio::test]
async fn queued_call_of_a_client_that_left_is_not_started() {
    let (server, started) = server();
    let slots = server.slots.clone().unwrap();
    let permit = slots.acquire(String::new()).await;
    let stop = CancellationToken::new();
    let (request, caller) = (json!({"action": "send"}), json!({}));
    let queued = run(&server, &request, &caller, stop.clone());
    tokio::pin!(queued);
    assert!(futures_util::poll!(&mut queued).is_pending());
    stop.cancel();
    assert!(queued.await.unwrap_err().contains("before it started"));
    assert_eq!(started.load(Ordering::Relaxed), 0);

    drop(permit);
    let next = run(&server, &request, &caller, CancellationToken::new());
    assert_eq!(next.await.unwrap_err(), "started");
}

#[tokio::test]
async fn queued_call_ends_with_its_server() {
    let (server, started) = server();
    let slots = server.slots.clone().unwrap();
    let _held = slots.acquire(String::new()).await;
    let (request, caller) = (json!({"action": "send"}), json!({}));
    let queued = run(&server, &request, &caller, CancellationToken::new());
    let (ended, ()) = tokio::join!(queued, server.cancel_calls());
    assert!(ended.is_err());
    assert_eq!(started.load(Ordering::Relaxed), 0);
}

#[test]
fn caller_has_the_delegations_of_the_process_over_every_interface() {
    let (server, _) = server();
    let chain = json!({"hop": 9, "chain": "c"});
    let options = Options {
        agent: Some("main".to_owned()),
        user: Some("anna".to_owned()),
        chain: Some(chain.clone()),
        ..Options::default()
    };
    let server = McpServer::new(server.tool, options);
    for (client, agent, user) in [(Some("ada"), "ada", "mcp:ada"), (None, "main", "anna")] {
        let caller = server.caller(client, Some("trace"));
        let expected = json!({
            "user": user, "update_interval_ms": UPDATE_INTERVAL_MS, "agent_id": agent, "traceparent": "trace", "chain": chain,
        });
        assert_eq!(caller, expected);
    }
}
