//! Following a task that another instance has started.

use serde_json::json;

use super::{Run, kinds, task};
use crate::driver::Reply;
use crate::outcome::Outcome;
use crate::peer::{Peer, continuation, request};
use crate::sdk::Sdk;
use crate::servers::Vendor;

pub fn a_second_instance_watches(mut peer: Peer) -> Run {
    // The agent waits for a subscriber before it says anything: only a real subscription ends this.
    let background = json!({"task_requirement": "required", "blocking": false});
    let (sent, _) = peer.send("watched: gamma", background);
    assert_eq!(task(&sent)?["status"], "working", "{sent:#}");

    let mut second = peer.second_plugin();
    let (answer, updates) = second.call(&request("watch", &[continuation(&sent)]));

    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");
    let text = &answer["summary"]["message_text"];
    assert_eq!(text, "alpha beta gamma", "{answer:#}");
    if peer.column.vendor == Vendor::OpenClaw {
        return Ok(Outcome::But("asked again and again"));
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
    if !peer.is(Sdk::Py03) {
        events.insert(0, "task");
    }
    assert_eq!(kinds(&answer["raw"]["events"]), events, "{answer:#}");
    assert_eq!(updates.len(), events.len(), "{updates:#?}");
    Ok(Outcome::Green)
}

pub fn a_watcher_keeps_what_it_received_before_a_cancel(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("held: begun", json!({"blocking": false}));
    assert_eq!(task(&sent)?["status"], "working", "{sent:#}");
    let mut second = peer.second_plugin();
    let watch = second.begin(&request("watch", &[continuation(&sent)]));
    // The agent says this once the subscription stands.
    loop {
        match second.next(watch) {
            Reply::Update(update)
                if !peer.streams() || update["raw"]["kind"] == "artifact-update" =>
            {
                break;
            }
            Reply::Update(_) => {}
            Reply::Result(answer) => panic!("the watch ended before the cancel: {answer:#}"),
        }
    }

    let cancelled = peer.follow_up("cancel", &sent);
    assert_eq!(task(&cancelled)?["status"], "canceled", "{cancelled:#}");

    // py03 tells only the one who cancelled: the watcher's stream stays open and says nothing but `: ping` for ever,
    // until the watcher asks.
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

pub fn a_finished_task_can_be_watched(mut peer: Peer) -> Run {
    let (sent, _) = peer.send("task: gamma", json!({}));
    assert_eq!(task(&sent)?["status"], "completed", "{sent:#}");

    let answer = peer.follow_up("watch", &sent);

    // js03 streams the finished task once and ends. The others refuse, py03 over HTTP+JSON by a connection that is cut before
    // any event, and tell how the task stands when asked.
    assert_eq!(task(&answer)?["status"], "completed", "{answer:#}");
    let text = &answer["summary"]["message_text"];
    assert_eq!(text, "alpha beta gamma", "{answer:#}");
    Ok(Outcome::Green)
}
