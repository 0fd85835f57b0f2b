//! Calls that follow a task, with scripted peers.

#![allow(clippy::unwrap_used)]

mod cuts;
mod deadline;
mod fake;
mod paced;
mod polled;
mod resubscribed;
mod silent;
mod unreadable;

use serde_json::{Value, json};

use fake::{Fixture, PollReply, Script, StreamEnd, SubscribeReply, piece, task};

fn send() -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": "hi"}], "follow_updates": true})
}

fn required() -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": "hi"}], "follow_updates": true, "task_requirement": "required"})
}

fn watch() -> Value {
    json!({"action": "watch", "target_alias": "agent", "task_id": "t"})
}

fn within(mut request: Value, ms: u64) -> Value {
    request["timeout_ms"] = ms.into();
    request
}

fn state(result: &Value) -> &Value {
    &result["summary"]["continuation"]["task"]["status"]
}

fn text(result: &Value) -> &Value {
    &result["summary"]["message_text"]
}

/// Returns a peer that streams: these connections, then these answers to polls.
fn streams(subscriptions: Vec<SubscribeReply>, polls: Vec<PollReply>) -> Fixture {
    Fixture::new(Script {
        streaming: Some(true),
        subscriptions,
        polls,
        ..Script::default()
    })
}

/// Returns a stream with one piece of a working task, which then breaks or ends.
fn first_events(end: StreamEnd) -> SubscribeReply {
    SubscribeReply::Events(
        vec![task("working", json!([])), piece("a", "one ", false)],
        end,
    )
}
