//! The status of tasks.

use serde_json::{Value, json};

use super::{Run, task};
use crate::outcome::Outcome;
use crate::peer::{Peer, continuation, request};
use crate::servers::Vendor;

pub fn status_is_read_by_handle(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("task: gamma", json!({}));
    let handle = &task(&sent)?["task_handle"];

    let by_handle = json!({"action": "status", "task_handle": handle});
    let (answer, _) = peer.plugin.call(&by_handle);

    assert_is_the_finished_task(&answer, &sent)?;
    assert_eq!(&task(&answer)?["task_handle"], handle, "{answer:#}");
    Ok(Outcome::Green)
}

pub fn status_is_read_by_task_id(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("task: gamma", json!({}));
    let id = &task(&sent)?["task_id"];

    peer.restart();
    let by_id = json!({"action": "status", "target_alias": "peer", "task_id": id});
    let (answer, _) = peer.plugin.call(&by_id);

    assert_is_the_finished_task(&answer, &sent)?;
    Ok(Outcome::Green)
}

fn assert_is_the_finished_task(answer: &Value, sent: &Value) -> Result<(), Outcome> {
    let (read, made) = (task(answer)?, task(sent)?);
    assert_eq!(read["task_id"], made["task_id"], "{answer:#}");
    assert_eq!(read["status"], "completed", "{answer:#}");
    let artifacts = &answer["raw"]["artifacts"];
    assert_eq!(artifacts, &sent["raw"]["artifacts"], "{answer:#}");
    let text = &answer["summary"]["message_text"];
    assert_eq!(text, "alpha beta gamma", "{answer:#}");
    Ok(())
}

pub fn status_has_requested_history_length(mut peer: Peer) -> Run {
    if peer.column.vendor == Vendor::OpenClaw {
        let (sent, _) = peer.send("task: gamma", json!({}));
        assert_eq!(history(&mut peer, &sent, 10)?, [""; 0]);
        return Ok(Outcome::Deviates("no history"));
    }
    let (question, _) = peer.send("ask: which one?", json!({}));
    let blue = json!({"parts": [{"kind": "text", "text": "blue"}]});
    let answering = request("send", &[continuation(&question), blue]);
    let (answer, _) = peer.plugin.call(&answering);
    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");

    // Servers differ in whether the agent's question is part of the history.
    let mut whole = history(&mut peer, &answer, 10)?;
    let newest = history(&mut peer, &answer, 1)?;
    assert_eq!(newest, whole[whole.len() - 1..]);
    whole.retain(|text| text != "which one?");
    assert_eq!(whole, ["ask: which one?", "blue"]);
    Ok(Outcome::Green)
}

/// Returns the texts of at most this number of a task's messages.
fn history(peer: &mut Peer, answer: &Value, length: u32) -> Result<Vec<String>, Outcome> {
    let length = json!({"history_length": length});
    let request_status = request("status", &[continuation(answer), length]);
    let (status, _) = peer.plugin.call(&request_status);
    task(&status)?;
    let messages = status["raw"]["history"].as_array().into_iter().flatten();
    let text = |message: &Value| message["parts"][0]["text"].as_str().unwrap().to_owned();
    Ok(messages.map(text).collect())
}

pub fn unknown_task_is_refused(mut peer: Peer) -> Run {
    let unknown = json!({"action": "status", "target_alias": "peer", "task_id": "no-such-task"});
    let (answer, _) = peer.plugin.call(&unknown);
    Ok(Outcome::refused(&answer))
}
