//! Whole tasks.

use serde_json::{Value, json};

use super::{Run, kinds, task};
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::servers::Vendor;

pub fn task_is_waited_for(mut peer: Peer) -> Run {
    let (answer, updates) = peer.send("task: gamma", json!({}));

    assert_is_the_task(&peer, &answer)?;
    assert_eq!(answer["raw"]["status"]["state"], "completed", "{answer:#}");
    assert!(updates.is_empty(), "{updates:#?}");
    Ok(Outcome::Green)
}

pub fn streamed_task_arrives_chunk_by_chunk(mut peer: Peer) -> Run {
    let (answer, updates) = peer.send("task: gamma", json!({"follow_updates": true}));

    assert_is_the_task(&peer, &answer)?;
    if peer.column.vendor == Vendor::OpenClaw {
        return Ok(Outcome::Deviates("whole, not streamed"));
    }
    // Every server sends the same six events. Over HTTP+JSON the first chunk has neither `append` nor `lastChunk`
    // (false is left out); py03 spreads each event over many `data:` lines there.
    let events = [
        "task",
        "status-update",
        "artifact-update",
        "artifact-update",
        "artifact-update",
        "status-update",
    ];
    assert_eq!(kinds(&answer["raw"]["events"]), events, "{answer:#}");
    let last = &answer["raw"]["finalEvent"];
    assert_eq!(last["status"]["state"], "completed", "{answer:#}");
    let raws: Value = updates.iter().map(|update| update["raw"].clone()).collect();
    assert_eq!(raws, answer["raw"]["events"]);
    let states: Vec<&str> = updates
        .iter()
        .map(|update| {
            update["summary"]["continuation"]["task"]["status"]
                .as_str()
                .unwrap()
        })
        .collect();
    let working = ["working"; 4];
    assert_eq!(
        (states[0], &states[1..5], states[5]),
        ("submitted", &working[..], "completed")
    );
    Ok(Outcome::Green)
}

fn assert_is_the_task(peer: &Peer, answer: &Value) -> Result<(), Outcome> {
    let task = task(answer)?;
    assert_eq!(task["status"], "completed", "{answer:#}");
    assert_eq!(task["can_resume_send"], false, "{answer:#}");
    assert_eq!(
        answer["summary"]["message_text"], "alpha beta gamma",
        "{answer:#}"
    );
    let artifacts = &answer["summary"]["artifacts"];
    assert_eq!(artifacts.as_array().map(Vec::len), Some(1), "{answer:#}");
    if peer.column.vendor != Vendor::OpenClaw {
        assert_eq!(artifacts[0]["artifactId"], "answer", "{answer:#}");
        assert_eq!(artifacts[0]["name"], "answer.txt", "{answer:#}");
    }
    Ok(())
}
