//! Cancellation of tasks.

use serde_json::{Value, json};

use super::{Run, task};
use crate::driver::Reply;
use crate::outcome::Outcome;
use crate::peer::{Peer, continuation, request, send_fields};

pub fn canceled_streaming_task_keeps_its_output(mut peer: Peer) -> Run {
    let mut second = peer.second_plugin();
    let call = peer.plugin.begin(&send_fields(
        "begun: alpha",
        json!({"follow_updates": true}),
    ));
    let started = loop {
        match peer.plugin.next(call) {
            // A task without a stream has only the first event.
            Reply::Update(update) if !peer.supports_streaming() || is_artifact(&update) => {
                break update;
            }
            Reply::Update(_) => {}
            Reply::Result(answer) => return Err(Outcome::refused(&answer)),
        }
    };

    let (cancelled, _) = second.call(&request("cancel", &[continuation(&started)]));

    assert_eq!(task(&cancelled)?["status"], "canceled", "{cancelled:#}");
    let answer = loop {
        if let Reply::Result(answer) = peer.plugin.next(call) {
            break answer;
        }
    };
    assert_eq!(task(&answer)?["status"], "canceled", "{answer:#}");
    let artifacts = &answer["summary"]["artifacts"];
    assert_eq!(artifacts[0]["parts"][0]["text"], "alpha", "{answer:#}");
    assert_eq!(artifacts.as_array().map(Vec::len), Some(1), "{answer:#}");
    Ok(Outcome::Green)
}

fn is_artifact(update: &Value) -> bool {
    update["raw"]["kind"] == "artifact-update"
}

pub fn task_in_the_background_is_cancelled(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("slow", json!({"blocking": false}));
    assert_eq!(task(&sent)?["status"], "working", "{sent:#}");

    let cancelled = peer.follow_up("cancel", &sent);

    // Over HTTP+JSON 0.3 the state is `TASK_STATE_CANCELLED`; js03 answers 202 there.
    assert_eq!(task(&cancelled)?["status"], "canceled", "{cancelled:#}");
    assert_eq!(
        cancelled["raw"]["status"]["state"], "canceled",
        "{cancelled:#}"
    );
    let later = peer.follow_up("status", &sent);
    assert_eq!(task(&later)?["status"], "canceled", "{later:#}");
    Ok(Outcome::Green)
}

pub fn finished_task_is_not_cancelled(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("task: gamma", json!({}));
    assert_eq!(task(&sent)?["status"], "completed", "{sent:#}");

    let answer = peer.follow_up("cancel", &sent);

    Ok(Outcome::refused(&answer))
}
