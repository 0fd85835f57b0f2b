//! Follows tasks that another instance has started.

use serde_json::json;

use super::{Run, kinds, task};
use crate::driver::Reply;
use crate::outcome::Outcome;
use crate::peer::{Peer, continuation, request};
use crate::sdk::Sdk;
use crate::servers::Vendor;

pub fn second_instance_watches(mut peer: Peer) -> Run {
    // The agent waits for a subscriber before its first event, so only a real subscription ends the task.
    let background = json!({"task_requirement": "required", "blocking": false});
    let (sent, _) = peer.send("watched: gamma", background);
    assert_eq!(task(&sent)?["status"], "working", "{sent:#}");

    let mut second = peer.second_plugin();
    let (answer, updates) = second.call(&request("watch", &[continuation(&sent)]));

    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");
    let text = &answer["summary"]["message_text"];
    assert_eq!(text, "alpha beta gamma", "{answer:#}");
    if peer.column.vendor == Vendor::OpenClaw {
        return Ok(Outcome::Deviates("asked again and again"));
    }
    // py03 subscribes by GET only over HTTP+JSON (POST is 405) and begins with the next event, the others with the task.
    // While a second client is subscribed, py03 stores each later chunk twice: its `tasks/get` would answer
    // `alpha beta beta gamma gamma`, so the text must come from the stream.
    let mut events = vec![
        "artifact-update",
        "artifact-update",
        "artifact-update",
        "status-update",
    ];
    if !peer.is_sdk(Sdk::Py03) {
        events.insert(0, "task");
    }
    assert_eq!(kinds(&answer["raw"]["events"]), events, "{answer:#}");
    assert_eq!(updates.len(), events.len(), "{updates:#?}");
    Ok(Outcome::Green)
}

pub fn watcher_keeps_output_from_before_cancel(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("held: begun", json!({"blocking": false}));
    assert_eq!(task(&sent)?["status"], "working", "{sent:#}");
    let mut second = peer.second_plugin();
    let watch = second.begin(&request("watch", &[continuation(&sent)]));
    // The agent sends this after the subscription.
    loop {
        match second.next(watch) {
            Reply::Update(update)
                if !peer.supports_streaming() || update["raw"]["kind"] == "artifact-update" =>
            {
                break;
            }
            Reply::Update(_) => {}
            Reply::Result(answer) => panic!("the watch ended before the cancel: {answer:#}"),
        }
    }

    let cancelled = peer.follow_up("cancel", &sent);
    assert_eq!(task(&cancelled)?["status"], "canceled", "{cancelled:#}");

    // py03 answers only the client that cancelled. The stream of the subscriber stays open with `: ping` comments until
    // the subscriber polls.
    let answer = loop {
        if let Reply::Result(answer) = second.next(watch) {
            break answer;
        }
    };
    assert_eq!(task(&answer)?["status"], "canceled", "{answer:#}");
    let artifacts = &answer["summary"]["artifacts"];
    assert_eq!(artifacts[0]["parts"][0]["text"], "begun", "{answer:#}");
    Ok(Outcome::Green)
}

pub fn finished_task_can_be_watched(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("task: gamma", json!({}));
    assert_eq!(task(&sent)?["status"], "completed", "{sent:#}");

    let answer = peer.follow_up("watch", &sent);

    // js03 streams the finished task once and ends. The others refuse, py03 over HTTP+JSON by a cut before any event, and
    // answer polls.
    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");
    let text = &answer["summary"]["message_text"];
    assert_eq!(text, "alpha beta gamma", "{answer:#}");
    Ok(Outcome::Green)
}
