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
    answer_continues_task(peer, "ask: which one?", "input-required", &json!({}))
}

pub fn question_is_answered_by_stream_after_a_restart(peer: Peer) -> Run {
    if peer.column.vendor == Vendor::OpenClaw {
        return continue_a_task(peer, json!({"follow_updates": true}));
    }
    // Every server ends the stream at the question.
    answer_continues_task(
        peer,
        "ask: which one?",
        "input-required",
        &json!({"follow_updates": true}),
    )
}

pub fn task_awaiting_authorization_reports_it(peer: Peer) -> Run {
    answer_continues_task(peer, "auth: which one?", "auth-required", &json!({}))
}

pub fn task_awaiting_authorization_ends_stream(peer: Peer) -> Run {
    answer_continues_task(
        peer,
        "auth: which one?",
        "auth-required",
        &json!({"follow_updates": true}),
    )
}

fn answer_continues_task(mut peer: Peer, text: &str, state: &str, how: &Value) -> Run {
    let (question, _) = peer.send(text, how.clone());
    let question_task = task(&question)?;
    assert_eq!(question_task["status"], state, "{question:#}");
    assert_eq!(question_task["can_resume_send"], true, "{question:#}");
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

    let answered_task = task(&answer)?;
    assert_eq!(
        answered_task["task_id"], question_task["task_id"],
        "{answer:#}"
    );
    assert_eq!(answered_task["status"], "completed", "{answer:#}");
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
    Ok(Outcome::Deviates("starts a new task"))
}
