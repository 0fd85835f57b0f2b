//! Tasks that wait for the caller.

use serde_json::{Value, json};

use super::{Run, task};
use crate::outcome::Outcome;
use crate::peer::{Peer, continuation, request};
use crate::servers::Vendor;

pub fn question_is_answered_after_a_restart(peer: Peer) -> Run {
    if peer.column.vendor == Vendor::OpenClaw {
        return continue_a_task(peer, json!({}));
    }
    waits_and_goes_on(peer, "ask: which one?", "input-required", &json!({}))
}

pub fn question_is_answered_by_stream_after_a_restart(peer: Peer) -> Run {
    if peer.column.vendor == Vendor::OpenClaw {
        return continue_a_task(peer, json!({"follow_updates": true}));
    }
    // Every server ends the stream at the question.
    waits_and_goes_on(
        peer,
        "ask: which one?",
        "input-required",
        &json!({"follow_updates": true}),
    )
}

pub fn task_awaiting_authorization_reports_it(peer: Peer) -> Run {
    waits_and_goes_on(peer, "auth: which one?", "auth-required", &json!({}))
}

pub fn task_awaiting_authorization_ends_stream(peer: Peer) -> Run {
    waits_and_goes_on(
        peer,
        "auth: which one?",
        "auth-required",
        &json!({"follow_updates": true}),
    )
}

fn waits_and_goes_on(mut peer: Peer, text: &str, state: &str, how: &Value) -> Run {
    let (question, _) = peer.send(text, how.clone());
    let asked = task(&question)?;
    assert_eq!(asked["status"], state, "{question:#}");
    assert_eq!(asked["can_resume_send"], true, "{question:#}");
    assert_eq!(
        question["summary"]["status_message"], "which one?",
        "{question:#}"
    );

    peer.restart();
    let blue = json!({"parts": [{"kind": "text", "text": "blue"}]});
    let (answer, _) = peer.plugin.call(&request(
        "send",
        &[continuation(&question), blue, how.clone()],
    ));

    let answered = task(&answer)?;
    assert_eq!(answered["task_id"], asked["task_id"], "{answer:#}");
    assert_eq!(answered["status"], "completed", "{answer:#}");
    assert_eq!(
        answer["summary"]["message_text"], "you said blue",
        "{answer:#}"
    );
    Ok(Outcome::Green)
}

/// Checks that the channel never requires input, and ignores the task of a message.
fn continue_a_task(mut peer: Peer, mut how: Value) -> Run {
    let (sent, _) = peer.send("task: gamma", json!({}));
    let id = &task(&sent)?["task_id"];

    how["task_id"] = id.clone();
    let (answer, _) = peer.send("message: blue", how);

    let made = task(&answer)?;
    assert_ne!(&made["task_id"], id, "{answer:#}");
    assert_eq!(answer["summary"]["message_text"], "blue", "{answer:#}");
    Ok(Outcome::But("starts a new task"))
}
