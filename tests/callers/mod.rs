//! Callers: targets for some agents only, chains of delegations, traces and the audit log.

mod agents;
mod audit;
mod budget;
mod delegation;
pub(crate) use crate::support::in_process;
pub(crate) use testkit::folder;
mod jsonl;
pub(crate) use crate::support::tool_fixture;
mod trace;

use openclaw_remote_agent::plugin::CallInput;
use serde_json::{Value, json};
use testkit::conformance::{Peers, peers::Recorded};

use tool_fixture::{
    ToolFixture, card, message, parse, peers, result, status, task, within_timeout,
};

/// Runs a call on behalf of `caller` to its end.
async fn call(fixture: &ToolFixture, caller: &Value, request: &Value) -> Value {
    let input = CallInput {
        request: request.to_string(),
        caller: Some(caller.to_string()),
        ..CallInput::default()
    };
    parse(&within_timeout(fixture.plugin.start(input)).await)
}

/// Returns a peer, `main`, that answers `send` with a message or, if it streams, with a completed task.
pub(crate) async fn start_desk() -> Peers {
    let events = json!([{"sse": [result(task("working")), result(status("completed", true))]}]);
    let rpc = json!({
        "message/send": result(message("pong")),
        "message/stream": events,
        "tasks/get": result(task("working")),
        "tasks/resubscribe": events,
        "tasks/cancel": result(task("canceled")),
    });
    peers(json!({"main": {"card": card(), "rpc": rpc}})).await
}

/// Returns the requests to the peer's interface, without those for its card.
pub(crate) fn received_calls(peers: &Peers) -> Vec<Recorded> {
    let all = peers.log("main").into_iter();
    all.filter(|request| request.method == "POST").collect()
}
