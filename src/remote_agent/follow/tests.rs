//! Calls that follow a task, with scripted peers.

#![allow(clippy::unwrap_used)]

mod answers;
mod cuts;
mod deadline;
mod fake;
mod paced;
mod person;
mod polled;
mod resubscribed;
mod silent;
mod unavailable;
mod unreadable;

use serde_json::{Value, json};

use crate::remote_agent::PollIntervals;
use fake::{Fixture, PollReply, Script, StreamEnd, SubscribeReply, artifact, piece, quick, task};

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
    streams_at(quick(), subscriptions, polls)
}

fn streams_at(
    intervals: PollIntervals,
    subscriptions: Vec<SubscribeReply>,
    polls: Vec<PollReply>,
) -> Fixture {
    let script = Script {
        streaming: Some(true),
        subscriptions,
        polls,
        ..Script::default()
    };
    Fixture::at(intervals, script)
}

/// Returns a peer with one stream.
fn streamed(events: Vec<Value>, end: StreamEnd, polls: Vec<PollReply>) -> Fixture {
    streams(vec![SubscribeReply::Events(events, end)], polls)
}

/// Returns a peer whose stream ends after [`first_events`] and can be resubscribed to.
fn resumed(first: StreamEnd, rest: Vec<Value>, end: StreamEnd, polls: Vec<PollReply>) -> Fixture {
    let rest = SubscribeReply::Events(rest, end);
    streams(vec![first_events(first), rest], polls)
}

/// Returns a peer without streams that answers a message with this task.
fn polled(answer: Value, polls: Vec<PollReply>) -> Fixture {
    Fixture::new(Script {
        streaming: Some(false),
        answer: Some(answer),
        polls,
        ..Script::default()
    })
}

/// Returns the completed task with the artifact `a` of these parts.
fn completed(texts: &[&str]) -> PollReply {
    PollReply::Task(task("completed", json!([artifact("a", texts)])))
}

/// Returns a stream with one piece of a working task, which then breaks or ends.
fn first_events(end: StreamEnd) -> SubscribeReply {
    SubscribeReply::Events(
        vec![task("working", json!([])), piece("a", "one ", false)],
        end,
    )
}
