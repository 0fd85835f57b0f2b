//! Tasks that end in another state than completed.

use serde_json::{Value, json};

use super::{Run, task};
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::servers::Vendor;

fn streamed() -> Value {
    json!({"follow_updates": true})
}

pub fn failed_task_is_an_answer(peer: Peer) -> Run {
    ends(peer, "fail: no luck", json!({}), "failed", "no luck")
}

pub fn failed_task_arrives_by_stream(peer: Peer) -> Run {
    ends(peer, "fail: no luck", streamed(), "failed", "no luck")
}

pub fn rejected_task_is_an_answer(peer: Peer) -> Run {
    reject(peer, json!({}))
}

pub fn rejected_task_arrives_by_stream(peer: Peer) -> Run {
    reject(peer, streamed())
}

fn reject(peer: Peer, how: Value) -> Run {
    if peer.column.vendor == Vendor::OpenClaw {
        // The channel treats text with a leading slash as a command.
        let expected_text = "A2A peers cannot execute slash commands";
        return ends(peer, "/status", how, "rejected", expected_text);
    }
    ends(peer, "reject: not me", how, "rejected", "not me")
}

pub fn crash_of_agent_is_reported(peer: Peer) -> Run {
    ends(peer, "crash: boom", json!({}), "failed", "boom")
}

pub fn crash_of_agent_during_stream_is_reported(peer: Peer) -> Run {
    ends(peer, "crash: boom", streamed(), "failed", "boom")
}

fn ends(mut peer: Peer, text: &str, how: Value, state: &str, expected_text: &str) -> Run {
    let (answer, _) = peer.send(text, how);

    let task = task(&answer)?;
    if peer.column.vendor == Vendor::OpenClaw && state == "failed" {
        // The model of the agent failed, and the agent reports that in its text.
        assert_eq!(task["status"], "completed", "{answer:#}");
        let text_of_answer = answer["summary"]["message_text"]
            .as_str()
            .unwrap_or_default();
        assert!(text_of_answer.contains("LLM request failed"), "{answer:#}");
        return Ok(Outcome::Deviates("said in a completed task"));
    }
    assert_eq!(task["status"], state, "{answer:#}");
    assert_eq!(task["can_cancel"], false, "{answer:#}");
    let text_of_answer = answer["summary"]["status_message"]
        .as_str()
        .unwrap_or_default();
    assert!(text_of_answer.contains(expected_text), "{answer:#}");
    Ok(Outcome::Green)
}
